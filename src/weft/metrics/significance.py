"""Confidence intervals of scores by the bootstrap, and paired tests of whether two systems differ.

A corpus score follows from counts that are summed over the sentences. Each sentence is counted once; a resample is then
the product of a matrix that says how often each sentence was drawn and the matrix of the counts.

    bootstrap                  Koehn (2004), "Statistical Significance Tests for Machine Translation Evaluation": as
                               many sentences as the set has, drawn with replacement
    approximate randomization  Riezler and Maxwell (2005), "On Some Pitfalls in Automatic Evaluation and Significance
                               Testing for MT": a coin decides for each sentence whether the two outputs swap

Draws, tests and the default seed are those of `sacrebleu.significance`, and so are the p-values, except for ties, which
sacrebleu does not count as chance: to it, two identical systems differ with p = 0.001 (bootstrap), and systems that
differ in one sentence of a thousand with p = 0.0001 (randomization). It also has no interval of the difference and no
BLEU of the courses, so its `PairedTest` is the oracle of the tests and not called here. The tests say nothing about
chance from other seeds of training.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.chrf import CHRF

from weft.errors import counted
from weft.metrics.course_bleu import MAX_ORDER, CourseBleu, course_bleu
from weft.metrics.references import ReferenceSets, references_by_sentence
from weft.metrics.score import Interval, Scores
from weft.metrics.translation import bleu_metric, sacrebleu_sets

RESAMPLES, TRIALS = 1_000, 10_000
"""Draws of the bootstrap and of approximate randomization: sacrebleu's defaults."""
SEED = 12345
LEAST_SENTENCES = 10
"""Fewer sentences are too small a sample to resample from."""
CELLS_AT_ONCE = 1 << 24
"""Numbers in one block of draws, so that a large set of sentences does not take gigabytes."""
ROUNDING = 1e-9
"""Tolerance for sums of the same counts in another order."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Statistics:
    """The counts of each sentence from which one score follows."""

    counts: Floats
    """(sentences, counts)"""
    score_of: Callable[[Floats], float]
    """The score of counts, summed over some sentences."""

    def scores_of(self, sums: Floats) -> Floats:
        """(rows, counts), each row summed over some sentences, to (rows,) scores."""
        return np.array([self.score_of(row) for row in sums])

    def score(self, sentences: NDArray[np.bool_] | slice = slice(None)) -> float:
        """The score of all sentences, or of the selected ones."""
        return self.score_of(self.counts[sentences].sum(0))

    def by_sentence(self) -> Floats:
        """(sentences,): the score of each sentence on its own."""
        return self.scores_of(self.counts)


def count_sentences(hypotheses: Sequence[str], references: ReferenceSets, language: str) -> dict[str, Statistics]:
    """The statistics behind bleu_1 .. bleu_4, sacrebleu and chrf; arguments as in `score_translations`."""
    by_sentence = references_by_sentence(hypotheses, references)
    of_each = [
        course_bleu([hypothesis], [[line] for line in lines], language)
        for hypothesis, lines in zip(hypotheses, by_sentence, strict=True)
    ]
    course = np.array(
        [[*one.matches, *one.totals, one.hypothesis_length, one.reference_length] for one in of_each], np.float64
    )
    found = {f"bleu_{order}": Statistics(course, partial(course_bleu_of, order)) for order in range(1, MAX_ORDER + 1)}
    sets = sacrebleu_sets(hypotheses, references)
    for name, metric in (("sacrebleu", bleu_metric(language, None)), ("chrf", CHRF())):
        found[name] = statistics_by(metric, hypotheses, sets)
    return found


def statistics_by(metric: Metric, hypotheses: Sequence[str], sets: Sequence[Sequence[str]]) -> Statistics:
    """The statistics behind a metric of sacrebleu."""
    # Not public, but what sacrebleu's own tests of significance are made of.
    counts = np.array(metric._extract_corpus_statistics(hypotheses, sets), np.float64)
    return Statistics(counts, lambda sums: metric._compute_score_from_stats(sums.tolist()).score)


def course_bleu_of(order: int, counts: Floats) -> float:
    """BLEU-`order` of the courses from [matches, totals, hypothesis length, reference length]."""
    *ngrams, hypothesis_length, reference_length = map(int, counts)
    return CourseBleu(
        tuple(ngrams[:MAX_ORDER]), tuple(ngrams[MAX_ORDER:]), hypothesis_length, reference_length, ""
    ).bleu(order)


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
    """Rows per block: a multiple of 32, so that random bits, drawn 32 at a time, do not depend on the blocks."""
    most = max(32, CELLS_AT_ONCE // columns // 32 * 32)
    for first in range(0, rows, most):
        yield min(most, rows - first)


# Intervals


def too_few(sentences: int) -> str | None:
    """Why so few sentences get no intervals; None if they are enough."""
    if sentences >= LEAST_SENTENCES:
        return None
    return f"{counted(sentences, 'sentence')}, and resampling needs at least {LEAST_SENTENCES}"


def with_intervals(
    scores: Scores,
    statistics: Mapping[str, Statistics],
    confidence: float,
    seed: int = SEED,
) -> Scores:
    """The scores, with an interval for each that has statistics."""
    drawn = resample(statistics, seed=seed)
    signature = f"bootstrap|bs:{RESAMPLES}|seed:{seed}"
    intervals = {name: Interval(*interval(values, confidence), confidence, signature) for name, values in drawn.items()}
    return replace(scores, scores=tuple(replace(s, interval=intervals.get(s.name)) for s in scores.scores))


def resample(statistics: Mapping[str, Statistics], resamples: int = RESAMPLES, seed: int = SEED) -> dict[str, Floats]:
    """(resamples,) scores of each metric; the same sentences are drawn for all metrics."""
    sentences = len(next(iter(statistics.values())).counts)
    drawn: dict[str, list[Floats]] = {name: [] for name in statistics}
    for times in bootstrap(sentences, resamples, seed):
        for name, of_metric in statistics.items():
            drawn[name].append(of_metric.scores_of(times @ of_metric.counts))
    return {name: np.concatenate(parts) for name, parts in drawn.items()}


def interval(scores: Floats, confidence: float) -> tuple[float, float]:
    """The range of the resampled scores after equally many are cut off at either end."""
    left_out = int(round(len(scores) * (1 - confidence) / 2, 6))
    ordered = np.sort(scores)
    return float(ordered[left_out]), float(ordered[-1 - left_out])


# Two systems on the same sentences


@dataclass(frozen=True)
class PairedTest:
    """The difference between two systems in one metric, and how likely chance alone makes it."""

    difference: float
    """Score of the other system minus that of the baseline."""
    interval: tuple[float, float]
    """Interval of the difference, by the bootstrap."""
    bootstrap_p: float
    randomization_p: float
    """How often chance alone makes a difference at least as large in absolute value. The bootstrap's, taken around the
    mean of the absolute differences as in sacrebleu, is about half of the other."""


def paired_tests(
    baseline: Mapping[str, Statistics],
    other: Mapping[str, Statistics],
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    trials: int = TRIALS,
    seed: int = SEED,
) -> dict[str, PairedTest]:
    """Both tests for every metric that both systems have; they must have translated the same sentences."""
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
    """(trials,) absolute differences of each metric between two systems whose outputs are swapped at random."""
    found: dict[str, list[Floats]] = {name: [] for name in names}
    for heads in coins(len(baseline[names[0]].counts), trials, seed):
        for name in names:
            ours, theirs, scores_of = baseline[name].counts, other[name].counts, baseline[name].scores_of
            first = heads @ (ours - theirs) + theirs.sum(0)
            second = ours.sum(0) + theirs.sum(0) - first
            found[name].append(np.abs(scores_of(first) - scores_of(second)))
    return {name: np.concatenate(parts) for name, parts in found.items()}


def bootstrap_p(spread: Floats, difference: float) -> float:
    """How often a resample exceeds the mean of all by more than the difference; 1 if no resample differs at all."""
    if difference <= ROUNDING and not spread.any():
        return 1.0
    return share_of_chance(spread - spread.mean() > difference + ROUNDING)


def share_of_chance(exceeds: NDArray[np.bool_]) -> float:
    """The share of draws, with one more counted, so that no finite number of draws gives 0."""
    return (int(exceeds.sum()) + 1) / (len(exceeds) + 1)
