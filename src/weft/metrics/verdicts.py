"""Whether the cells of a table differ from its first one, when each cell is a few runs with different seeds.

Two sources of chance are kept apart, as in Clark et al. (2011), "Better Hypothesis Testing for Statistical Machine
Translation":

    seeds       another seed gives another score. The variance of a run is pooled over all cells whose runs differ,
                because the few runs of one cell say little about it: sum (n_i - 1) s_i^2 / sum (n_i - 1). Where the
                cells' variances differ by more than chance (Bartlett 1937), each pair is judged by its own two (Welch
                1947)
    sentences   a setting may suit these sentences and not others. The bootstrap over sentences gives the variance of a
                difference of means; the part of it that is each run's own is already in the variance over seeds, and is
                subtracted

The difference over its standard error is compared with Student's t distribution. The p-values of all comparisons with
the first cell are adjusted by Holm (1979).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from weft.figures.words import ENGLISH, Say

Floats = NDArray[np.float64]
Kind = Literal["better", "worse", "no larger difference", "cannot tell"]

POWER = 0.8
"""The probability with which a difference should be found, where more seeds or sentences are recommended."""
MOST_SEEDS, MOST_SENTENCES = 50, 100_000
"""More than these are not recommended."""
ERROR = 0.05
"""The probability that any verdict of a table is wrong."""
UNEQUAL = 0.05
"""The level of the test that the variances of all cells are equal."""
FEW_SENTENCES = 200
"""The size of a small test set, for which the difference that it could find is told as well."""


@dataclass(frozen=True)
class Cell:
    """The scores of one setting."""

    name: str
    scores: Floats
    """(seeds,)"""
    resampled: Floats | None = None
    """(draws, seeds): the scores on sentences drawn with replacement, the same draws in every cell."""
    runs: str | None = None
    """Names the trained models behind the scores, where other cells share them, as cells that differ in their decoding
    do: run j is then the same model in all of them."""

    @property
    def mean(self) -> float:
        return float(self.scores.mean())

    @property
    def squares(self) -> float:
        """The sum of squared deviations from the mean; exactly 0 for equal scores, whose mean may be rounded."""
        return float(((self.scores - self.mean) ** 2).sum()) if np.ptp(self.scores) else 0.0


@dataclass(frozen=True)
class Verdict:
    """What the runs tell about one cell against another, the first one of a table."""

    name: str
    mean: float
    difference: float
    """Mean of the cell minus mean of the first cell."""
    interval: tuple[float, float]
    """Confidence interval of the difference, wide enough that those of all cells hold together (Bonferroni)."""
    p: float
    """The probability of a difference at least as large by chance, adjusted for the number of cells (Holm)."""
    kind: Kind
    detectable: float
    """The difference that these seeds and sentences find in 80 % of cases."""
    detectable_on_few: float
    """The difference that these seeds would find on 200 sentences; as `detectable` if no sentences were resampled."""
    more_seeds: int | None = None
    """Further seeds of each cell that would find the margin in 80 % of cases; None if no number up to 50 would."""
    more_sentences: int | None = None
    """Further sentences that would find it with the seeds that there are; None if no number up to 100,000 would."""


@dataclass(frozen=True)
class Spread:
    """The variance of a single run's score around the mean of its cell, pooled over cells."""

    variance: float
    df: int
    """Degrees of freedom; 0 if no cell has two runs."""

    @property
    def deviation(self) -> float:
        return math.sqrt(self.variance)


@dataclass(frozen=True)
class Noise:
    """What all cells of a study tell about chance."""

    apart: Spread
    """Over seeds, of cells with runs of their own."""
    unequal: tuple[float, float] | None
    """The smallest and the largest deviation of a cell, if they differ by more than chance; None if `apart` is true of
    all cells."""
    shared: Spread
    """Over runs that cells share: what a run adds to all of them does not count."""
    own: float
    """The variance over draws of sentences that each run has for itself."""

    def between(self, first: Cell, cell: Cell) -> Spread:
        """The spread of the runs of two cells that share none; pooled too if both cells have equal scores alone."""
        return self.apart if self.unequal is None or not first.squares + cell.squares else welch(first, cell)


def judge(cells: Sequence[Cell], **options: Any) -> list[Verdict]:
    """Compare every cell with the first; options as in `judge_pairs`."""
    return judge_pairs([(cells[0], cell) for cell in cells[1:]], noise_of(cells), **options)


def judge_pairs(
    pairs: Sequence[tuple[Cell, Cell]],
    noise: Noise,
    *,
    higher_is_better: bool = True,
    margin: float | None = None,
    sentences: int | None = None,
) -> list[Verdict]:
    """Compare the second cell of each pair with its first, with the noise of all cells of the study.

    `margin` is the smallest difference that matters: a cell whose interval lies within it has "no larger difference".
    Without it, what would tell is computed for the difference that was seen. `sentences` is the number of sentences
    behind `resampled`. Decodings of a single run are judged by its sentences, for that run alone.
    """
    alpha = ERROR / max(1, len(pairs))
    contrasts = [Contrast.between(first, cell, noise, sentences) for first, cell in pairs]
    p_values = holm([two_sided_p(one.difference, *one.error()) for one in contrasts])
    judged = []
    for (_, cell), contrast, p in zip(pairs, contrasts, p_values, strict=True):
        interval = contrast.interval(alpha)
        gain = contrast.difference if higher_is_better else -contrast.difference
        kind = kind_of(gain, interval, p, margin)
        seeds, more = None, None
        if kind == "cannot tell" and (target := margin or abs(contrast.difference)):
            seeds, more = contrast.more_seeds(target, alpha), contrast.more_sentences(target, alpha)
        finds = contrast.detectable(alpha), contrast.detectable(alpha, FEW_SENTENCES)
        judged.append(Verdict(cell.name, cell.mean, contrast.difference, interval, p, kind, *finds, seeds, more))
    return judged


def kind_of(gain: float, interval: tuple[float, float], p: float, margin: float | None) -> Kind:
    if margin is not None and max(map(abs, interval)) <= margin:
        return "no larger difference"
    if p <= ERROR:
        return "better" if gain > 0 else "worse"
    return "cannot tell"


# Two sources of chance


def noise_of(cells: Sequence[Cell]) -> Noise:
    """Pool what the cells tell about chance. Cells that share their runs count once. Those whose runs all have one
    score, such as BLEU 0, tell nothing of the spread of runs, unless all are so."""
    groups: dict[str, list[Cell]] = {}
    for number, cell in enumerate(cells):
        groups.setdefault(f"{number}" if cell.runs is None else f"runs {cell.runs}", []).append(cell)
    several = [group for group in groups.values() if len(group[0].scores) > 1]
    squares = [(sum(cell.squares for cell in group) / len(group), len(group[0].scores) - 1) for group in several]
    apart = pooled([one for one in squares if one[0] > 0] or squares)
    shared = pooled(residual(np.array([cell.scores for cell in group])) for group in several if len(group) > 1)
    own = pooled(own_squares(cell.resampled) for group in several for cell in group if cell.resampled is not None)
    return Noise(apart, unequal_deviations(several), shared, own.variance)


def unequal_deviations(groups: Iterable[Sequence[Cell]]) -> tuple[float, float] | None:
    """The smallest and the largest deviation of a cell, if Bartlett's test finds at 5 % that they are not equal.

    Cells whose runs all have one score, such as BLEU 0, are left out: nothing is known of their variance.
    """
    cells = [group[0] for group in groups if group[0].squares > 0]
    if len(cells) < 2 or bartlett([(cell.squares, len(cell.scores) - 1) for cell in cells]) > UNEQUAL:
        return None
    deviations = [float(cell.scores.std(ddof=1)) for cell in cells]
    return min(deviations), max(deviations)


def pooled(squares: Iterable[tuple[float, int]]) -> Spread:
    """The variance of several (sum of squares, degrees of freedom)."""
    known = [*squares]
    df = sum(of_one for _, of_one in known)
    return Spread(sum(of_one for of_one, _ in known) / df if df else 0.0, df)


def welch(first: Cell, cell: Cell) -> Spread:
    """The variance of a run in the mean of two cells, such that (1 / n + 1 / m) times it is s^2 / n + t^2 / m, and its
    degrees of freedom (Satterthwaite 1946)."""
    n, m = len(first.scores), len(cell.scores)
    if min(n, m) == 1:
        return Spread(0.0, 0)
    parts = first.squares / (n - 1) / n, cell.squares / (m - 1) / m
    df = sum(parts) ** 2 / (parts[0] ** 2 / (n - 1) + parts[1] ** 2 / (m - 1))
    return Spread(sum(parts) / (1 / n + 1 / m), int(df))


def residual(scores: Floats) -> tuple[float, int]:
    """(cells, runs) without the means of cells and runs: sum of squares and degrees of freedom."""
    left = scores - scores.mean(0) - scores.mean(1, keepdims=True) + scores.mean()
    return float((left**2).sum()), (scores.shape[0] - 1) * (scores.shape[1] - 1)


def own_squares(resampled: Floats) -> tuple[float, int]:
    """(draws, runs): the variance over draws of each run's deviation from the mean of all, summed."""
    deviations = resampled - resampled.mean(1, keepdims=True)
    return float(deviations.var(0).sum()), resampled.shape[1] - 1


@dataclass(frozen=True)
class Contrast:
    """The difference of two cells and its variance."""

    difference: float
    spread: Spread
    per_run: float
    """The variance over seeds is `spread.variance * per_run`: 1 / n + 1 / m."""
    seeds: int
    """Number in the cell that has fewer."""
    of_sentences: float
    """The variance over draws of sentences, less the part that is each run's own."""
    sentences: int | None
    shares_runs: bool

    @classmethod
    def between(cls, first: Cell, cell: Cell, noise: Noise, sentences: int | None) -> Self:
        shares_runs = first.runs is not None and first.runs == cell.runs
        per_run = 1 / len(first.scores) + 1 / len(cell.scores)
        of_sentences = 0.0
        if first.resampled is not None and cell.resampled is not None:
            own = noise.own * per_run
            if shares_runs:
                squares, df = own_squares(cell.resampled - first.resampled)
                own = squares / df / len(cell.scores) if df else 0.0
            drawn = cell.resampled.mean(1) - first.resampled.mean(1)
            of_sentences = max(0.0, float(drawn.var()) - own)
        return cls(
            cell.mean - first.mean,
            noise.shared if shares_runs else noise.between(first, cell),
            per_run,
            min(len(first.scores), len(cell.scores)),
            of_sentences,
            sentences,
            shares_runs,
        )

    @property
    def of_one_run(self) -> bool:
        """Whether two decodings of a single run are compared."""
        return self.shares_runs and self.seeds == 1 and self.sentences is not None

    def error(self) -> tuple[float, int]:
        """The standard error and its degrees of freedom (Welch-Satterthwaite); (inf, 0) if nothing is known about the
        spread over seeds."""
        if self.of_one_run:
            return math.sqrt(self.of_sentences), (self.sentences or 0) - 1
        if not self.spread.df:
            return math.inf, 0
        of_seeds = self.spread.variance * self.per_run
        variance = of_seeds + self.of_sentences
        denominator = of_seeds**2 / self.spread.df
        if self.sentences and self.of_sentences:
            denominator += self.of_sentences**2 / (self.sentences - 1)
        return math.sqrt(variance), int(variance**2 / denominator + 1e-9) if denominator else self.spread.df

    def interval(self, alpha: float) -> tuple[float, float]:
        error, df = self.error()
        half = t_quantile(1 - alpha / 2, df) * error if df else math.inf
        return self.difference - half, self.difference + half

    def detectable(self, alpha: float, sentences: int | None = None) -> float:
        """The difference that is found in 80 % of cases; with another number of sentences if one is given."""
        error, df = self.error()
        if not df:
            return math.inf
        times = 1.0 if self.sentences is None or sentences is None else self.sentences / sentences
        of_seeds = error**2 - self.of_sentences
        return quantiles(alpha, df) * math.sqrt(of_seeds + self.of_sentences * times)

    def more_seeds(self, target: float, alpha: float) -> int | None:
        """The least number of further seeds with which a difference of `target` is found in 80 % of cases."""
        if self.of_one_run:
            return None
        if not self.spread.df:
            return None
        for seeds in range(max(2, self.seeds + 1), self.seeds + MOST_SEEDS + 1):
            df = max(1, self.spread.df * (seeds - 1) // max(1, self.seeds - 1))
            error = math.sqrt(2 * self.spread.variance / seeds + self.of_sentences)
            if quantiles(alpha, df) * error <= target:
                return seeds - self.seeds
        return None

    def more_sentences(self, target: float, alpha: float) -> int | None:
        """The least number of further sentences with which `target` is found in 80 % of cases with these seeds."""
        df = self.error()[1]
        if not self.sentences or not self.of_sentences or not df:
            return None
        of_seeds = 0.0 if self.of_one_run else self.spread.variance * self.per_run
        left = (target / quantiles(alpha, df)) ** 2 - of_seeds
        more = math.ceil(self.sentences * (self.of_sentences / left - 1)) if left > 0 else 0
        return more if 0 < more <= MOST_SENTENCES else None


def quantiles(alpha: float, df: int) -> float:
    """The standard errors that a difference must have to be found in 80 % of cases."""
    return t_quantile(1 - alpha / 2, df) + t_quantile(POWER, df)


# In words


def in_words(verdict: Verdict, margin: float | None = None, say: Say = ENGLISH) -> str:
    """The verdict, and what would tell where it cannot: "cannot tell; 2 more seeds would"."""
    if verdict.kind == "no larger difference":
        return say("no difference larger than {margin:g}", margin=margin)
    told = say(verdict.kind)
    if verdict.kind != "cannot tell":
        return told
    if math.isinf(verdict.detectable):
        return told + say("; one seed says nothing of the spread of runs")
    needs = [("{count:,} more seed{s}", verdict.more_seeds), ("{count:,} more sentence{s}", verdict.more_sentences)]
    if ways := [say(what, count=count, s="s" * (count != 1)) for what, count in needs if count]:
        return told + say("; {ways} would", ways=say(" or ").join(ways))
    return told + (say("; no affordable number of seeds would") if verdict.difference else "")


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


def bartlett(squares: Sequence[tuple[float, int]]) -> float:
    """The p-value of Bartlett's (1937) test that several (sum of squares, degrees of freedom) have one variance."""
    df = sum(of_one for _, of_one in squares)
    ratio = df * math.log(pooled(squares).variance) - sum(d * math.log(square / d) for square, d in squares)
    correction = 1 + (sum(1 / d for _, d in squares) - 1 / df) / (3 * (len(squares) - 1))
    return chi_squared_beyond(ratio / correction, len(squares) - 1)


def chi_squared_beyond(value: float, df: int) -> float:
    """P(X >= value) of the chi-squared distribution: Abramowitz and Stegun (1964), 26.4.4 and 26.4.5."""
    if value <= 0:
        return 1.0
    half = value / 2
    first = math.erfc(math.sqrt(half)) if df % 2 else 0.0
    powers = np.arange(df % 2 / 2, df / 2)
    return first + sum(math.exp(power * math.log(half) - half - math.lgamma(power + 1)) for power in powers)


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
