"""Sentence chrF and sentence BLEU between many texts, for minimum Bayes risk (decoding/mbr.py).

The values are those of sacrebleu (0..100), which counts the n-grams anew for every pair; here they are counted once per
text. The second, third, ... occurrence of an n-gram in a text is a separate feature, so the clipped matches of two
texts are the features that they share, and those of all pairs a product of matrices of 0 and 1.

With all references at once the matches are the expected clipped matches, and the lengths the expected lengths; the
score of these means approximates the mean of the scores. (Vamvas and Sennrich 2024 and, for BLEU, DeNero et al. 2009
match expected counts instead; both agree if no n-gram occurs twice in a text.)
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

CHRF_ORDER = 6
CHRF_BETA = 2
BLEU_ORDER = 4

FEATURES_AT_ONCE = 4096
"""Columns of the matrices that are in memory at once."""


class ChrfUtilities:
    """Sentence chrF2 (Popović 2015): F-scores of character n-grams up to 6, without white space."""

    def __init__(self, texts: Sequence[str]) -> None:
        lines = ["".join(text.split()) for text in texts]
        self.ngrams = [
            number_features([line[start : start + order] for start in range(len(line) - order + 1)] for line in lines)
            for order in range(1, CHRF_ORDER + 1)
        ]
        self.totals = np.stack([ngrams.totals for ngrams in self.ngrams])  # (orders, texts)

    def between(self, hypotheses: Int[np.ndarray, " hypotheses"]) -> Float[np.ndarray, "hypotheses references"]:
        matches = np.stack([ngrams.matches(hypotheses) for ngrams in self.ngrams])
        return chrf_of(matches, self.totals[:, hypotheses, None], self.totals[:, None, :])

    def with_all_at_once(self, weights: Float[np.ndarray, " references"]) -> Float[np.ndarray, " hypotheses"]:
        matches = np.stack([ngrams.expected_matches(weights) for ngrams in self.ngrams])
        return chrf_of(matches, self.totals, (self.totals @ weights)[:, None])


def chrf_of(
    matches: Float[np.ndarray, "orders ..."],
    hypothesis_totals: Float[np.ndarray, "orders ..."],
    reference_totals: Float[np.ndarray, "orders ..."],
) -> Float[np.ndarray, "..."]:
    """The F-score of the mean precision and the mean recall over the orders that both sides have; 0 without a match.

    The three arguments are broadcast against each other after the first axis.
    """
    both = (hypothesis_totals > 0) & (reference_totals > 0)
    orders = np.maximum(both.sum(0), 1)
    precision = np.where(both, matches / np.maximum(hypothesis_totals, 1), 0.0).sum(0) / orders
    # The mean total of references may lie between 0 and 1.
    recall = np.where(both, matches / np.where(both, reference_totals, 1.0), 0.0).sum(0) / orders
    weighted = CHRF_BETA**2 * precision + recall
    return 100 * (1 + CHRF_BETA**2) * precision * recall / np.where(weighted > 0, weighted, 1.0)


class BleuUtilities:
    """Sentence BLEU (Papineni et al. 2002) up to order 4, or the length of a shorter hypothesis.

    Smoothed as in sacrebleu: the k-th order without a match counts as 1 / 2^k matches. `words_of` splits a text.
    """

    def __init__(self, texts: Sequence[str], words_of: Callable[[str], list[str]]) -> None:
        lines = [words_of(text) for text in texts]
        self.ngrams = [
            number_features(zip(*(words[start:] for start in range(order)), strict=False) for words in lines)
            for order in range(1, BLEU_ORDER + 1)
        ]
        self.totals = np.stack([ngrams.totals for ngrams in self.ngrams])  # (orders, texts)

    def between(self, hypotheses: Int[np.ndarray, " hypotheses"]) -> Float[np.ndarray, "hypotheses references"]:
        matches = np.stack([ngrams.matches(hypotheses) for ngrams in self.ngrams])
        return bleu_of(matches, self.totals[:, hypotheses, None], self.totals[0])

    def with_all_at_once(self, weights: Float[np.ndarray, " references"]) -> Float[np.ndarray, " hypotheses"]:
        matches = np.stack([ngrams.expected_matches(weights) for ngrams in self.ngrams])
        return bleu_of(matches, self.totals, self.totals[:1] @ weights)


def bleu_of(
    matches: Float[np.ndarray, "orders ..."],
    hypothesis_totals: Float[np.ndarray, "orders ..."],
    reference_lengths: Float[np.ndarray, "..."],
) -> Float[np.ndarray, "..."]:
    """Brevity penalty times the geometric mean of the precisions; 0 without a match. Broadcast as in `chrf_of`."""
    has_order = hypothesis_totals > 0
    is_missed = has_order & (matches == 0)
    smoothed = np.where(is_missed, 0.5 ** is_missed.cumsum(0), np.where(has_order, matches, 1.0))
    precisions = smoothed / np.maximum(hypothesis_totals, 1)
    orders = np.maximum(has_order.sum(0), 1)
    length = np.maximum(hypothesis_totals[0], 1)
    brevity = np.exp(np.minimum(1 - reference_lengths / length, 0))
    mean = np.exp(np.log(precisions).sum(0) / orders)
    return np.where((matches > 0).any(0), 100 * brevity * mean, 0.0)


def bleu_utilities(language: str) -> Callable[[Sequence[str]], BleuUtilities]:
    """BLEU of texts in this language, tokenized as in sacreBLEU; raises WeftError if a library is missing."""
    from weft.metrics.translation import bleu_metric  # imports sacrebleu, which takes a while: few translations need it

    tokenize = bleu_metric(language, None).tokenizer
    return lambda texts: BleuUtilities(texts, lambda text: tokenize(text.rstrip()).split())


@dataclass(frozen=True)
class Features:
    """The n-grams of one order in several texts: the text of each, and its number."""

    texts: int
    text: Int[np.ndarray, " occurrences"]
    number: Int[np.ndarray, " occurrences"]

    @property
    def totals(self) -> Float[np.ndarray, " texts"]:
        return np.bincount(self.text, minlength=self.texts).astype(float)

    def matches(self, hypotheses: Int[np.ndarray, " hypotheses"]) -> Float[np.ndarray, "hypotheses texts"]:
        """The clipped matches between these texts and all texts."""
        shared = np.zeros((len(hypotheses), self.texts))
        for first in range(0, int(self.number.max(initial=-1)) + 1, FEATURES_AT_ONCE):
            here = (self.number >= first) & (self.number < first + FEATURES_AT_ONCE)
            numbers = self.number[here] - first
            stands_in = np.zeros((self.texts, int(numbers.max()) + 1), dtype=np.float32)  # exact for sums of ones
            stands_in[self.text[here], numbers] = 1
            shared += stands_in[hypotheses] @ stands_in.T
        return shared

    def expected_matches(self, weights: Float[np.ndarray, " texts"]) -> Float[np.ndarray, " texts"]:
        """The weighted mean over all texts of their clipped matches with each text."""
        share = np.bincount(self.number, weights=weights[self.text])
        expected = np.bincount(self.text, weights=share[self.number], minlength=self.texts)
        return expected.astype(float)  # without any n-gram, NumPy sums integers


def number_features(ngrams_by_text: Iterable[Iterable[str | tuple[str, ...]]]) -> Features:
    numbers: dict[tuple[str | tuple[str, ...], int], int] = {}
    texts: list[int] = []
    found: list[int] = []
    count_of_texts = 0
    for text, ngrams in enumerate(ngrams_by_text):
        for ngram, count in Counter(ngrams).items():
            found += [numbers.setdefault((ngram, occurrence), len(numbers)) for occurrence in range(count)]
        texts += [text] * (len(found) - len(texts))
        count_of_texts += 1
    return Features(count_of_texts, np.array(texts, dtype=int), np.array(found, dtype=int))
