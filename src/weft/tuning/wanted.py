"""Which trials a study wants: those of the grid or the sampler, then those that confirm."""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from weft.tuning.cells import Cell, Direction, Told, distinct, draw, grid, identity, propose
from weft.tuning.settings import Range, StudyConfig
from weft.tuning.trial import Spec

if TYPE_CHECKING:
    from weft.tuning.study import Study


def wanted(study: "Study") -> Iterator[Spec]:
    """All trials that a study is to have by what is known now. Call it under the study's lock."""
    config = study.config
    search = [*searched(study)]
    yield from search
    if config.confirm is None or any(study.result_of(spec) is None for spec in search):
        return
    chosen = [study.best(), study.baseline()]
    for settings in distinct(cell for cell in chosen if cell is not None):
        yield from (Spec(settings, seed, "confirm") for seed in config.confirm.seeds)


def searched(study: "Study") -> Iterator[Spec]:
    """The trials of the grid or the sampler, all points with the first seed first."""
    config = study.config
    if config.sampler == "grid":
        points = [(None, settings) for settings in distinct(grid(config))]
    else:
        cells = drawn(config) if config.sampler == "random" else proposed(study)
        points = [(cell.arm, cell.settings) for cell in cells]
    for seed in config.seeds:
        yield from (Spec(settings, seed, arm=arm) for arm, settings in points)


def drawn(config: StudyConfig) -> list[Cell]:
    """As many random points as are asked for, each once."""
    most = config.trials or 0
    cells: dict[str, Cell] = {}
    for number in range(20 * most):  # a point of lists alone may be drawn twice
        cell = draw(config, number)
        cells.setdefault(point_of(cell), cell)
        if len(cells) == most:
            break
    return [*cells.values()]


def proposed(study: "Study") -> list[Cell]:
    """The points that TPE has proposed, with one more if no trial is waiting for a worker."""
    cells = study.cells()
    if len(cells) < (study.config.trials or 0) and not is_one_free(study):
        known = told(study, cells)
        cost: list[Direction] = ["minimize"] if study.config.cost else []
        points = (draw(study.config, number) for number in range(20 * (study.config.trials or 0)))
        asked = propose(study.config, known, [study.direction, *cost])
        cells += first_new([asked, *points], cells)  # TPE may propose a point of lists again
    return cells


def trials_to_come(study: "Study") -> int:
    """Trials that the study will still add: of points that TPE has not proposed yet, and those that confirm the chosen
    point and the baseline."""
    config, points, confirming = study.config, 0, 0
    if config.sampler == "tpe":
        most = math.prod(math.inf if isinstance(values, Range) else len(values) for values in config.varied.values())
        points = int(min(config.trials or 0, most * max(1, len(config.arms)))) - len(study.cells())
    if config.confirm is not None and not any(t.phase == "confirm" for each in study.trials() if (t := each.spec())):
        confirming = len(config.confirm.seeds) * (1 + (study.baseline() is not None))
    return points * len(config.seeds) + confirming


def first_new(points: Sequence[Cell], known: Sequence[Cell]) -> list[Cell]:
    """The first of the points that is not known yet, if there is one."""
    seen = {point_of(cell) for cell in known}
    return [point for point in points if point_of(point) not in seen][:1]


def point_of(cell: Cell) -> str:
    return identity({**cell.values, "arm": cell.arm})


def is_one_free(study: "Study") -> bool:
    """Whether a trial without a result is waiting for a worker."""
    for trial in study.trials():
        if study.result(trial) is None:
            with trial.claimed() as is_mine:
                if is_mine:
                    return True
    return False


def told(study: "Study", cells: Sequence[Cell]) -> list[Told]:
    """What a sampler is told of these cells."""
    found = []
    for cell in cells:
        results = [study.result_of(Spec(cell.settings, seed, arm=cell.arm)) for seed in study.config.seeds]
        values = [*study.values(cell).values()]
        figures = None
        if values and None not in results and not study.has_failed(cell) and all(value == value for value in values):
            cost = [study.cost_of(cell)] if study.config.cost else []
            figures = [sum(values) / len(values), *cost]
        found.append(Told(cell, figures, failed=figures is None and None not in results))
    return found
