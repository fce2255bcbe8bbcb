"""What a study has found, as a table."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from weft.config.toml import write_value
from weft.figures.table import Table
from weft.tuning.cells import Cell, identity, importance
from weft.tuning.halving import saved, trust
from weft.tuning.study import Study


def as_dict(study: Study) -> dict[str, Any]:
    """For JSON."""
    best, baseline = study.best(), study.baseline()
    return {
        "study": str(study.folder),
        "metric": study.metric.name,
        "best": None if best is None else dict(best.values),
        "baseline": None if baseline is None else dict(baseline.values),
        "test_files_opened": study.facts.test_files_opened,
        "cells": [
            {"cell": cell.names, "nuisance": dict(cell.nuisance), "values": study.values(cell)}
            for cell in ranked(study)
        ],
        "trials": [vars(result) for result in study.results()],
    }


def ranked(study: Study) -> list[Cell]:
    """The cells, the best first; of cells that differ in nuisance keys alone, only the best."""
    found: dict[str, Cell] = {}
    for cell in sorted(study.cells(), key=lambda cell: -study.standing(study.values(cell))):
        found.setdefault(identity(cell.names), cell)
    return [*found.values()]


def short(keys: Sequence[str]) -> dict[str, str]:
    """The last part of each key, as far as that tells them apart."""
    last = [key.rpartition(".")[2] for key in keys]
    return {key: name if last.count(name) == 1 else key for key, name in zip(keys, last, strict=True)}


def shown(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else write_value(value)


def table(study: Study) -> Table:
    """A row for each cell, the best first, with the mean of the metric over the seeds and its standard deviation."""
    cells = ranked(study)
    names = short([*dict.fromkeys(key for cell in cells for key in (*cell.names, *cell.nuisance))])
    cost = study.config.cost
    rows = []
    for cell in cells:
        values = [*study.values(cell).values()]
        given = {**cell.names, **cell.nuisance}
        row = [shown(given[key]) if key in given else "" for key in names]
        spread = f"{statistics.stdev(values):.2g}" if len(values) > 1 else ""
        row += [f"{statistics.fmean(values):{study.metric.form}}" if values else state_of(study, cell), spread]
        row += [str(len(values))]
        if cost:
            row += [f"{study.costs(cell)[0]:,.0f}" + (" *" if cell in pareto(study, cells) else "")]
        rows.append(tuple(row))
    header = (*names.values(), study.metric.title, "sd", "seeds", *([cost] if cost else []))
    texts = frozenset(range(len(names)))
    return Table(f"Study {study.folder.name}", header, rows, [*notes(study)], texts)


def state_of(study: Study, cell: Cell) -> str:
    """The state of a cell without a value."""
    states = {r.state for r in study.results() if identity(r.settings) == identity(cell.settings)}
    return "failed" if "failed" in states else "stopped" if "stopped" in states else "-"


def pareto(study: Study, cells: Sequence[Cell]) -> list[Cell]:
    """The cells that no other beats in both the metric and the cost."""
    points = [(study.standing(study.values(cell)), -study.costs(cell)[0], cell) for cell in cells]
    points = [point for point in points if point[0] > -float("inf")]
    return [
        cell
        for value, thrift, cell in points
        if not any(v >= value and t >= thrift and (v > value or t > thrift) for v, t, _ in points)
    ]


def notes(study: Study) -> list[str]:
    """What is to be said below the table."""
    found, results, config = [], study.results(), study.config
    unfinished = len(study.trials()) - len(results)
    if unfinished:
        found.append(f"{unfinished} of {len(study.trials())} trials are not finished")
    for result in results:
        if result.state == "failed":
            found.append(f"trial {result.number} failed: {result.why.splitlines()[0]}")
    half = (study.facts.valid + 1) // 2
    found.append(
        f"{study.metric.title} on one half of valid ({half:,} of {study.facts.valid:,}); test files opened: "
        f"{study.facts.test_files_opened}"
    )
    best = study.best()
    if best is not None:
        found.append(f"best: {said(best.values)}")
        for key, value in study.edges():
            beyond = f"try {value:g} beyond it" if isinstance(study.values_of(key), tuple) else "widen the range"
            found.append(f"the best {key} = {shown(best.values[key])} is at the edge of what was tried; {beyond}")
        found += confirmation(study, best)
    if config.halving is not None:
        taken, whole = saved(study)
        found.append(f"halving took {taken:,} target tokens, {taken / max(1, whole):.0%} of {whole:,}")
        for one in trust(study):
            low, high = one.interval
            found.append(
                f"rung {one.rung} against {one.later}: Spearman {one.spearman:.2f} [{low:.2f}, {high:.2f}] over "
                f"{one.points} points that came there"
            )
        if not trust(study):
            found.append("fewer than three points came to any later rung: how far a rung can be trusted is not known")
    if config.sampler != "grid":
        shares = importance(config, study.told(study.cells()), study.direction)
        if shares:
            found.append(f"importance: {', '.join(f'{key} {share:.2f}' for key, share in shares.items())} (PED-ANOVA)")
    if config.cost:
        found.append(f"*: no other cell is better in both {study.metric.title} and {config.cost}")
    return found


def said(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} = {shown(value)}" for key, value in values.items())


def confirmation(study: Study, best: Cell) -> list[str]:
    """What new seeds and the other half of valid say of the chosen cell."""
    confirmed = study.values(best, half="confirm", phase="confirm")
    if not confirmed:
        return []
    form = study.metric.form
    chosen, again = (statistics.fmean(v.values()) for v in (study.values(best), confirmed))
    found = [
        f"confirmed with seeds {', '.join(map(str, confirmed))} on the other half: {again:{form}}, chosen with "
        f"{chosen:{form}} ({again - chosen:+{form}})"
    ]
    baseline = study.baseline()
    if baseline is not None and baseline != best:
        of_baseline = study.values(baseline, half="confirm", phase="confirm")
        if of_baseline:
            mean = statistics.fmean(of_baseline.values())
            found.append(f"the baseline, {said(baseline.values)}, there: {mean:{form}}")
    return found
