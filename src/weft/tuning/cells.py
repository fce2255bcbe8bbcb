"""The cells of a study: combinations of values, which trials they need, and which cells a sampler proposes.

Cells that differ only in keys of decoding share a trial: its model is trained once and searched in several ways.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, cast

import numpy as np

from weft.errors import needing
from weft.runtime import derive_seed
from weft.tuning.settings import Range, StudyConfig, Values, is_of_decoding

ARM = "arm"
Direction = Literal["minimize", "maximize"]


@dataclass(frozen=True)
class Cell:
    """One combination of values."""

    arm: str | None
    point: Mapping[str, Any]
    """Keys of the study's space and their values."""
    nuisance: Mapping[str, Any]
    values: Mapping[str, Any]
    """All keys of the recipe that this cell sets, with those of its arm."""

    @property
    def settings(self) -> dict[str, Any]:
        """The keys that a model is trained with."""
        return {key: value for key, value in self.values.items() if not is_of_decoding(key)}

    @property
    def decoding(self) -> dict[str, Any]:
        """The keys that a trained model is searched with."""
        return {key: value for key, value in self.values.items() if is_of_decoding(key)}

    @property
    def names(self) -> dict[str, Any]:
        """What tells it from the other cells of a table, nuisance aside."""
        return {**({ARM: self.arm} if self.arm is not None else {}), **self.point}


def cell_of(config: StudyConfig, arm: str | None, given: Mapping[str, Any]) -> Cell:
    """The cell of an arm and of values for the keys of space and nuisance."""
    point = {key: given[key] for key in config.space}
    nuisance = {key: given[key] for key in config.nuisance}
    of_arm = {} if arm is None else config.arms[arm]
    return Cell(arm, point, nuisance, {**of_arm, **point, **nuisance})


def grid(config: StudyConfig) -> list[Cell]:
    """All combinations of the lists."""
    lists = cast(Mapping[str, tuple[Any, ...]], config.varied)  # a grid has no ranges
    combinations = [dict(zip(lists, values, strict=True)) for values in product(*lists.values())]
    return [cell_of(config, arm, values) for arm in (*config.arms,) or (None,) for values in combinations]


def identity(values: Mapping[str, Any]) -> str:
    """Equal texts for equal settings."""
    return json.dumps(values, sort_keys=True)


def distinct(cells: Iterable[Cell]) -> list[dict[str, Any]]:
    """The settings to train with, each once."""
    return [*{identity(cell.settings): cell.settings for cell in cells}.values()]


# Drawn points


def draw(config: StudyConfig, number: int) -> Cell:
    """Random point of this number, the same whichever worker draws it."""
    random = np.random.default_rng(derive_seed("study", number))
    arm = str(random.choice([*config.arms])) if config.arms else None
    lists = config.varied
    return cell_of(config, arm, {key: draw_value(values, float(random.random())) for key, values in lists.items()})


def draw_value(values: Values, share: float) -> Any:
    """The value at this share of a list or a range, with three digits."""
    if not isinstance(values, Range):
        return values[min(int(share * len(values)), len(values) - 1)]
    if values.is_whole and not values.log:
        return min(int(values.low + share * (values.high + 1 - values.low)), int(values.high))
    if values.log:
        found = math.exp(math.log(values.low) + share * math.log(values.high / values.low))
    else:
        found = values.low + share * (values.high - values.low)
    return round(found) if values.is_whole else min(max(float(f"{found:.3g}"), values.low), values.high)


@dataclass(frozen=True)
class Told:
    """What a sampler knows of a point: its cell, and its figures, None while it is running or if it failed."""

    cell: Cell
    figures: Sequence[float] | None
    failed: bool = False


def propose(config: StudyConfig, told: Sequence[Told], directions: Sequence[Direction]) -> Cell:
    """The point that Optuna's TPE proposes next. The study lives in memory and is made anew from what is told."""
    with needing("Optuna, which proposes points,", "tune"):
        import optuna
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.TPESampler(
        multivariate=True,
        constant_liar=True,
        n_startup_trials=min(10, max(2, (config.trials or 10) // 3)),
        seed=derive_seed("tpe", len(told)) % 2**32,
    )
    study = optuna.create_study(directions=[*directions], sampler=sampler)
    for one in told:
        study.add_trial(past_trial(config, one))
    fixed = distributions(config)
    asked = study.ask(fixed)
    given = {key: value_of(fixed[key], asked.params[key]) for key in fixed}
    return cell_of(config, given.pop(ARM, None), given)


def distributions(config: StudyConfig) -> dict[str, Any]:
    """What Optuna calls the values of each key; lists become categories, written as JSON."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    found: dict[str, Any] = (
        {ARM: CategoricalDistribution([json.dumps(arm) for arm in config.arms])} if config.arms else {}
    )
    for key, values in config.varied.items():
        if isinstance(values, Range):
            if values.is_whole:
                found[key] = IntDistribution(int(values.low), int(values.high), log=values.log)
            else:
                found[key] = FloatDistribution(values.low, values.high, log=values.log)
        else:
            found[key] = CategoricalDistribution([json.dumps(value) for value in values])
    return found


def value_of(distribution: Any, given: Any) -> Any:
    """The value of a key, to three digits, for what Optuna asks of it."""
    if hasattr(distribution, "choices"):
        return json.loads(given)
    return given if isinstance(given, int) else min(max(float(f"{given:.3g}"), distribution.low), distribution.high)


def past_trial(config: StudyConfig, told: Told) -> Any:
    """A trial as Optuna knows it."""
    from optuna.trial import TrialState, create_trial

    known = distributions(config)
    values = {**told.cell.values, ARM: told.cell.arm}
    params = {key: json.dumps(values[key]) if hasattr(known[key], "choices") else values[key] for key in known}
    if told.figures is not None:
        return create_trial(params=params, distributions=known, values=[*told.figures], state=TrialState.COMPLETE)
    return create_trial(
        params=params, distributions=known, state=TrialState.FAIL if told.failed else TrialState.RUNNING
    )


def importance(config: StudyConfig, told: Sequence[Told], direction: Direction) -> dict[str, float]:
    """The share of each key in what separates the best quarter of the points from the rest (PED-ANOVA); empty where
    Optuna is missing or fewer than four points are known."""
    done = [Told(one.cell, one.figures[:1]) for one in told if one.figures is not None]
    if len(done) < 4:
        return {}
    try:
        import optuna
    except ImportError:
        return {}
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(direction=direction)
    for one in done:
        study.add_trial(past_trial(config, one))
    evaluator = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=0.25)
    return {
        key: float(share) for key, share in optuna.importance.get_param_importances(study, evaluator=evaluator).items()
    }


# The edge of a range

EDGE = 0.05
"""Share of a range that counts as its edge."""


def edges(config: StudyConfig, best: Cell, tried: Mapping[str, Sequence[Any]]) -> list[tuple[str, Any]]:
    """The keys whose best value is at the edge of the values that were tried, each with the next value beyond it; of a
    range, with its end."""
    found = []
    for key, values in config.varied.items():
        value = best.values[key]
        if isinstance(values, Range):
            share = (value - values.low) / (values.high - values.low)
            if values.log:
                share = math.log(value / values.low) / math.log(values.high / values.low)
            if not EDGE <= share <= 1 - EDGE:
                found.append((key, values.low if share < 0.5 else values.high))
            continue
        numbers = sorted({v for v in tried[key] if isinstance(v, int | float) and not isinstance(v, bool)})
        if len(numbers) >= 2 and len(numbers) == len(set(map(repr, tried[key]))) and value in (numbers[0], numbers[-1]):
            found.append((key, beyond(numbers if value == numbers[-1] else numbers[::-1])))
    return found


def beyond(numbers: Sequence[float]) -> Any:
    """The next number of a sequence: times the last ratio where the numbers span a factor of 4 or more, otherwise plus
    the last difference."""
    before, last = numbers[-2:]
    is_geometric = min(numbers) > 0 and max(numbers) / min(numbers) >= 4
    found = last * last / before if is_geometric else last + (last - before)
    return round(found) if all(isinstance(number, int) for number in numbers) else float(f"{found:.2g}")
