"""The rules of a recipe's `[cleaning]` table, which remove pairs that are not worth training on.

`verdicts` judges many pairs at once, each by itself. Rules that need the whole corpus (duplicates, leaks) are applied
in preparation.py.
"""

import re
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from weft.config import Settings
from weft.data import measures
from weft.data.keys import keys_of
from weft.text.chinese import convert_script, is_chinese
from weft.text.language import is_in_words_of_characters


class CleaningConfig(Settings):
    min_length: int = Field(default=1, ge=0)
    """Shortest side, in characters of Chinese or Japanese, words of other languages. 0 also keeps punctuation alone."""
    max_length: int = Field(default=200, ge=1)
    """Longest side, in the same units as `min_length`."""
    max_ratio: float = Field(default=4.0, gt=1)
    """Largest length ratio of the two sides, relative to the usual ratio of the two languages."""
    min_script: float = Field(default=0.2, ge=0, le=1)
    """Least share of each side in the script of its language, not counting words that both sides have (0: off)."""
    copies: bool = True
    """Remove pairs whose sides are the same text."""
    mojibake: bool = True
    """Remove pairs with text that was decoded with the wrong encoding."""
    markup: bool = True
    """Remove pairs with markup, such as tags and entities."""
    repetition: bool = True
    """Remove pairs in which one side repeats a letter or a word many times and the other repeats nothing."""
    numbers: bool = False
    """Remove pairs with a number on one side that the other lacks. Some good translations round or omit numbers."""
    target_script: Literal["keep", "simplified", "traditional"] = "keep"
    """Remove pairs whose Chinese target has characters that only the other script has (keep: off)."""
    cross_entropy: float = Field(default=0.0, ge=0, lt=1)
    """Remove pairs that n-gram models score as noise: another domain, corrupted characters, truncated text, shuffled
    words. The threshold is where this share of the pairs of data.valid would be removed. 0: off; 0.035 is a good value.
    """
    dual_cross_entropy: float = Field(default=0.0, ge=0, lt=1)
    """Remove pairs whose sides do not translate each other, by a lexicon (IBM model 1) learned from all pairs. The
    threshold is where this share of the pairs of data.valid would be removed. 0: off; 0.015 is a good value."""
    duplicates: bool = True
    """Remove pairs that equal an earlier pair up to case, width, Chinese script, spaces and punctuation."""
    leaks: bool = True
    """Remove training pairs that share a side with a pair of data.valid, compared as for `duplicates`."""


LATIN_WORD = re.compile(r"[A-Za-z\u00c0-\u024f]+")
SAID_AGAIN = re.compile(
    r"(?<![A-Za-z\u00c0-\u052f])([^\W\d_]{2,20})[\s,.!?、，。！？-]*\1(?![A-Za-z\u00c0-\u052f])|(\w{1,20})(?:[\s,.!?、，。！？-]*\2){2}",
    re.IGNORECASE,
)
"""A word or half a word twice (Beep beep, Haha), or anything three times."""
USUAL_RATIO = 1.6
"""Chinese characters per word of another language: 1.56 in 47,500 pairs of Tatoeba and dialogue."""
SLACK = 4
"""Chinese characters (2.5 words) by which a side may exceed the ratio: one of two short sentences is often twice as
long as the other."""


class Pairs:
    """A batch of pairs with their measurements, computed on first use."""

    def __init__(self, sources: Sequence[str], targets: Sequence[str], languages: tuple[str, str]) -> None:
        self.sources, self.targets, self.languages = sources, targets, languages

    def __len__(self) -> int:
        return len(self.sources)

    @cached_property
    def counts(self) -> tuple[dict[str, NDArray[np.int64]], dict[str, NDArray[np.int64]]]:
        return measures.count_characters(self.sources), measures.count_characters(self.targets)

    @cached_property
    def lengths(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Length of each side: characters of Chinese or Japanese, words of other languages."""
        source, target = (measures.length(c, lang) for c, lang in zip(self.counts, self.languages, strict=True))
        return source, target

    def places(self, found: Sequence[int] | NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return a mask that is True at these places."""
        there = np.zeros(len(self), bool)
        there[np.asarray(found, np.int64)] = True
        return there


def is_too_short(pairs: Pairs, config: CleaningConfig) -> NDArray[np.bool_]:
    return np.minimum(*pairs.lengths) < config.min_length


def is_too_long(pairs: Pairs, config: CleaningConfig) -> NDArray[np.bool_]:
    return np.maximum(*pairs.lengths) > config.max_length


def is_out_of_proportion(pairs: Pairs, config: CleaningConfig) -> NDArray[np.bool_]:
    units = [1.0 if is_in_words_of_characters(language) else USUAL_RATIO for language in pairs.languages]
    source, target = (unit * lengths for unit, lengths in zip(units, pairs.lengths, strict=True))
    return np.maximum(source, target) > config.max_ratio * np.minimum(source, target) + SLACK


def is_in_another_script(pairs: Pairs, config: CleaningConfig) -> NDArray[np.bool_]:
    few = np.flatnonzero(least_script(pairs) < config.min_script)
    texts = [without_common_words(pairs.sources[place], pairs.targets[place]) for place in few.tolist()]
    rest = Pairs([source for source, _ in texts], [target for _, target in texts], pairs.languages)
    has_letters = np.minimum(*(counts["letters"] for counts in rest.counts)) > 0
    return pairs.places(few[~has_letters | (least_script(rest) < config.min_script)])


def least_script(pairs: Pairs) -> NDArray[np.float64]:
    """For each pair the smaller of the two sides' shares of their language's script."""
    shares = (measures.share_of_script(c, lang) for c, lang in zip(pairs.counts, pairs.languages, strict=True))
    return np.minimum(*shares)


def without_common_words(source: str, target: str) -> tuple[str, str]:
    """Remove the Latin-letter words that both texts have, such as names."""
    common = {word.lower() for word in LATIN_WORD.findall(source)} & {
        word.lower() for word in LATIN_WORD.findall(target)
    }

    def rest(found: re.Match[str]) -> str:
        return "" if found[0].lower() in common else found[0]

    return LATIN_WORD.sub(rest, source), LATIN_WORD.sub(rest, target)


def is_copy(pairs: Pairs, config: CleaningConfig) -> NDArray[np.bool_]:
    """Whether the sides are equal; texts without letters, such as numbers, may be equal in any two languages."""
    source, target = keys_of(pairs.sources), keys_of(pairs.targets)
    alike = (source == target) & (source != 0) & (pairs.counts[0]["letters"] > 0)
    return alike & ~measures.may_be_alike(pairs.sources, pairs.targets, pairs.languages)


def is_mojibake(pairs: Pairs, config: CleaningConfig) -> NDArray[np.bool_]:
    return pairs.places([p for texts in (pairs.sources, pairs.targets) for p in measures.texts_with_mojibake(texts)])


def has_markup(pairs: Pairs, config: CleaningConfig) -> NDArray[np.bool_]:
    found = [measures.texts_with(measures.MARKUP, texts) for texts in (pairs.sources, pairs.targets)]
    return pairs.places(np.concatenate(found))


def repeats(pairs: Pairs, config: CleaningConfig) -> NDArray[np.bool_]:
    """Whether a side repeats many times and the other side does not repeat; if both do, the speaker did."""
    found: list[int] = []
    for texts, others in ((pairs.sources, pairs.targets), (pairs.targets, pairs.sources)):
        places: list[int] = measures.texts_with(measures.REPETITION, texts).tolist()
        found += [place for place in places if not SAID_AGAIN.search(others[place])]
    return pairs.places(found)


def has_other_numbers(pairs: Pairs, config: CleaningConfig) -> NDArray[np.bool_]:
    return pairs.places(list(measures.pairs_with_other_numbers(pairs.sources, pairs.targets, *pairs.languages)))


def is_in_the_other_chinese_script(pairs: Pairs, config: CleaningConfig) -> NDArray[np.bool_]:
    """Whether the target has characters of the other script.

    A single character may be misleading (乾隆, 征服), so texts that have one are converted as a whole.
    """
    script = config.target_script
    if not is_chinese(pairs.languages[1]):
        return pairs.places([])
    other = "traditional" if script == "simplified" else "simplified"
    places: list[int] = np.flatnonzero(pairs.counts[1][other] > 0).tolist()
    return pairs.places([p for p in places if convert_script(pairs.targets[p], script) != pairs.targets[p]])


Rule = Callable[[Pairs, CleaningConfig], NDArray[np.bool_]]

RULES: dict[str, Rule] = {
    "min_length": is_too_short,
    "max_length": is_too_long,
    "max_ratio": is_out_of_proportion,
    "min_script": is_in_another_script,
    "copies": is_copy,
    "mojibake": is_mojibake,
    "markup": has_markup,
    "repetition": repeats,
    "numbers": has_other_numbers,
    "target_script": is_in_the_other_chinese_script,
}
"""Key of `[cleaning]` -> predicate of the pairs that its rule removes."""

OFF = {"min_length": 0, "min_script": 0.0, "target_script": "keep"}
"""The value that turns a rule off, if it is not False."""


def verdicts(pairs: Pairs, config: CleaningConfig) -> NDArray[np.int8]:
    """Return the number of the first rule that removes each pair, from 1 in the order of RULES; 0 if none does."""
    found = np.zeros(len(pairs), np.int8)
    for number, (key, breaks) in enumerate(RULES.items(), start=1):
        if getattr(config, key) != OFF.get(key, False):
            found[(found == 0) & breaks(pairs, config)] = number
    return found
