"""How far a score can be trusted: intervals by the bootstrap, and whether one system beats another by more than chance.

A corpus score follows from counts that are summed over the sentences. They are counted once; a resample is then a
product of a matrix that says how often each sentence was drawn with the matrix of the counts.

    bootstrap                  Koehn (2004), "Statistical Significance Tests for Machine Translation Evaluation": as
                               many sentences as there are, drawn with replacement
    approximate randomization  Riezler and Maxwell (2005), "On Some Pitfalls in Automatic Evaluation and Significance
                               Testing for MT": each sentence's two outputs change places or not, by a coin

Draws, tests and the default seed are those of the sacrebleu library (`sacrebleu --paired-bs`, `--paired-ar`), so that
its p-values and these are the same, but where systems write nearly the same: approximate randomization here counts a
trial that does as much as the systems, as the paper does, and sacrebleu only one that does more, so that one sentence
of a thousand would be a difference beyond chance. Other seeds of training are another source of chance, of which this
knows nothing.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import cast

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.chrf import CHRF

from weft.metrics.course_bleu import MAX_ORDER, course_bleu
from weft.metrics.references import ReferenceSets, references_by_sentence
from weft.metrics.score import Interval, Scale, Scores
from weft.metrics.translation import bleu_metric

RESAMPLES, TRIALS = 1_000, 10_000
"""Of the bootstrap and of approximate randomization, as many as sacrebleu takes."""
SEED = 12345
LEAST_SENTENCES = 10
"""Fewer sentences hold too little of the language for their resamples to say what other sentences would give."""
CELLS_AT_ONCE = 1 << 24
"""Numbers in a block of draws: a large set of sentences must not take gigabytes."""
ROUNDING = 1e-9
"""Two ways of adding the same counts up must not pass for a difference."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Statistics:
    """The counts of each sentence from which one score follows."""

    scale: Scale
    signature: str
    counts: Floats
    """(sentences, counts)"""
    score_of: Callable[[Floats], Floats]
    """(..., counts), summed over some sentences, to (...) scores."""

    def score(self, sentences: NDArray[np.bool_] | slice = slice(None)) -> float:
        """The score of all sentences, or of those that are chosen."""
        return float(self.score_of(self.counts[sentences].sum(0)))

    def by_sentence(self) -> Floats:
        """The score of each sentence by itself."""
        return self.score_of(self.counts)


def count_sentences(hypotheses: Sequence[str], references: ReferenceSets, language: str) -> dict[str, Statistics]:
    """The statistics behind bleu_1 .. bleu_4, sacrebleu and chrf; texts as `score_translations` takes them."""
    by_sentence = references_by_sentence(hypotheses, references)
    of_each = [
        course_bleu([hypothesis], [[line] for line in lines], language)
        for hypothesis, lines in zip(hypotheses, by_sentence, strict=True)
    ]
    course = np.array(
        [[one.hypothesis_length, one.reference_length, *one.matches, *one.totals] for one in of_each], np.float64
    )
    signature = course_bleu(hypotheses, references, language).signature
    found = {
        f"bleu_{order}": Statistics("0..1", signature, course, course_bleu_of(order))
        for order in range(1, MAX_ORDER + 1)
    }
    sets = cast(list[Sequence[str]], list(zip_longest(*by_sentence)))
    for name, metric, score_of in (
        ("sacrebleu", bleu_metric(language, None), bleu_of),
        ("chrf", CHRF(), chrf_of),
    ):
        # Not a public function, but the one from which sacrebleu's own tests of significance start.
        counts = np.array(metric._extract_corpus_statistics(hypotheses, sets), np.float64)
        found[name] = Statistics("0..100", metric.get_signature().format(), counts, score_of)
    return found


# From summed counts to a score


def course_bleu_of(order: int) -> Callable[[Floats], Floats]:
    """BLEU-`order` of the courses (course_bleu.py) from [hypothesis length, reference length, matches, totals]."""

    def score_of(counts: Floats) -> Floats:
        matches, totals = counts[..., 2 : 2 + order], counts[..., 2 + MAX_ORDER : 2 + MAX_ORDER + order]
        precisions = np.divide(matches, totals, out=np.zeros_like(matches), where=totals > 0)
        return brevity_penalty(counts) * geometric_mean(precisions)

    return score_of


def bleu_of(counts: Floats) -> Floats:
    """sacreBLEU in 0..100 from the same counts, with its exponential smoothing: the k-th order without a match counts
    as having 1 / 2^k of one."""
    matches, totals = counts[..., 2 : 2 + MAX_ORDER], counts[..., 2 + MAX_ORDER :]
    smoothed = np.where(matches > 0, matches, 0.5 ** np.cumsum(matches == 0, axis=-1))
    precisions = np.divide(smoothed, totals, out=np.zeros_like(smoothed), where=totals > 0)
    return 100 * brevity_penalty(counts) * geometric_mean(precisions) * matches.any(-1)


def brevity_penalty(counts: Floats) -> Floats:
    """1 where the hypotheses are long enough, exp(1 - r / c) where c < r, 0 where they are empty."""
    length, reference = counts[..., 0], counts[..., 1]
    ratio = np.divide(reference, length, out=np.full_like(length, np.inf), where=length > 0)
    return np.exp(np.minimum(0.0, 1 - ratio))


def geometric_mean(precisions: Floats) -> Floats:
    """Over the last axis; 0 where one of them is."""
    return np.prod(precisions, axis=-1) ** (1 / precisions.shape[-1])


def chrf_of(counts: Floats) -> Floats:
    """chrF2 in 0..100 from [hypothesis, reference, matching n-grams] of each order: F-beta, with beta = 2, of the
    precision and the recall that the orders have on average, without those that one side has no n-gram of."""
    hypothesis, reference, matching = (counts[..., place::3] for place in range(3))
    counted = (hypothesis > 0) & (reference > 0)
    orders = np.maximum(counted.sum(-1), 1)
    precision, recall = (
        np.divide(matching, total, out=np.zeros_like(matching), where=counted).sum(-1) / orders
        for total in (hypothesis, reference)
    )
    weighted = 4 * precision + recall
    return 100 * np.divide(5 * precision * recall, weighted, out=np.zeros_like(weighted), where=weighted > 0)


# Draws


def bootstrap(sentences: int, resamples: int, seed: int) -> Iterator[Floats]:
    """Blocks of (resamples, sentences): how often each sentence was drawn."""
    random = np.random.default_rng(seed)
    for rows in blocks(resamples, sentences):
        drawn = random.choice(sentences, size=(rows, sentences), replace=True)
        drawn += sentences * np.arange(rows)[:, None]
        yield np.bincount(drawn.ravel(), minlength=rows * sentences).reshape(rows, sentences).astype(np.float64)


def coins(sentences: int, trials: int, seed: int) -> Iterator[Floats]:
    """Blocks of (trials, sentences) of zeros and ones."""
    random = np.random.default_rng(seed)
    for rows in blocks(trials, sentences):
        yield random.integers(2, size=(rows, sentences), dtype=bool).astype(np.float64)


def blocks(rows: int, columns: int) -> Iterator[int]:
    """How many rows at a time; a multiple of 32, so that random bits, which come by 32, are those of one block."""
    most = max(32, CELLS_AT_ONCE // columns // 32 * 32)
    for first in range(0, rows, most):
        yield min(most, rows - first)


# Intervals


def too_few(sentences: int) -> str | None:
    """Why there are no intervals for so few sentences; None where there are."""
    if sentences >= LEAST_SENTENCES:
        return None
    return f"{sentences} sentence{'s' * (sentences != 1)}, and resampling needs {LEAST_SENTENCES} at least"


def with_intervals(
    scores: Scores,
    statistics: Mapping[str, Statistics],
    confidence: float,
    seed: int = SEED,
) -> Scores:
    """The same scores, and an interval for each that has statistics."""
    drawn = resample(statistics, seed=seed)
    signature = f"bootstrap|bs:{RESAMPLES}|seed:{seed}"
    intervals = {name: Interval(*interval(values, confidence), confidence, signature) for name, values in drawn.items()}
    return replace(scores, scores=tuple(replace(s, interval=intervals.get(s.name)) for s in scores.scores))


def resample(statistics: Mapping[str, Statistics], resamples: int = RESAMPLES, seed: int = SEED) -> dict[str, Floats]:
    """Of each metric the score of each resample; the same sentences are drawn for all."""
    sentences = len(next(iter(statistics.values())).counts)
    drawn: dict[str, list[Floats]] = {name: [] for name in statistics}
    for times in bootstrap(sentences, resamples, seed):
        for name, of_metric in statistics.items():
            drawn[name].append(of_metric.score_of(times @ of_metric.counts))
    return {name: np.concatenate(parts) for name, parts in drawn.items()}


def interval(scores: Floats, confidence: float) -> tuple[float, float]:
    """What is left of the resampled scores when equally many are left out at either end."""
    left_out = int(round(len(scores) * (1 - confidence) / 2, 6))
    ordered = np.sort(scores)
    return float(ordered[left_out]), float(ordered[-1 - left_out])


# Two systems on the same sentences


@dataclass(frozen=True)
class PairedTest:
    """What speaks for and against a difference between two systems in one metric."""

    difference: float
    """Score of the other system less that of the baseline."""
    interval: tuple[float, float]
    """Of the difference, by the bootstrap."""
    bootstrap_p: float
    randomization_p: float
    """How often chance alone makes a difference that is larger in absolute value. The bootstrap's, which sacrebleu
    takes around the mean of the absolute differences, is about half of the other."""


def paired_tests(
    baseline: Mapping[str, Statistics],
    other: Mapping[str, Statistics],
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    trials: int = TRIALS,
    seed: int = SEED,
) -> dict[str, PairedTest]:
    """Both tests for every metric that both have; the two systems must have translated the same sentences."""
    names = [name for name in baseline if name in other]
    ours, theirs = resample(baseline, resamples, seed), resample(other, resamples, seed)
    swapped = swap_at_random(baseline, other, names, trials, seed)
    found = {}
    for name in names:
        difference = other[name].score() - baseline[name].score()
        drawn = theirs[name] - ours[name]
        spread = np.abs(drawn)
        found[name] = PairedTest(
            difference=difference,
            interval=interval(drawn, confidence),
            bootstrap_p=bootstrap_p(spread, abs(difference)),
            randomization_p=share_of_chance(swapped[name] >= abs(difference) - ROUNDING),
        )
    return found


def swap_at_random(
    baseline: Mapping[str, Statistics], other: Mapping[str, Statistics], names: Sequence[str], trials: int, seed: int
) -> dict[str, Floats]:
    """The absolute difference of two systems that are mixed from both, in each trial."""
    found: dict[str, list[Floats]] = {name: [] for name in names}
    for heads in coins(len(baseline[names[0]].counts), trials, seed):
        for name in names:
            ours, theirs, score_of = baseline[name].counts, other[name].counts, baseline[name].score_of
            first = heads @ (ours - theirs) + theirs.sum(0)
            second = ours.sum(0) + theirs.sum(0) - first
            found[name].append(np.abs(score_of(first) - score_of(second)))
    return {name: np.concatenate(parts) for name, parts in found.items()}


def bootstrap_p(spread: Floats, difference: float) -> float:
    """How often a resample is further above the mean of all than the difference; 1 where no resample tells the systems
    apart, where sacrebleu gives its least."""
    if difference <= ROUNDING and not spread.any():
        return 1.0
    return share_of_chance(spread - spread.mean() > difference + ROUNDING)


def share_of_chance(does_it: NDArray[np.bool_]) -> float:
    """Counted with one more draw, so that no finite number of draws gives 0."""
    return (int(does_it.sum()) + 1) / (len(does_it) + 1)
