"""Successive halving on rungs of the full schedule (Jamieson and Talwalkar 2016): all points train to the first rung,
the best ones go on to the next, and the last ones to the end.

A trial is paused and goes on bit for bit, and its schedule is that of the whole training, so what is promoted is the
run that it would have been without. All points of a rung are compared at once, so the choice does not depend on which
worker was quicker.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from weft.tuning.cells import identity
from weft.tuning.trial import Result, Spec, Trial

if TYPE_CHECKING:
    from weft.tuning.study import Study


def next_rung(study: "Study", trial: Trial, spec: Spec) -> int | None:
    """What a trial without a result is to do next: train to a rung, counted from 1; train to its end, 0; end at rung n,
    -n. None while it waits for others."""
    rungs = len(study.facts.length.rungs)
    if not rungs or spec.phase != "search":
        return 0
    reached = next((number for number in range(rungs) if trial.rung(number + 1) is None), rungs)
    if reached == 0:
        return 1
    chosen = promoted(study, reached)
    if chosen is None:
        return None
    if identity(spec.settings) not in chosen:
        return -reached
    return reached + 1 if reached < rungs else 0


def promoted(study: "Study", rung: int) -> set[str] | None:
    """The points that go on from a rung, by the mean over the seeds; None while some have not come to it.

    A point of which a seed failed does not go on.
    """
    candidates = everything(study) if rung == 1 else promoted(study, rung - 1)
    if candidates is None:
        return None
    values: dict[str, dict[int, float]] = {point: {} for point in candidates}
    failed = set()
    for trial in study.trials():
        spec = trial.spec()
        if spec is None:
            return None
        if spec.phase != "search" or (point := identity(spec.settings)) not in values:
            continue
        if (found := trial.rung(rung)) is not None:
            values[point][spec.seed] = found["value"]
        elif (result := study.result(trial)) is None:
            return None
        elif result.state == "failed":
            failed.add(point)
        elif result.measured:  # patience ended it before this rung
            value = result.value(study.validated, decoding=result.measured[0]["decoding"])
            values[point].update({} if value is None else {spec.seed: value})
    alive = [point for point in values if point not in failed]
    ranked = sorted(alive, key=lambda point: (-study.standing(values[point]), point))
    assert study.config.halving is not None
    return set(ranked[: math.ceil(len(values) / study.config.halving.eta)])


def everything(study: "Study") -> set[str]:
    return {identity(cell.settings) for cell in study.cells()}


@dataclass(frozen=True)
class Trust:
    """How far the values at a rung agree with later ones."""

    rung: int
    later: int | None
    """The rung that it is compared with; None for the end."""
    points: int
    spearman: float
    interval: tuple[float, float]
    """95 %, by the bootstrap over the points."""


def trust(study: "Study") -> list[Trust]:
    """Spearman's correlation of each rung with the end, over the points that came there, each the mean of its seeds.

    Where fewer than three came there it is with the next rung. Promoted points are alike, so this is a lower bound for
    all of them.
    """
    results = [result for result in study.results() if result.phase == "search"]
    found = []
    count = len(study.facts.length.rungs)
    for rung in range(1, count + 1):
        ends = [
            (result, result.rungs[rung - 1], value)
            for result in results
            if len(result.rungs) >= rung
            and result.measured
            and (value := result.value(study.metric.name, decoding=result.measured[0]["decoding"])) is not None
        ]
        pairs, later = ends, None
        if len(means_of_points(pairs)) < 3 and rung < count:
            pairs = [(r, r.rungs[rung - 1], r.rungs[rung]) for r in results if len(r.rungs) > rung]
            later = rung + 1
        columns = means_of_points(pairs)
        if len(columns) >= 3:
            found.append(Trust(rung, later, len(columns), spearman(columns), spread(columns)))
    return found


def means_of_points(pairs: Iterable[tuple[Result, float | None, float | None]]) -> np.ndarray:
    """(points, 2) means over the trials of each point; a value that was not finite is None and is left out."""
    points: dict[str, list[tuple[float, float]]] = {}
    for result, early, late in pairs:
        if early is not None and late is not None:
            points.setdefault(identity(result.settings), []).append((early, late))
    return np.array([np.mean(values, axis=0) for values in points.values()]).reshape(-1, 2)


def spearman(pairs: np.ndarray) -> float:
    """Correlation of the ranks of two columns, equal values sharing their mean rank; 0 if a column is constant."""
    ranks = []
    for column in pairs.T:
        _, places, counts = np.unique(column, return_inverse=True, return_counts=True)
        last = np.cumsum(counts)
        ranks.append((last - (counts - 1) / 2)[places])
    if any(np.ptp(column) == 0 for column in ranks):
        return 0.0
    return float(np.corrcoef(ranks)[0, 1])


def spread(pairs: np.ndarray, resamples: int = 1000, seed: int = 12345) -> tuple[float, float]:
    """The middle 95 % of the correlation over resampled points."""
    random = np.random.default_rng(seed)
    drawn = [spearman(pairs[random.integers(len(pairs), size=len(pairs))]) for _ in range(resamples)]
    low, high = np.quantile(drawn, (0.025, 0.975))
    return float(low), float(high)


def saved(study: "Study") -> tuple[int, int]:
    """(target tokens that the search took, those that it would have taken without stopping)."""
    results = [result for result in study.results() if result.phase == "search" and result.state != "failed"]
    taken = sum(result.target_tokens for result in results)
    whole = sum(round(result.target_tokens * result.steps / result.step) for result in results if result.step)
    return taken, whole
