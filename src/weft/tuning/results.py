"""What a study has found: tables with their notes, and a paragraph for a report, in English or Chinese."""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from weft.config.toml import write_value
from weft.figures.table import Table
from weft.figures.words import Say, say_from
from weft.folders.kinds import KINDS
from weft.metrics.verdicts import FEW_SENTENCES, Verdict, in_words
from weft.tuning.cells import ARM, Cell, importance
from weft.tuning.halving import saved, trust
from weft.tuning.judging import Judged, claims, confirmed, judged
from weft.tuning.study import Study
from weft.tuning.trial import first_lines
from weft.tuning.wanted import told


def as_dict(study: Study) -> dict[str, Any]:
    """For JSON."""
    best, found = study.best(), judged(study)
    return {
        "study": str(study.folder),
        "metric": study.metric.name,
        "best": None if best is None else dict(best.values),
        "baseline": None if found.baseline is None else dict(found.baseline.values),
        "test_files_opened": study.test_files_opened,
        "cells": [
            {
                "cell": cell.names,
                "nuisance": dict(cell.nuisance),
                "values": study.values(cell),
                "verdict": None if (verdict := found.verdict(cell)) is None else asdict(verdict),
            }
            for cell in found.cells
        ],
        "deviation": asdict(found.noise.apart),
        "unequal_deviations": found.noise.unequal,
        "claims": [
            {"says": one.claim.says, "agreement": one.agreement, "verdict": one.verdict and asdict(one.verdict)}
            for one in claims(study, found)
        ],
        "trials": [vars(result) for result in study.results()],
    }


def short(keys: Sequence[str]) -> dict[str, str]:
    """The last part of each key, as far as that tells them apart."""
    last = [key.rpartition(".")[2] for key in keys]
    return {key: name if last.count(name) == 1 else key for key, name in zip(keys, last, strict=True)}


def shown(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else write_value(value)


def say_in(language: str) -> Say:
    """The words of a study's tables in a language."""
    return say_from(Path(__file__).parent, "study", language)


def tables(study: Study, language: str = "en") -> list[Table]:
    """The cells, the best first, with their verdicts against the baseline; and what the study says of its claims."""
    say, found = say_in(language), judged(study)
    return [cells_table(study, found, say), *claims_table(study, found, say)]


def cells_table(study: Study, found: Judged, say: Say) -> Table:
    cells, cost, form = found.cells, study.config.cost, study.metric.form
    keys = [*dict.fromkeys(key for cell in cells for key in (*cell.names, *cell.nuisance))]
    names = {key: say(name) if key == ARM else name for key, name in short(keys).items()}
    rows = []
    for cell in cells:
        values = [*study.values(cell).values()]
        given = {**cell.names, **cell.nuisance}
        verdict = found.verdict(cell)
        row = [shown(given[key]) if key in given else "" for key in names]
        row += [f"{statistics.fmean(values):{form}}" if values else say(state_of(study, cell))]
        row += [f"{statistics.stdev(values):.2g}" if len(values) > 1 else "", str(len(values))]
        row += [difference(verdict, form) if verdict else "", verdict_of(study, found, cell, say)]
        if cost:
            row += [cost_shown(study.cost_of(cell)) + (" *" if cell in pareto(study, cells) else "")]
        rows.append(tuple(row))
    header = [*names.values(), study.metric.title, *map(say, ("sd", "seeds", "difference", "verdict"))]
    texts = frozenset([*range(len(names)), len(names) + 4])
    title = say("Study {name}", name=study.folder.name)
    header += [say(cost)] if cost else []
    return Table(title, tuple(header), rows, [*notes(study, found, say)], texts, keys=len(names))


def cost_shown(cost: float) -> str:
    """1,234, or 0.52 where a whole number would say too little; empty for NaN."""
    return "" if math.isnan(cost) else f"{cost:.2g}" if cost < 10 else f"{cost:,.0f}"


def difference(verdict: Verdict, form: str) -> str:
    """+0.32 [+0.05, +0.59]"""
    low, high = verdict.interval
    if math.isinf(low):
        return f"{verdict.difference:+{form}}"
    return f"{verdict.difference:+{form}} [{low:+{form}}, {high:+{form}}]"


def verdict_of(study: Study, found: Judged, cell: Cell, say: Say) -> str:
    """The verdict on a cell, in as few words as fit into a table."""
    if cell == found.baseline:
        return say("baseline")
    verdict = found.verdict(cell)
    if verdict is None:
        return ""
    return f"≤ {study.config.margin:g}" if verdict.kind == "no larger difference" else say(verdict.kind)


def claims_table(study: Study, found: Judged, say: Say) -> list[Table]:
    rows = []
    for one in claims(study, found):
        verdict = one.verdict
        measured = difference(verdict, study.metric.form) if verdict else say("not measured")
        rows.append((one.claim.says, measured, say(one.agreement)))
    if not rows:
        return []
    sources = [f"{one.says}: {one.source}" for one in study.config.claims if one.source]
    header = tuple(map(say, ("claim", "difference", "verdict")))
    return [Table(say("Claims"), header, rows, sources, frozenset({0, 2}))]


def state_of(study: Study, cell: Cell) -> str:
    """The state of a cell without a value."""
    states = {result.state for result in study.results_of(cell)}
    return "failed" if "failed" in states else "stopped" if "stopped" in states else "-"


def pareto(study: Study, cells: Sequence[Cell]) -> list[Cell]:
    """The cells that no other beats in both the metric and the cost."""
    points = [(study.place_of(cell), -study.cost_of(cell), cell) for cell in cells]
    points = [point for point in points if point[0] > -float("inf")]
    return [
        cell
        for value, thrift, cell in points
        if not any(v >= value and t >= thrift and (v > value or t > thrift) for v, t, _ in points)
    ]


def notes(study: Study, found: Judged, say: Say) -> Iterator[str]:
    """What is to be said below the table of the cells."""
    results, config, title = study.results(), study.config, study.metric.title
    if unfinished := len(study.trials()) - len(results):
        yield say("{left} of {all} trials are not finished", left=unfinished, all=len(study.trials()))
    for result in results:
        if result.state == "failed":
            yield say("trial {number} failed: {why}", number=result.number, why=first_lines(result.why))
    half = len(study.valid("choose"))
    yield say("{metric} on one half of valid: {half:,} of {all:,}", metric=title, half=half, all=study.facts.valid)
    yield say("test files opened: {count}", count=study.test_files_opened)
    yield from how_judged(study, found, say)
    if (best := study.best()) is not None:
        yield say("best: {values}", values=said(best.values) or say("the recipe as it is"))
        for key, value in study.edges():
            advice = "try {other:g} beyond it" if isinstance(config.varied[key], tuple) else "widen the range"
            edge = f"the best {{key}} = {{value}} is at the edge of what was tried; {advice}"
            yield say(edge, key=key, value=best.values[key], other=value)
        yield from confirmation(study, best, say)
    if config.halving is not None:
        yield from of_halving(study, say)
    if config.sampler != "grid" and (shares := importance(config, told(study, study.cells()), study.direction)):
        yield say("importance, by PED-ANOVA: {shares}", shares=", ".join(f"{k} {v:.2f}" for k, v in shares.items()))
    if config.cost:
        yield say("*: no other cell is better in both {metric} and {cost}", metric=title, cost=say(config.cost))


def how_judged(study: Study, found: Judged, say: Say) -> Iterator[str]:
    """How the verdicts were found, and what would tell where they cannot."""
    if found.baseline is None:
        return
    if not found.verdicts:
        if len(found.cells) > 1 and (not study.values(found.baseline) or study.has_failed(found.baseline)):
            yield say(
                "nothing is compared with the baseline, {values}: it has no score, or a run of it failed",
                values=said(found.baseline.names),
            )
        return
    yield say("baseline: {values}", values=said(found.baseline.names) or say("the recipe as it is"))
    if not any(value for cell in found.cells for value in study.values(cell).values()):
        yield say(
            "{metric} is 0 in every run and tells nothing: train for longer, or compare by loss "
            "(`metric` of a study, `training.select_by` of a recipe for weft ablate)",
            metric=study.metric.title,
        )
    spread = found.noise.apart
    if found.noise.unequal is not None:
        low, high = found.noise.unequal
        yield say(
            "a run's deviation differs by more than chance (Bartlett), from {low:.2g} to {high:.2g}: each pair of "
            "cells is judged by its own (Welch)",
            low=low,
            high=high,
        )
    elif spread.df:
        yield say("a run's deviation: {sd:.2g}, pooled over all cells ({df} df)", sd=spread.deviation, df=spread.df)
    what = say("seeds and {count:,} sentences", count=found.sentences) if found.sentences else say("seeds")
    yield say("verdicts over {what}, Student's t, adjusted by Holm; [95 % intervals that hold together]", what=what)
    if finds := [verdict.detectable for verdict in found.verdicts.values() if math.isfinite(verdict.detectable)]:
        few = max(verdict.detectable_on_few for verdict in found.verdicts.values())
        yield say(
            "differences of {now:.2g} are found in 80 % of cases; on 200 sentences only of {few:.2g}"
            if found.sentences and found.sentences > FEW_SENTENCES
            else "differences of {now:.2g} are found in 80 % of cases",
            now=max(finds),
            few=few,
        )
    unsure = [verdict for verdict in found.verdicts.values() if verdict.kind == "cannot tell"]
    seeds = [verdict.more_seeds for verdict in unsure if verdict.more_seeds]
    sentences = [verdict.more_sentences for verdict in unsure if verdict.more_sentences]
    if not spread.df and found.noise.unequal is None:
        yield say("one seed a cell says nothing of the spread of runs: give the study a second seed")
    if seeds:
        hours = max(seeds) * sum(result.seconds for result in study.results() if result.seed == study.config.seeds[0])
        yield say(
            "{count} more seed{s} would tell {some} of the {all} that are open, {hours:.1f} core hours",
            count=max(seeds),
            s="s" * (max(seeds) != 1),
            some=len(seeds),
            all=len(unsure),
            hours=hours * (study.base.recipe.training.threads or 1) / 3600,
        )
    if sentences:
        yield say(
            "{count:,} more sentence{s} would tell {some} of the {all} that are open",
            count=max(sentences),
            s="s" * (max(sentences) != 1),
            some=len(sentences),
            all=len(unsure),
        )
    if spread.df and len(unsure) > max(len(seeds), len(sentences)):
        yield say("cells that stay open differ too little for any affordable number of seeds")


def of_halving(study: Study, say: Say) -> Iterator[str]:
    taken, whole = saved(study)
    share = f"{taken / max(1, whole):.0%}"
    yield say("halving took {taken:,} target tokens, {share} of {whole:,}", taken=taken, share=share, whole=whole)
    trusted = trust(study)
    for one in trusted:
        low, high = (f"{bound:.2f}" for bound in one.interval)
        yield say(
            "rung {rung} against {later}: Spearman {rho:.2f} [{low}, {high}] over {points} points that came there",
            rung=one.rung,
            later=say("the end") if one.later is None else say("rung {rung}", rung=one.later),
            rho=one.spearman,
            low=low,
            high=high,
            points=one.points,
        )
    if not trusted:
        yield say("fewer than three points came to any later rung: how far a rung can be trusted is not known")


def said(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} = {shown(value)}" for key, value in values.items())


def confirmation(study: Study, best: Cell, say: Say) -> Iterator[str]:
    """What new seeds and the other half of valid say of the chosen cell."""
    again = study.values(best, half="confirm", phase="confirm")
    if study.has_failed(best, "confirm"):
        yield say("not confirmed: a run with a new seed failed")
        return
    if not again:
        return
    form = study.metric.form
    chosen, mean = (statistics.fmean(of.values()) for of in (study.values(best), again))
    yield say(
        "confirmed with new seeds ({seeds}) on the other half: {mean}, chosen with {chosen} ({change})",
        seeds=", ".join(map(str, again)),
        mean=f"{mean:{form}}",
        chosen=f"{chosen:{form}}",
        change=f"{mean - chosen:+{form}}",
    )
    if (verdict := confirmed(study)) is not None:
        told = in_words(verdict, study.config.margin, say)
        yield say("there against the baseline: {difference}: {told}", difference=difference(verdict, form), told=told)


# A paragraph


def paragraph(study: Study, language: str = "en") -> str:
    """What was done and found, in sentences for a report."""
    say, found, config = say_in(language), judged(study), study.config
    kinds = [verdict.kind for verdict in found.verdicts.values()]
    many, seeds = len(found.cells), len(config.seeds)
    parts = [
        say(
            "We varied {keys} of {base} in {cells} settings with {seeds} seed{s} each, {tokens:,} target tokens a run.",
            keys=", ".join(dict.fromkeys((*config.space, *(key for keys in config.arms.values() for key in keys)))),
            base=Path(config.base).stem,
            cells=many,
            seeds=seeds,
            s="s" * (seeds != 1),
            tokens=study.facts.length.target_tokens,
        ),
        say(
            "Settings were compared by {metric} on {half:,} {rows} of the validation set; test files opened: {count}.",
            count=study.test_files_opened,
            metric=study.metric.title,
            half=len(study.valid("choose")),
            rows=say(f"{KINDS[study.base.recipe.task].rows}s"),
        ),
    ]
    if config.nuisance:
        parts.append(say("Each setting uses its best values of {keys}.", keys=", ".join(config.nuisance)))
    states = [result.state for result in study.results()]
    for state, sentence in (
        ("stopped", "Successive halving stopped {count} of the {all} runs early."),
        ("failed", "{count} of the {all} runs failed."),
    ):
        if count := states.count(state):
            parts.append(say(sentence, count=count, all=len(states)))
    if found.baseline is not None and kinds:
        parts.append(
            say(
                "Against {baseline}, {better} are better, {worse} worse, {equal} no different beyond the margin, and "
                "of {open} the runs cannot tell ({deviation}, Holm's adjustment, 5 %).",
                baseline=said(found.baseline.names) or say("the recipe as it is"),
                better=kinds.count("better"),
                worse=kinds.count("worse"),
                equal=kinds.count("no larger difference"),
                open=kinds.count("cannot tell"),
                deviation=say("Welch's test")
                if found.noise.unequal is not None
                else say("pooled deviation {sd:.2g}", sd=found.noise.apart.deviation)
                if found.noise.apart.df
                else say("one seed each"),
            )
        )
    if (best := study.best()) is not None:
        mean = statistics.fmean(study.values(best).values())
        parts.append(
            say(
                "The best mean, {mean}, has {values}.",
                mean=f"{mean:{study.metric.form}}",
                values=said(best.values) or say("the recipe as it is"),
            )
        )
        end = "。" if language == "zh" else "."
        parts += [f"{note[:1].upper()}{note[1:]}{end}" for note in confirmation(study, best, say)]
    return ("" if language == "zh" else " ").join(parts)
