"""Noise on texts that somebody might really type: what a model that knows only clean sentences is tested with.

What becomes of a text is a function of (kind, seed, number of the text) alone. Noise for training, on pieces and drawn
anew for every epoch, is in augmentation.py.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random

from weft.data.augmentation import other_casing, other_punctuation
from weft.text.chinese import convert_script, is_chinese
from weft.text.sentence_splitting import joins_without_space

SHARE = 0.1
"""How many of a text's letters typos and dropped characters hit; one at least."""

GREETINGS = {"zh": ("你好，", "，你好"), "en": ("Hello, ", ", hello")}
"""What is put before and after a text, by its language; of another language in English."""


def typos(text: str, random: Random) -> str:
    """Letters that change places with the one behind them."""
    characters = list(text)
    places = [
        place for place, (one, other) in enumerate(pairwise(text)) if one.isalnum() and other.isalnum() and one != other
    ]
    for place in chosen(places, random):
        characters[place : place + 2] = characters[place : place + 2][::-1]
    return "".join(characters)


def dropped_characters(text: str, random: Random) -> str:
    """Letters that are left out; one stays in any case."""
    places = [place for place, character in enumerate(text) if character.isalnum()]
    left_out = set(chosen(places, random)) if len(places) > 1 else set()
    return "".join(character for place, character in enumerate(text) if place not in left_out)


def chosen(places: Sequence[int], random: Random) -> list[int]:
    count = max(1, round(SHARE * len(places)))
    return sorted(random.sample(places, min(count, len(places))))


def other_script(text: str) -> str:
    """Traditional for Simplified; Simplified for what is not changed by that."""
    traditional = convert_script(text, "traditional")
    return traditional if traditional != text else convert_script(text, "simplified")


def with_greeting_before(text: str, language: str) -> str:
    return greetings(language)[0] + text


def with_greeting_after(text: str, language: str) -> str:
    """Between the text and the signs that end it."""
    said = text.rstrip(".!?。！？…")
    return said + greetings(language)[1] + (text[len(said) :] or "")


def greetings(language: str) -> tuple[str, str]:
    return GREETINGS["zh" if is_chinese(language) else "en"]


def noises_of(language: str) -> dict[str, Callable[[str, Random], str]]:
    """The kinds of noise that there are for sources of this language, each from a text to another."""
    return {
        "typos": typos,
        "dropped characters": dropped_characters,
        **({"other script": lambda text, _: other_script(text)} if is_chinese(language) else {}),
        "casing": other_casing,
        "punctuation": other_punctuation,
        "greeting before": lambda text, _: with_greeting_before(text, language),
        "greeting after": lambda text, _: with_greeting_after(text, language),
    }


def noisy(texts: Sequence[str], kind: str, language: str, seed: int) -> list[str]:
    """The texts with one kind of noise of `noises_of`."""
    change = noises_of(language)[kind]
    return [change(text, Random(f"{seed} {kind} {number}")) for number, text in enumerate(texts)]


def joined(first: str, second: str, language: str) -> str:
    """Two sentences as one text; of Chinese and Japanese without a space between."""
    return ("" if joins_without_space(language) else " ").join((first, second))
