"""Faults of translations that scores do not show: empty, copied, in a loop, too long, in a wrong script, or with other
numbers than the source.

Each fault is found by a rule, without a model, and only if it is obvious. The rate of the same faults in the references
estimates the error of the rule.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from weft.data.doctor.checks import are_copies, in_other_script
from weft.data.measures import count_characters, length, may_be_alike, pairs_with_other_numbers, share_of_script, tokens
from weft.figures.table import Table
from weft.text.chinese import Script, is_chinese
from weft.text.normalization import is_blank
from weft.text.punctuation import PROTECTED

COPIED_RUN = 5
"""A run of this many words of the source is too long to be a name."""
LOOPS = {1: 4}
LOOP = 3
"""A phrase repeated three times in a row is a loop; a single word, which people do say thrice, needs four."""
LONGEST_LOOP = 30
ADDRESS = " 0 "
"""Replaces a URL or an e-mail address: one word without a script, which any translation may contain."""
TOO_LONG, TOO_LONG_EXTRA = 2, 5
"""Too long means over twice the length of the longest reference plus five words (in Chinese: characters)."""

FAULTS = {
    "empty": "nothing at all for a source that says something",
    "copied": f"the source itself, or {COPIED_RUN} words of it in a row",
    "in a loop": f"the same words {LOOP} times in a row, or one word {LOOPS[1]} times, and no such loop in the source",
    "other numbers": "a number that the source does not have, or none where it has one",
    "wrong script": "hardly in the script of the language; in Chinese also Traditional for Simplified, or the reverse",
    "too long": f"more than {TOO_LONG} times the longest reference and {TOO_LONG_EXTRA} words",
}

Booleans = NDArray[np.bool_]


@dataclass(frozen=True)
class Faults:
    """For each of FAULTS, the sentences of a system and of the references that have it."""

    found: Mapping[str, Booleans]
    in_references: Mapping[str, Booleans]

    @cached_property
    def any(self) -> Booleans:
        """Sentences of the system with at least one fault."""
        return np.any(list(self.found.values()), axis=0)

    def rate(self, fault: str) -> float:
        return float(self.found[fault].mean())

    def as_dict(self) -> dict[str, dict[str, float | int]]:
        """For JSON: for each fault the number of sentences with it, their share, and the share of the references."""
        return {
            name: {
                "sentences": int(found.sum()),
                "rate": self.rate(name),
                "rate_of_references": float(self.in_references[name].mean()),
            }
            for name, found in self.found.items()
        }


def find_faults(
    hypotheses: Sequence[str],
    sources: Sequence[str],
    references: Sequence[Sequence[str]],
    languages: tuple[str, str],
) -> Faults:
    """Find the faults of translations and, in the same way, of the first reference of each sentence.

    `references` are sets of lines, blank where a sentence has fewer; `languages` are source and target.
    """
    first = [next(line for line in lines if not is_blank(line)) for lines in zip(*references, strict=True)]
    return Faults(
        faults_of(hypotheses, sources, references, first, languages),
        faults_of(first, sources, references, first, languages),
    )


def faults_of(
    hypotheses: Sequence[str],
    sources: Sequence[str],
    references: Sequence[Sequence[str]],
    first_references: Sequence[str],
    languages: tuple[str, str],
) -> dict[str, Booleans]:
    written = [PROTECTED.sub(ADDRESS, text) for text in hypotheses]
    source_tokens = [tokens(PROTECTED.sub(ADDRESS, source)) for source in sources]
    words = [tokens(text) for text in written]
    pairs = list(zip(source_tokens, words, strict=True))
    numbers = np.zeros(len(hypotheses), np.bool_)
    numbers[list(pairs_with_other_numbers(sources, hypotheses, *languages))] = True
    empty = np.array(
        [is_blank(text) and not is_blank(source) for text, source in zip(hypotheses, sources, strict=True)]
    )
    found = {
        "empty": empty,
        "copied": (are_copies(source_tokens, words) | every(pairs, shares_a_long_run))
        & ~may_be_alike(sources, hypotheses, languages),
        "in a loop": every(pairs, lambda source, text: has_loop(text) and not has_loop(source)),
        "other numbers": numbers & ~empty,
        "wrong script": in_wrong_script(written, first_references, languages[1]),
        "too long": are_too_long(hypotheses, references, languages[1]),
    }
    assert found.keys() == FAULTS.keys()
    return found


def every(pairs: Sequence[tuple[list[str], list[str]]], is_faulty: Callable[[list[str], list[str]], bool]) -> Booleans:
    return np.array([is_faulty(source, text) for source, text in pairs], np.bool_)


def shares_a_long_run(source: Sequence[str], text: Sequence[str]) -> bool:
    """Whether both contain the same COPIED_RUN words in a row, not all of them numbers."""
    runs = {tuple(source[place : place + COPIED_RUN]) for place in range(len(source) - COPIED_RUN + 1)}
    return any(
        run in runs and any(map(str.isalpha, run))
        for place in range(len(text) - COPIED_RUN + 1)
        if (run := tuple(text[place : place + COPIED_RUN]))
    )


def has_loop(words: Sequence[str]) -> bool:
    """Whether a phrase is repeated LOOP times in a row, or a single word LOOPS[1] times."""
    for size in range(1, min(LONGEST_LOOP, len(words) // LOOP) + 1):
        needed = size * (LOOPS.get(size, LOOP) - 1)
        equal = 0
        for word, later in zip(words, words[size:], strict=False):
            equal = equal + 1 if word == later else 0
            if equal == needed:
                return True
    return False


def in_wrong_script(hypotheses: Sequence[str], references: Sequence[str], language: str) -> Booleans:
    """Sentences in another script, including Chinese with characters of the variant that the references do not use."""
    counts = count_characters(hypotheses)
    wrong = in_other_script(counts, share_of_script(counts, language), language)
    asked = script_of_references(references, language)
    if asked == "keep":
        return wrong
    return wrong | (counts["traditional" if asked == "simplified" else "simplified"] > 0)


def script_of_references(references: Sequence[str], language: str) -> Script:
    """The Chinese script of at least 90 % of the references that show one; otherwise "keep"."""
    if not is_chinese(language):
        return "keep"
    counts = count_characters(references)
    traditional, simplified = (int((counts[name] > 0).sum()) for name in ("traditional", "simplified"))
    if max(traditional, simplified) < 0.9 * (traditional + simplified) or not traditional + simplified:
        return "keep"
    return "traditional" if traditional > simplified else "simplified"


def script_remark(hypotheses: Sequence[str], references: Sequence[Sequence[str]], language: str) -> str:
    """A remark on references in the Chinese script that the translations are not in, which scores cannot match; empty
    if there are fewer than 2 % of them."""
    ours = script_of_references(hypotheses, language)
    if ours == "keep":
        return ""
    other = "traditional" if ours == "simplified" else "simplified"
    differing = int((count_characters(references[0])[other] > 0).sum())
    if differing < 0.02 * len(hypotheses):
        return ""
    return (
        f"{differing:,} of {len(hypotheses):,} references are in {other.capitalize()} Chinese, the translations in "
        f"{ours.capitalize()}, so they match less; --set decoding.script={other} converts translations"
    )


def are_too_long(hypotheses: Sequence[str], references: Sequence[Sequence[str]], language: str) -> Booleans:
    longest = np.max([length(count_characters(lines), language) for lines in references], axis=0)
    return length(count_characters(hypotheses), language) > TOO_LONG * longest + TOO_LONG_EXTRA


def faults_table(of_systems: Mapping[str, Faults]) -> Table:
    """The rates of one or more systems, next to those of the references."""
    references = next(iter(of_systems.values())).in_references
    rows = [
        (name, *(f"{faults.rate(name):.1%}" for faults in of_systems.values()), f"{references[name].mean():.1%}")
        for name in FAULTS
    ]
    rows.append(("any of these", *(f"{faults.any.mean():.1%}" for faults in of_systems.values()), ""))
    return Table("Faults", ("fault", *of_systems, "references"), rows)
