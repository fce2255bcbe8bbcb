"""What a study may say of its cells: a verdict for each against the baseline, on its claims, and on what it chose."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from weft.metrics import verdicts
from weft.metrics.references import reference_sets
from weft.metrics.significance import Floats, count_sentences, resample, too_few
from weft.metrics.verdicts import Noise, Verdict, judge_pairs, noise_of
from weft.tuning.cells import Cell, identity
from weft.tuning.settings import ClaimConfig, is_of_decoding
from weft.tuning.study import HALVES, Study
from weft.tuning.trial import Phase, Trial

RESAMPLED = ("sacrebleu", "chrf", "bleu_1", "bleu_2", "bleu_3", "bleu_4")
"""Metrics of translation that are resampled over sentences; others are judged over seeds alone."""
Agreement = Literal["agrees", "contradicts", "cannot tell"]


@dataclass(frozen=True)
class Judged:
    """A study's cells with their verdicts."""

    cells: list[Cell]
    """The best first; of cells that differ in nuisance keys alone, the best."""
    baseline: Cell | None
    verdicts: Mapping[str, Verdict]
    """Identity of a cell's names -> its verdict against the baseline."""
    noise: Noise
    sentences: int | None
    """The number that was resampled; None if the verdicts are over seeds alone."""

    def verdict(self, cell: Cell) -> Verdict | None:
        return self.verdicts.get(identity(cell.names))


def ranked(study: Study) -> list[Cell]:
    """The cells, the best first; of cells that differ in nuisance keys alone, only the best."""
    found: dict[str, Cell] = {}
    for cell in sorted(study.cells(), key=lambda cell: -study.place_of(cell)):
        found.setdefault(identity(cell.names), cell)
    return [*found.values()]


def judged(study: Study) -> Judged:
    """Compare every cell of which no run failed with the baseline, on the half of valid by which the study chooses."""
    cells = ranked(study)
    baseline = study.baseline()
    whole = [cell for cell in cells if not study.has_failed(cell)]
    known = {identity(cell.names): found for cell in whole if (found := measured(study, cell)) is not None}
    noise = noise_of([*known.values()])
    sentences = sentences_of(study, known.values())
    first = None if baseline is None else known.get(identity(baseline.names))
    others = [] if first is None else [cell for name, cell in known.items() if cell is not first]
    found = (
        judge_pairs([(first, cell) for cell in others], noise, **options(study), sentences=sentences) if first else []
    )
    return Judged(cells, baseline, {verdict.name: verdict for verdict in found}, noise, sentences)


def options(study: Study) -> dict[str, Any]:
    return {"higher_is_better": study.metric.better == "max", "margin": study.config.margin}


def measured(study: Study, cell: Cell, half: str = "choose", phase: Phase = "search") -> verdicts.Cell | None:
    """A cell's scores by seed, with those on resampled sentences where there are any; None if it has no score."""
    values = study.values(cell, half=half, phase=phase)
    values = {seed: value for seed, value in sorted(values.items()) if np.isfinite(value)}
    if not values:
        return None
    drawn = [one for seed in values if (one := resampled(study, cell, seed, half, phase)) is not None]
    whole = np.stack(drawn, axis=1) if len(drawn) == len(values) else None
    shares_runs = any(map(is_of_decoding, study.config.keys))
    runs = f"{identity(cell.settings)} {[*values]}" if shares_runs else None
    return verdicts.Cell(identity(cell.names), np.array([*values.values()]), whole, runs)


def resampled(study: Study, cell: Cell, seed: int, half: str, phase: Phase) -> Floats | None:
    """(draws,) scores of one trial on resampled sentences of one half of valid."""
    valid = study.valid(half)
    if study.metric.name not in RESAMPLED or too_few(len(valid)):
        return None
    for result in study.results_of(cell, phase):
        if result.seed == seed and result.hypotheses:
            return drawn_scores(study, study.path_of(result.number), identity(cell.decoding), half)
    return None


@cache
def drawn_scores(study: Study, trial: Path, decoding: str, half: str) -> Floats:
    hypotheses = Trial(trial).hypotheses(json.loads(decoding))[HALVES[half] :: 2]
    references = reference_sets(study.valid(half).references)
    name = study.metric.name
    counted = count_sentences(hypotheses, references, study.base.recipe.data.target)
    return resample({name: counted[name]})[name]


def sentences_of(study: Study, cells: Any, half: str = "choose") -> int | None:
    return len(study.valid(half)) if any(cell.resampled is not None for cell in cells) else None


# Claims


@dataclass(frozen=True)
class Claimed:
    """What the study says of a claim."""

    claim: ClaimConfig
    agreement: Agreement
    verdict: Verdict | None
    """None if a cell of the claim has no score."""


def claims(study: Study, found: Judged) -> list[Claimed]:
    """Judge every claim of the study's file as a planned comparison, adjusted for the number of claims."""
    pairs = []
    for claim in study.config.claims:
        named = [cell_named(found.cells, names) for names in claim.cells]
        ends = [measured(study, cell) if cell and not study.has_failed(cell) else None for cell in named]
        pairs.append((claim, *ends))
    known = [(claim, first, cell) for claim, first, cell in pairs if first is not None and cell is not None]
    verdicts_of = judge_pairs(
        [(first, cell) for _, first, cell in known], found.noise, **options(study), sentences=found.sentences
    )
    by_claim = {id(claim): verdict for (claim, _, _), verdict in zip(known, verdicts_of, strict=True)}
    judged_claims = [(claim, by_claim.get(id(claim))) for claim, *_ in pairs]
    return [Claimed(claim, agreement(claim, verdict, study.config.margin), verdict) for claim, verdict in judged_claims]


def cell_named(cells: Sequence[Cell], names: Mapping[str, Any]) -> Cell | None:
    """The one cell that has these names, among others; None if there is none, or more than one."""
    matching = [cell for cell in cells if all(cell.names.get(key) == value for key, value in names.items())]
    return matching[0] if len(matching) == 1 else None


def agreement(claim: ClaimConfig, verdict: Verdict | None, margin: float | None) -> Agreement:
    """Two cells that are said to be equal contradict it if they differ by more than the margin for certain."""
    if verdict is None or verdict.kind == "cannot tell":
        return "cannot tell"
    if verdict.kind == ("no larger difference" if claim.equal else "better"):
        return "agrees"
    low, high = verdict.interval
    return "cannot tell" if claim.equal and low <= (margin or 0.0) and high >= -(margin or 0.0) else "contradicts"


# The choice


def confirmed(study: Study) -> Verdict | None:
    """The chosen cell against the baseline with new seeds on the other half of valid; None if nothing was confirmed."""
    best = study.best()
    baseline = study.baseline()
    if best is None or baseline is None or best == baseline:
        return None
    if any(study.has_failed(cell, "confirm") for cell in (baseline, best)):
        return None
    pair = [measured(study, cell, "confirm", "confirm") for cell in (baseline, best)]
    if pair[0] is None or pair[1] is None:
        return None
    sentences = sentences_of(study, pair, "confirm")
    return judge_pairs([(pair[0], pair[1])], noise_of([pair[0], pair[1]]), **options(study), sentences=sentences)[0]
