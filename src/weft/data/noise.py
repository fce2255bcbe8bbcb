"""Noise on texts, like real typing errors, to test the robustness of a model.

The noise on a text depends only on (kind, seed, number of the text). Noise for training, on pieces and drawn anew for
every epoch, is in augmentation.py.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random

from weft.data.augmentation import other_casing, other_punctuation
from weft.text.chinese import convert_script, is_chinese
from weft.text.language import is_in_words_of_characters

SHARE = 0.1
"""Share of the letters of a text that typos and dropped characters change; at least one letter."""

FULL_WIDTH = {code: code + 0xFEE0 for code in range(0x21, 0x7F) if chr(code).isalnum()}
"""ASCII letters and digits -> their full-width forms."""

GREETINGS = {"zh": ("你好，", "，你好"), "en": ("Hello, ", ", hello")}
"""Language -> what is put before and after a text; other languages get the English one."""


def typos(text: str, random: Random) -> str:
    """Swap some letters with the next one."""
    characters = list(text)
    places = [
        place for place, (one, other) in enumerate(pairwise(text)) if one.isalnum() and other.isalnum() and one != other
    ]
    for place in chosen(places, random):
        characters[place : place + 2] = characters[place : place + 2][::-1]
    return "".join(characters)


def dropped_characters(text: str, random: Random) -> str:
    """Delete some letters, but not the only one."""
    places = [place for place, character in enumerate(text) if character.isalnum()]
    left_out = set(chosen(places, random)) if len(places) > 1 else set()
    return "".join(character for place, character in enumerate(text) if place not in left_out)


def chosen(places: Sequence[int], random: Random) -> list[int]:
    count = max(1, round(SHARE * len(places)))
    return sorted(random.sample(places, min(count, len(places))))


def other_script(text: str) -> str:
    """Convert to Traditional, or to Simplified if the text is Traditional already."""
    traditional = convert_script(text, "traditional")
    return traditional if traditional != text else convert_script(text, "simplified")


def with_greeting_after(text: str, greeting: str) -> str:
    """Insert the greeting before the final punctuation."""
    said = text.rstrip(".!?。！？…")
    return said + greeting + text[len(said) :]


def noises_of(language: str) -> dict[str, Callable[[str, Random], str]]:
    """Return the kinds of noise for sources of this language: name -> function of a text."""
    before, after = GREETINGS["zh" if is_chinese(language) else "en"]
    return {
        "typos": typos,
        "dropped characters": dropped_characters,
        **({"other script": lambda text, _: other_script(text)} if is_chinese(language) else {}),
        "casing": other_casing,
        "punctuation": other_punctuation,
        "apostrophe": lambda text, _: text.replace("'", "’"),
        "width": lambda text, _: text.translate(FULL_WIDTH),
        "capitals": lambda text, _: text.upper(),
        "greeting before": lambda text, _: before + text,
        "greeting after": lambda text, _: with_greeting_after(text, after),
    }


def noisy(texts: Sequence[str], kind: str, language: str, seed: int) -> list[str]:
    """Return the texts with one kind of noise of `noises_of`."""
    change = noises_of(language)[kind]
    return [change(text, Random(f"{seed} {kind} {number}")) for number, text in enumerate(texts)]


def joined(first: str, second: str, language: str) -> str:
    """Join two sentences to one text, without a space in Chinese and Japanese."""
    return ("" if is_in_words_of_characters(language) else " ").join((first, second))
