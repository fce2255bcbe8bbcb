"""Scores with the signatures that say how they were computed, and how they are shown."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from weft.figures.table import Table

Scale = Literal["0..1", "0..100", "edits in 100 words"]
"""Scores of the courses are shares, sacreBLEU and chrF percentages; TER counts edits, where lower is better."""


@dataclass(frozen=True)
class Interval:
    """A confidence interval of a score, and the signature of its method."""

    low: float
    high: float
    confidence: float
    signature: str


@dataclass(frozen=True)
class Score:
    """One number, how it was computed, and the counts behind it."""

    name: str
    value: float
    scale: Scale
    signature: str
    detail: Mapping[str, object] = field(default_factory=dict)
    interval: Interval | None = None
    remark: str = ""
    """A sentence about the counts to show with the score."""

    def formatted(self) -> str:
        """The value with the usual decimals of its scale, and its interval: 0.4123, 23.61 [22.4, 24.8]."""
        decimals = 4 if self.scale == "0..1" else 2
        value = f"{self.value:.{decimals}f}"
        if self.interval is None:
            return value
        low, high = (f"{bound:.{decimals - 1}f}" for bound in (self.interval.low, self.interval.high))
        return f"{value} [{low}, {high}]"

    def as_dict(self) -> dict[str, object]:
        """For JSON: value (unrounded), scale, signature, the counts behind it, and the interval if there is one."""
        found = {"value": self.value, "scale": self.scale, "signature": self.signature, **self.detail}
        return found if self.interval is None else {**found, "interval": vars(self.interval)}


@dataclass(frozen=True)
class Scores:
    """The scores of one set of sentences, in the order in which they are shown."""

    sentences: int
    scores: tuple[Score, ...]

    def __getitem__(self, name: str) -> Score:
        return next(score for score in self.scores if score.name == name)

    def values(self) -> dict[str, float]:
        """The numbers by name, as in metrics.jsonl and for `check_requirements`."""
        return {score.name: score.value for score in self.scores}

    def as_dict(self) -> dict[str, object]:
        """For JSON: the scores by name."""
        return {
            "sentences": self.sentences,
            "scores": {score.name: score.as_dict() for score in self.scores},
        }

    def table(self, title: str = "", notes: Iterable[str] = ()) -> Table:
        """The scores, over the remarks, the signatures and these notes."""
        rows = [(score.name, score.formatted(), score.scale) for score in self.scores]
        notes = [*self.remarks(), *self.signatures(), *notes]
        return Table(title, ("score", "value", "scale"), rows, notes, texts=frozenset({0, 2}))

    def signatures(self, titles: Mapping[str, str] | None = None) -> list[str]:
        """A line for each signature, after the scores that have it; `titles` names them otherwise and chooses some."""
        having: dict[str, list[str]] = {}
        for score in self.scores:
            if titles is None or score.name in titles:
                having.setdefault(score.signature, []).append((titles or {}).get(score.name, score.name))
        return [f"{', '.join(names)}: {signature}" for signature, names in having.items()]

    def remarks(self) -> list[str]:
        return [f"{score.name}: {score.remark}" for score in self.scores if score.remark]
