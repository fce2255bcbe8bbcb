"""BLEU as courses compute it by hand, and exact match.

Papineni et al. (2002), "BLEU: a Method for Automatic Evaluation of Machine Translation", over the whole corpus:

    p_n    = clipped matches of n-grams / n-grams of the hypotheses                        modified precision
    BP     = 1 if c >= r else exp(1 - r / c)                                               brevity penalty
    BLEU-N = BP * exp(1/N * sum of log p_n for n = 1..N)                                   cumulative, equal weights

c is the length of all hypotheses, r the sum of each sentence's closest reference length, the shorter one on a tie.
There is no smoothing: if some p_n is zero, or no hypothesis is long enough for an n-gram, BLEU-N is 0.0. Values lie in
0..1.

A unit is a word between white space, with its punctuation and case; in a language without spaces between words, such as
Chinese or Thai, it is any character except white space: a Han character, a punctuation mark, a Latin letter or a digit.
`ignore_punctuation` first removes every character of the Unicode categories P* from both sides, so "Taiwan." and
"Taiwan" agree.
"""

import math
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from weft.metrics.language import main_language
from weft.metrics.references import ReferenceSets, count_references, references_by_sentence
from weft.metrics.score import Score
from weft.text.language import is_written_without_spaces

MAX_ORDER = 4


@dataclass(frozen=True)
class CourseBleu:
    """The counts over a corpus from which BLEU-1 to BLEU-4 follow; index n - 1 holds order n."""

    matches: tuple[int, ...]
    totals: tuple[int, ...]
    hypothesis_length: int
    reference_length: int
    signature: str

    @property
    def brevity_penalty(self) -> float:
        """BP in 0..1; 0.0 if all hypotheses are empty."""
        if self.hypothesis_length >= self.reference_length:
            return 1.0
        return math.exp(1 - self.reference_length / self.hypothesis_length) if self.hypothesis_length else 0.0

    def precision(self, order: int) -> float:
        """The modified precision p_n; 0.0 if the hypotheses have no n-gram of this order."""
        return self.matches[order - 1] / self.totals[order - 1] if self.totals[order - 1] else 0.0

    def bleu(self, order: int) -> float:
        """Cumulative BLEU-`order` in 0..1."""
        precisions = [self.precision(n) for n in range(1, order + 1)]
        if 0.0 in precisions:
            return 0.0
        return self.brevity_penalty * math.exp(sum(math.log(p) for p in precisions) / order)

    def score(self, order: int) -> Score:
        """BLEU-`order` as `bleu_<order>`, with its signature and counts."""
        detail = {
            "matches": self.matches[:order],
            "totals": self.totals[:order],
            "brevity_penalty": self.brevity_penalty,
            "hypothesis_length": self.hypothesis_length,
            "reference_length": self.reference_length,
        }
        return Score(f"bleu_{order}", self.bleu(order), "0..1", self.signature, detail)


def course_bleu(
    hypotheses: Sequence[str], references: ReferenceSets, language: str, ignore_punctuation: bool = False
) -> CourseBleu:
    """BLEU of a corpus against reference sets; raises as `references_by_sentence`."""
    by_sentence = references_by_sentence(hypotheses, references)
    by_character = is_written_without_spaces(main_language(language))
    matches, totals = [0] * MAX_ORDER, [0] * MAX_ORDER
    hypothesis_length = reference_length = 0
    for hypothesis, lines in zip(hypotheses, by_sentence, strict=True):
        units = _units(hypothesis, by_character, ignore_punctuation)
        references_units = [_units(line, by_character, ignore_punctuation) for line in lines]
        hypothesis_length += len(units)
        reference_length += _closest_length(len(units), [len(reference) for reference in references_units])
        for order in range(1, MAX_ORDER + 1):
            counts = _ngrams(units, order)
            matches[order - 1] += _clipped_matches(
                counts, [_ngrams(reference, order) for reference in references_units]
            )
            totals[order - 1] += counts.total()
    signature = "|".join(
        (
            "courses-bleu",
            f"nrefs:{count_references(by_sentence)}",
            f"unit:{'character' if by_character else 'word'}",
            f"punctuation:{'no' if ignore_punctuation else 'yes'}",
            "case:mixed|smooth:none|length:closest",
        )
    )
    return CourseBleu(tuple(matches), tuple(totals), hypothesis_length, reference_length, signature)


def exact_match(hypotheses: Sequence[str], references: ReferenceSets) -> Score:
    """The share, in 0..1, of hypotheses that equal one of their references, except for white space at the ends."""
    by_sentence = references_by_sentence(hypotheses, references)
    matches = sum(
        hypothesis.strip() in {line.strip() for line in lines}
        for hypothesis, lines in zip(hypotheses, by_sentence, strict=True)
    )
    signature = f"exact-match|nrefs:{count_references(by_sentence)}|punctuation:yes|case:mixed"
    return Score("exact_match", matches / len(hypotheses), "0..1", signature, {"matches": matches})


def _units(text: str, by_character: bool, ignore_punctuation: bool) -> list[str]:
    if ignore_punctuation:
        text = "".join(character for character in text if not unicodedata.category(character).startswith("P"))
    words = text.split()
    return list("".join(words)) if by_character else words


def _ngrams(units: Sequence[str], order: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(units[start : start + order]) for start in range(len(units) - order + 1))


def _clipped_matches(counts: Counter[tuple[str, ...]], references: Sequence[Counter[tuple[str, ...]]]) -> int:
    """Matches, where each n-gram counts at most as often as in the reference that has it most often."""
    return sum(min(count, max(reference[ngram] for reference in references)) for ngram, count in counts.items())


def _closest_length(length: int, reference_lengths: Sequence[int]) -> int:
    return min(reference_lengths, key=lambda reference_length: (abs(reference_length - length), reference_length))
