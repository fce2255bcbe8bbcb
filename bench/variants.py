"""The points of a grid, and which lines of its results belong to which. Runs nothing."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from bench.grids import GRIDS
from bench.machine import ROOT, Line

from weft.files import sha256


@dataclass(frozen=True)
class Variant:
    """One point of a grid, whatever the seed."""

    grid: str
    name: str
    pairs: int | None
    overrides: tuple[str, ...]
    base: str
    base_sha256: str
    budget: Mapping[str, float]

    @property
    def settings(self) -> dict[str, Any]:
        """The overrides as keys and values."""
        pairs = (override.partition("=") for override in self.overrides)
        return {key: value_of(text) for key, _, text in pairs}

    def facts(self) -> Line:
        """How a line says what it belongs to."""
        return {**vars(self), "overrides": list(self.overrides)}

    def owns(self, line: Line) -> bool:
        """Whether a line belongs here as the grid is today; one of an older grid belongs nowhere."""
        return all(line.get(key) == value for key, value in self.facts().items())

    def is_run_by(self, line: Line) -> bool:
        """Whether it is that of a finished run of the same thing, in whichever grid and under whichever name."""
        return "seed" in line and self.owns({**line, "grid": self.grid, "name": self.name})

    def owns_run(self, line: Line) -> bool:
        """Whether it is that of a finished run."""
        return "seed" in line and self.owns(line)

    def owns_speed(self, line: Line) -> bool:
        """Whether it tells the speed alone, measured undisturbed on all threads."""
        return "seed" not in line and line["undisturbed"] and self.owns(line)


def value_of(text: str) -> Any:
    """The value of an override: TOML, or else a string."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def variants_of(name: str) -> list[Variant]:
    grid = GRIDS[name]
    digest = sha256(ROOT / grid["base"])
    return [
        Variant(name, variant, pairs, tuple(overrides), grid["base"], digest, grid["budget"])
        for pairs, (variant, overrides) in product(grid["pairs"], grid["variants"].items())
    ]
