"""The points of a grid, and which lines of its results belong to which. Runs nothing."""

from dataclasses import dataclass
from itertools import product

from bench.grids import GRIDS
from bench.machine import ROOT, Line

from weft.config import read_recipe
from weft.errors import RecipeError
from weft.files import sha256
from weft.folders.recipes import TranslationRecipe


@dataclass(frozen=True)
class Variant:
    """One point of a grid, whatever the seed."""

    grid: str
    name: str
    pairs: int | None
    overrides: tuple[str, ...]
    base: str
    base_sha256: str
    budget: dict[str, float]

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


def variants_of(name: str) -> list[Variant]:
    grid = GRIDS[name]
    digest = sha256(ROOT / grid["base"])
    return [
        Variant(name, variant, pairs, tuple(overrides), grid["base"], digest, grid["budget"])
        for pairs, (variant, overrides) in product(grid["pairs"], grid["variants"].items())
    ]


def refuse_wrong_recipes(variants: list[Variant]) -> None:
    """Better now, and all at once, than after hours."""
    problems = []
    for variant in {variant.name: variant for variant in variants}.values():
        try:
            read_recipe(ROOT / variant.base, TranslationRecipe, variant.overrides)
        except RecipeError as error:
            problems.append(f"{variant.name}: {error}")
    if problems:
        raise SystemExit("\n".join(problems))
