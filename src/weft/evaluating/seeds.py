"""Runs that differ only in their seed: their mean and deviation, and whether two groups of them differ.

A difference between two runs that significance tests over sentences confirm can still be reversed by another seed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import mean, stdev
from typing import Any

import numpy as np

from weft.config import differences
from weft.data.corpus import ParallelText
from weft.evaluating.comparison import System, decimals_of
from weft.evaluating.evaluation import SHOWN_SCORES, describe_pairs
from weft.figures.table import Table, signed
from weft.metrics.references import reference_sets
from weft.metrics.score import Scores
from weft.metrics.significance import RESAMPLES, Floats, count_sentences, resample, too_few
from weft.metrics.translation import score_translations
from weft.metrics.verdicts import Cell, Verdict, in_words, judge
from weft.translating.translator import Translator


@dataclass(frozen=True)
class Group:
    """Runs that differ only in their seed, and their scores."""

    systems: list[System]
    scores: list[Scores]
    resampled: list[dict[str, Floats]]
    """Score -> its values on resampled sentences, for each run; empty if there are too few sentences."""
    remarks: list[str]

    def values(self, score: str) -> list[float]:
        return [scores[score].value for scores in self.scores]

    def cell(self, score: str) -> Cell:
        drawn = [of_run[score] for of_run in self.resampled]
        return Cell(self.name, np.array(self.values(score)), np.stack(drawn, axis=1) if drawn else None)

    @property
    def name(self) -> str:
        return f"mean of {', '.join(system.name for system in self.systems)}"


@dataclass(frozen=True)
class Seeds:
    """One group of runs, or two compared with each other, on one data set."""

    data: Mapping[str, str]
    groups: list[Group]

    def as_dict(self) -> dict[str, Any]:
        return {
            "data": dict(self.data),
            "groups": [
                {
                    "systems": {
                        system.name: {**system.origin, **scores.as_dict()}
                        for system, scores in zip(group.systems, group.scores, strict=True)
                    },
                    "mean": {score: mean(group.values(score)) for score in SHOWN_SCORES},
                    "standard_deviation": {score: stdev(group.values(score)) for score in SHOWN_SCORES},
                    "remarks": group.remarks,
                }
                for group in self.groups
            ],
            **({"verdicts": {score: asdict(of) for score, of in self.verdicts().items()}} if self.is_compared else {}),
        }

    @property
    def is_compared(self) -> bool:
        return len(self.groups) == 2

    def verdicts(self) -> dict[str, Verdict]:
        """Judge for each score whether the second group differs from the first by more than chance."""
        sentences = self.groups[0].scores[0].sentences
        return {
            score: judge([group.cell(score) for group in self.groups], sentences=sentences)[0] for score in SHOWN_SCORES
        }

    def tables(self) -> list[Table]:
        """One table: each run, the mean and standard deviation of each group, and the difference of two means."""
        rows: list[tuple[str, ...]] = []
        for group in self.groups:
            runs = zip(group.systems, group.scores, strict=True)
            rows += [(system.name, *(of[score].formatted() for score in SHOWN_SCORES)) for system, of in runs]
            rows.append((group.name, *(spread(score, group.values(score)) for score in SHOWN_SCORES)))
        if self.is_compared:
            first, second = self.groups
            gains = [mean(second.values(score)) - mean(first.values(score)) for score in SHOWN_SCORES]
            cells = (signed(gain, decimals_of(score)) for gain, score in zip(gains, SHOWN_SCORES, strict=True))
            rows.append(("difference of the means", *cells))
        scores = self.groups[0].scores[0]
        notes = [
            *scores.signatures(SHOWN_SCORES),
            "after ±: the sample standard deviation (n - 1) of the runs",
            *self._verdict_notes(),
            *(system.description for group in self.groups for system in group.systems),
            f"data: {describe_pairs(self.data, scores.sentences)}",
            *(remark for group in self.groups for remark in group.remarks),
        ]
        return [Table("Seeds", ("run", *SHOWN_SCORES.values()), rows, notes)]

    def _verdict_notes(self) -> list[str]:
        if not self.is_compared:
            return []
        notes = []
        for score, verdict in self.verdicts().items():
            low, high = (signed(bound, decimals_of(score)) for bound in verdict.interval)
            notes.append(f"{SHOWN_SCORES[score]}: {in_words(verdict)} (95 % [{low}, {high}], p = {verdict.p:.3f})")
        what = "seeds alone" if not self.groups[0].resampled else f"seeds and sentences together, {RESAMPLES} resamples"
        return [*notes, f"tested over {what}: Student's t with the deviation of both groups (Clark et al. 2011)"]


def spread(score: str, values: Sequence[float]) -> str:
    """Mean and standard deviation: 23.61 ± 0.42."""
    decimals = decimals_of(score)
    return f"{mean(values):.{decimals}f} ± {stdev(values):.{decimals}f}"


def group_of_seeds(
    systems: Sequence[System], pairs: ParallelText, language: str, translators: Sequence[Translator | None]
) -> Group:
    """Group the runs of one recipe; remarks name runs whose recipes differ in more than the seed, or share a seed."""
    references = reference_sets(pairs.references)
    scores = [score_translations(system.hypotheses, references, language) for system in systems]
    resampled = [
        resample(count_sentences(system.hypotheses, references, language))
        for system in systems
        if not too_few(len(pairs))
    ]
    return Group(list(systems), scores, resampled, remarks_on(systems, translators))


def remarks_on(systems: Sequence[System], translators: Sequence[Translator | None]) -> list[str]:
    known = [
        (one.name, made.model.resolved) for one, made in zip(systems, translators, strict=True) if made is not None
    ]
    remarks = []
    of_seed: dict[int, str] = {}
    for name, resolved in known:
        seed = resolved.recipe.seed
        if seed in of_seed:
            remarks.append(f"{name} has the seed of {of_seed[seed]}, {seed}")
        of_seed.setdefault(seed, name)
        first_name, first = known[0]
        keys = [difference.key for difference in differences(first, resolved)]
        # measured settings, such as the number of threads, belong to the machine, not to the recipe
        if others := [key for key in keys if key != "seed" and resolved.origins.get(key) != "measured"]:
            remarks.append(f"{name} differs from {first_name} in more than the seed: {', '.join(others)}")
    return remarks
