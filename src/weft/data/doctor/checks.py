"""The checks of single pairs, vectorized over many pairs. They do not depend on the rest of the corpus."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.data.measures import (
    DIRECTION_MARKS,
    LONGEST_NAME,
    MARKUP,
    REPETITION,
    count_characters,
    length,
    may_be_alike,
    other_language,
    pairs_with_other_numbers,
    script_of,
    share_of_script,
    texts_with,
    texts_with_mojibake,
    tokens,
)
from weft.text.chinese import converter, is_chinese
from weft.text.language import code_of, is_in_words_of_characters, is_written_without_spaces
from weft.text.normalization import is_blank

OWN_SCRIPT = 0.2
"""A text with less than this share in the script of its language is in another language."""
OTHER_SCRIPT = 0.6
"""Sides are swapped if each has more than this share in the script of the other language."""
FOREIGN_SHARE = 0.15
"""Chinese text with at least this share of kana or hangul is Japanese or Korean."""
LONG_WORDS, LONG_CHARACTERS = 120, 200

Places = NDArray[np.int64]
Tokens = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Checked:
    """The results for a chunk of pairs, and its measurements that checks of the whole corpus need."""

    found: dict[str, Places]
    """Kind of problem -> indices in the chunk."""
    other_numbers: dict[int, str]
    """Index -> the numbers that one side lacks."""
    lengths: NDArray[np.int32]
    """(pairs, 2): the length of each side."""
    scripts: dict[str, tuple[NDArray[np.bool_], NDArray[np.bool_]]]
    """Script (traditional, simplified) -> for each side, whether a text has such characters."""


def check(
    sources: Sequence[str],
    targets: Sequence[str],
    source_tokens: Tokens,
    target_tokens: Tokens,
    languages: tuple[str, str],
) -> Checked:
    """Run all checks on these pairs; the tokens are those of `measures.tokens`."""
    texts, counts = (sources, targets), (count_characters(sources), count_characters(targets))
    lengths = [length(of_side, language) for of_side, language in zip(counts, languages, strict=True)]
    scripts = {name: (counts[0][name] > 0, counts[1][name] > 0) for name in ("traditional", "simplified")}
    numbers = pairs_with_other_numbers(sources, targets, *languages)
    empty = np.array([is_blank(a) or is_blank(b) for a, b in zip(sources, targets, strict=True)], bool)
    found = check_languages(counts, texts, (source_tokens, target_tokens), empty, languages)
    wordless = [of_side["letters"] + of_side["digits"] == 0 for of_side in counts]
    found["no words"] = np.flatnonzero((wordless[0] | wordless[1]) & ~empty)
    for kind, character in (("line break", "line breaks"), ("full width", "full width")):
        found[kind] = np.flatnonzero(counts[0][character] + counts[1][character])
    controls = [strange_controls(*of_side) for of_side in zip(counts, texts, languages, strict=True)]
    found["control"] = np.flatnonzero(controls[0] + controls[1])
    for kind, pattern in (("markup", MARKUP), ("repetition", REPETITION)):
        found[kind] = np.union1d(*(texts_with(pattern, side) for side in texts))
    found["mojibake"] = np.union1d(*map(texts_with_mojibake, texts)).astype(np.int64)
    found["numbers"] = np.array(sorted(numbers), np.int64)
    limits = [LONG_CHARACTERS if is_in_words_of_characters(code) else LONG_WORDS for code in languages]
    found["long"] = np.flatnonzero((lengths[0] > limits[0]) | (lengths[1] > limits[1]))
    chinese = [side for side, language in enumerate(languages) if is_chinese(language)]
    mixed = [scripts["traditional"][side] & scripts["simplified"][side] for side in chinese]
    suspects = np.flatnonzero(np.any(mixed, 0)) if mixed else np.zeros(0, np.int64)
    found["mixed scripts"] = np.array(
        [place for place in suspects.tolist() if any(mixes_scripts(texts[side][place]) for side in chinese)], np.int64
    )
    notes = {place: ", ".join(f"{number:,.15g}" for number in missing) for place, missing in numbers.items()}
    return Checked(found, notes, np.stack(lengths, 1).astype(np.int32), scripts)


def strange_controls(counts: dict[str, Places], texts: Sequence[str], language: str) -> NDArray[np.int64]:
    """Return the number of control characters of each text, except those that its language is written with: U+200B in
    languages that separate words by it, direction marks in languages written from right to left."""
    usual = ""
    if is_written_without_spaces(language) and not is_in_words_of_characters(language):
        usual = "\u200b"
    elif script_of(language) in (("arabic",), ("hebrew",)):
        usual = DIRECTION_MARKS
    if not usual:
        return counts["controls"]
    return counts["controls"] - np.fromiter((sum(map(text.count, usual)) for text in texts), np.int64, len(texts))


def mixes_scripts(text: str) -> bool:
    """Whether both conversions change a text; a single character may be misleading (乾隆)."""
    return all(converter(name).convert(text) != text for name in ("t2s", "s2t"))


def check_languages(
    counts: tuple[dict[str, Places], dict[str, Places]],
    texts: tuple[Sequence[str], Sequence[str]],
    words: tuple[Tokens, Tokens],
    empty: NDArray[np.bool_],
    languages: tuple[str, str],
) -> dict[str, Places]:
    """Find empty sides, copies, swapped sides, and sides in another language."""
    copies = are_copies(*words) & ~may_be_alike(*texts, languages)
    wrong, as_the_other = [], []
    for side, (language, other) in enumerate((languages, languages[::-1])):
        of_script = in_other_script(counts[side], share_of_script(counts[side], language), language)
        by_words = [
            other_language(text, of_text, language) if script_of(language) == ("latin",) else None
            for text, of_text in zip(texts[side], words[side], strict=True)
        ]
        wrong.append(of_script | np.array([name is not None for name in by_words], bool))
        if script_of(language) == script_of(other):
            as_the_other.append(np.array([name == code_of(other) for name in by_words], bool))
        else:
            as_the_other.append(of_script & (share_of_script(counts[side], other) > OTHER_SCRIPT))
    swapped = as_the_other[0] & as_the_other[1]
    return {
        "empty": np.flatnonzero(empty),
        "copy": np.flatnonzero(copies & ~empty),
        "swapped": np.flatnonzero(swapped & ~copies & ~empty),
        "wrong language": np.flatnonzero((wrong[0] | wrong[1]) & ~swapped & ~copies & ~empty),
    }


def in_another_language(texts: Sequence[str], language: str) -> NDArray[np.bool_]:
    """Return a mask of the texts in another language, by their script or their function words."""
    counts = count_characters(texts)
    by_words = [other_language(text, tokens(text), language) is not None for text in texts]
    return in_other_script(counts, share_of_script(counts, language), language) | np.array(by_words, bool)


def in_other_script(
    counts: dict[str, NDArray[np.int64]], own_share: NDArray[np.float64], language: str
) -> NDArray[np.bool_]:
    """Return a mask of the texts of at least four letters that are hardly in the script of the language.

    Includes Japanese and Korean text where Chinese is expected.
    """
    letters = counts["letters"]
    wrong = (own_share < OWN_SCRIPT) & (letters >= 4)
    if script_of(language) == ("han",):
        foreign = counts["kana"] + counts["hangul"]
        wrong |= (foreign >= 2) & (foreign >= FOREIGN_SHARE * letters)
    if script_of(language) == ("latin",):
        foreign = letters - counts["latin"]
        wrong |= (foreign >= 2) & (foreign >= 0.5 * letters)
    return wrong


def are_copies(sources: Tokens, targets: Tokens) -> NDArray[np.bool_]:
    """Return a mask of the pairs whose sides have the same words, except numbers and short names."""
    return np.fromiter(
        (
            source == target
            and (len(source) > 1 or len("".join(source)) > LONGEST_NAME)
            and any(map(str.isalpha, source))
            for source, target in zip(sources, targets, strict=True)
        ),
        np.bool_,
        len(sources),
    )
