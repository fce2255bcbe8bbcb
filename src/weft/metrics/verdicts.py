"""Whether the cells of a table differ from its first one, when each cell is a few runs with different seeds.

Two sources of chance are kept apart, as in Clark et al. (2011), "Better Hypothesis Testing for Statistical Machine
Translation":

    seeds       another seed gives another score. The variance of a run is pooled over all cells, because the few runs
                of one cell say little about it: sum (n_i - 1) s_i^2 / sum (n_i - 1)
    sentences   a setting may suit these sentences and not others. The bootstrap over sentences gives the variance of a
                difference of means; the part of it that is each run's own is already in the variance over seeds, and is
                subtracted

The difference over its standard error is compared with Student's t distribution. The p-values of all comparisons with
the first cell are adjusted by Holm (1979).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Kind = Literal["better", "worse", "no larger difference", "cannot tell"]

POWER = 0.8
"""The probability with which a difference should be found, where more seeds or sentences are recommended."""
MOST_SEEDS, MOST_SENTENCES = 50, 100_000
"""More than these are not recommended."""


@dataclass(frozen=True)
class Cell:
    """The scores of one setting."""

    name: str
    scores: Floats
    """(seeds,)"""
    resampled: Floats | None = None
    """(draws, seeds): the scores on sentences drawn with replacement, the same draws in every cell."""


@dataclass(frozen=True)
class Verdict:
    """What the runs tell about one cell against the first."""

    name: str
    mean: float
    difference: float
    """Mean of the cell minus mean of the first cell."""
    interval: tuple[float, float]
    """Confidence interval of the difference, wide enough that those of all cells hold together (Bonferroni)."""
    p: float
    """The probability of a difference at least as large by chance, adjusted for the number of cells (Holm)."""
    kind: Kind
    more_seeds: int | None = None
    """Further seeds of each cell that would find the margin in 80 % of cases; None if no number up to 50 would."""
    more_sentences: int | None = None
    """Further sentences that would find it with the seeds that there are; None if no number up to 100,000 would."""


@dataclass(frozen=True)
class Spread:
    """The variance of a single run's score around the mean of its cell, pooled over the cells."""

    variance: float
    df: int
    """Degrees of freedom; 0 if no cell has two runs."""

    @property
    def deviation(self) -> float:
        return math.sqrt(self.variance)


def judge(
    cells: Sequence[Cell],
    *,
    higher_is_better: bool = True,
    margin: float | None = None,
    same_runs: bool = False,
    sentences: int | None = None,
    confidence: float = 0.95,
) -> list[Verdict]:
    """Compare every cell with the first.

    `margin` is the smallest difference that matters: a cell whose interval lies within it has "no larger difference".
    Without it, what would tell is computed for the difference that was seen. `same_runs`: run j is the same trained
    model in every cell, as where only the decoding differs; with one such run, verdicts hold for that run alone.
    `sentences` is the number of sentences behind `resampled`.
    """
    first, *others = cells
    spread, own = spread_of(cells, same_runs), own_sentence_variance(cells)
    alpha = (1 - confidence) / max(1, len(others))
    differences = [float(cell.scores.mean() - first.scores.mean()) for cell in others]
    of_sentences = [sentence_variance(first, cell, own, same_runs) for cell in others]
    errors = [
        standard_error(first, cell, spread, variance, same_runs, sentences)
        for cell, variance in zip(others, of_sentences, strict=True)
    ]
    p_values = holm([two_sided_p(one, *error) for one, error in zip(differences, errors, strict=True)])
    judged = []
    for cell, difference, variance, (error, df), p in zip(
        others, differences, of_sentences, errors, p_values, strict=True
    ):
        half = t_quantile(1 - alpha / 2, df) * error if df else math.inf
        interval = (difference - half, difference + half)
        kind = kind_of(difference if higher_is_better else -difference, interval, p, 1 - confidence, margin)
        seeds, more = None, None
        if kind == "cannot tell" and (target := margin or abs(difference)):
            least = min(len(first.scores), len(cell.scores))
            design = Design(len(cells), least, spread, variance, same_runs, alpha)
            seeds, more = design.more_seeds(target), design.more_sentences(target, sentences)
        judged.append(Verdict(cell.name, float(cell.scores.mean()), difference, interval, p, kind, seeds, more))
    return judged


def kind_of(gain: float, interval: tuple[float, float], p: float, alpha: float, margin: float | None) -> Kind:
    if p <= alpha:
        return "better" if gain > 0 else "worse"
    if margin is not None and max(map(abs, interval)) <= margin:
        return "no larger difference"
    return "cannot tell"


# Two sources of chance


def spread_of(cells: Sequence[Cell], same_runs: bool = False) -> Spread:
    """The pooled variance over seeds. Where the cells share their runs, what a run adds to every cell is no chance of a
    difference between cells, so the residual variance of cells x runs takes its place."""
    if same_runs:
        scores = np.array([cell.scores for cell in cells])  # (cells, runs)
        residual = scores - scores.mean(0) - scores.mean(1, keepdims=True) + scores.mean()
        df = (scores.shape[0] - 1) * (scores.shape[1] - 1)
        return Spread(float((residual**2).sum() / df) if df else 0.0, df)
    df = sum(len(cell.scores) - 1 for cell in cells)
    squares = sum(float(((cell.scores - cell.scores.mean()) ** 2).sum()) for cell in cells)
    return Spread(squares / df if df else 0.0, df)


def own_sentence_variance(cells: Sequence[Cell]) -> float:
    """The variance over draws of sentences that each run has for itself, pooled over the cells with several runs."""
    return pooled_own([cell.resampled for cell in cells if cell.resampled is not None])


def pooled_own(drawn: Sequence[Floats]) -> float:
    df = sum(scores.shape[1] - 1 for scores in drawn)
    squares = sum(float((scores - scores.mean(1, keepdims=True)).var(0).sum()) for scores in drawn)
    return squares / df if df else 0.0


def sentence_variance(first: Cell, cell: Cell, own: float, same_runs: bool) -> float:
    """The variance of the difference of two means over draws of sentences, less the part that is each run's own."""
    if first.resampled is None or cell.resampled is None:
        return 0.0
    if same_runs:
        differences = cell.resampled - first.resampled
        return max(0.0, float(differences.mean(1).var()) - pooled_own([differences]) / differences.shape[1])
    whole = float((cell.resampled.mean(1) - first.resampled.mean(1)).var())
    return max(0.0, whole - own * (1 / len(first.scores) + 1 / len(cell.scores)))


def standard_error(
    first: Cell, cell: Cell, spread: Spread, of_sentences: float, same_runs: bool, sentences: int | None
) -> tuple[float, int]:
    """The standard error of the difference of two means, and its degrees of freedom (Welch-Satterthwaite); (inf, 0)
    where nothing is known about the spread over seeds."""
    of_seeds = spread.variance * (1 / len(first.scores) + 1 / len(cell.scores))
    of_these_runs_alone = same_runs and len(first.scores) == 1 and sentences is not None
    if not spread.df and not of_these_runs_alone:
        return math.inf, 0
    variance = of_seeds + of_sentences
    denominator = (of_seeds**2 / spread.df if spread.df else 0.0) + (
        of_sentences**2 / (sentences - 1) if sentences else 0.0
    )
    df = int(variance**2 / denominator) if denominator else spread.df
    return math.sqrt(variance), max(df, 1)


# What would tell


@dataclass(frozen=True)
class Design:
    """A table of cells x seeds, and what is known about its two variances."""

    cells: int
    seeds: int
    spread: Spread
    of_sentences: float
    same_runs: bool
    alpha: float

    def least_difference(self, seeds: int, of_sentences: float) -> float:
        """The difference that so many seeds find in 80 % of cases."""
        df = max(1, (self.cells - self.same_runs) * (seeds - 1))
        error = math.sqrt(2 * self.spread.variance / seeds + of_sentences)
        return (t_quantile(1 - self.alpha / 2, df) + t_quantile(POWER, df)) * error

    def more_seeds(self, target: float) -> int | None:
        if not self.spread.df:
            return 1 if self.seeds == 1 and not self.same_runs else None
        for seeds in range(max(2, self.seeds + 1), self.seeds + MOST_SEEDS + 1):
            if self.least_difference(seeds, self.of_sentences) <= target:
                return seeds - self.seeds
        return None

    def more_sentences(self, target: float, sentences: int | None) -> int | None:
        if not sentences or not self.of_sentences or not (self.spread.df or self.same_runs):
            return None
        df = self.spread.df or sentences - 1
        quantiles = t_quantile(1 - self.alpha / 2, df) + t_quantile(POWER, df)
        left = (target / quantiles) ** 2 - 2 * self.spread.variance / self.seeds
        if left <= 0:
            return None
        more = math.ceil(sentences * (self.of_sentences / left - 1))
        return more if 0 < more <= MOST_SENTENCES else None


# In words

WORDS = {
    "en": {
        "better": "better",
        "worse": "worse",
        "no larger difference": "no difference larger than {margin:g}",
        "cannot tell": "cannot tell",
        "seeds": "{count:,} more seed{s}",
        "sentences": "{count:,} more sentence{s}",
        "would": "; {what} would",
        "or": " or ",
        "neither": "; no affordable number of seeds would",
    },
    "zh": {
        "better": "更好",
        "worse": "更差",
        "no larger difference": "差别不超过 {margin:g}",
        "cannot tell": "无法判断",
        "seeds": "再加 {count:,} 个种子",
        "sentences": "再加 {count:,} 个句子",
        "would": "；{what}即可判断",
        "or": "或",
        "neither": "；增加种子已不现实",
    },
}


def in_words(verdict: Verdict, margin: float | None = None, language: str = "en") -> str:
    """The verdict, and what would tell where it cannot: "cannot tell; 2 more seeds would"."""
    words = WORDS[language]
    told = words[verdict.kind].format(margin=margin)
    if verdict.kind != "cannot tell":
        return told
    ways = [
        words[kind].format(count=count, s="s" * (count != 1))
        for kind, count in (("seeds", verdict.more_seeds), ("sentences", verdict.more_sentences))
        if count
    ]
    if ways:
        return told + words["would"].format(what=words["or"].join(ways))
    return told + (words["neither"] if verdict.difference else "")


# Distributions


def two_sided_p(difference: float, error: float, df: int) -> float:
    if not df:
        return 1.0
    if error == 0:
        return 1.0 if difference == 0 else 0.0
    return 1.0 - t_within(abs(difference) / error, df)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm (1979): the smallest of m p-values times m, the next times m - 1, ..., never falling, at most 1."""
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, p_values[index] * (len(p_values) - rank)))
        adjusted[index] = largest
    return adjusted


def t_within(t: float, df: int) -> float:
    """P(|T| <= t) of Student's distribution: Abramowitz and Stegun (1964), 26.7.3 and 26.7.4."""
    angle = math.atan2(t, math.sqrt(df))
    sine, cosine = math.sin(angle), math.cos(angle)
    if df % 2:
        ratios = np.arange(2, df - 2, 2) / np.arange(3, df - 1, 2) * cosine**2
        series = cosine * (1 + np.cumprod(ratios).sum()) if df > 1 else 0.0
        return float(2 / math.pi * (angle + sine * series))
    ratios = np.arange(1, df - 2, 2) / np.arange(2, df - 1, 2) * cosine**2
    return float(sine * (1 + np.cumprod(ratios).sum()))


@lru_cache(maxsize=4096)
def t_quantile(probability: float, df: int) -> float:
    """The t that Student's distribution stays below with this probability, at least a half; by bisection."""
    low, high = 0.0, 1.0
    while (1 + t_within(high, df)) / 2 < probability:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if (1 + t_within(middle, df)) / 2 < probability else (low, middle)
    return (low + high) / 2
