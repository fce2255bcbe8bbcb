"""The vectors that tell a model where a token stands, by the formulas that weft has (layers/positions.py)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from weft.errors import UsageError
from weft.figures.table import Table
from weft.layers.positions import LearnedPositions, sinusoids
from weft.models.transformer import LayerSettings, scaled_period

SHOWN = 128
"""Positions that are shown."""
DISTANCES = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True)
class PositionReport:
    """Position vectors of one width, by the names of their formulas; `own` is what the model uses."""

    vectors: Mapping[str, Float[Tensor, "positions model"]]
    own: str

    def similarity(self, name: str, distance: int) -> float | None:
        """Mean cosine of the vectors of two positions so far apart; None if there are none."""
        vectors = self.vectors[name]
        if distance >= len(vectors):
            return None
        return float(torch.cosine_similarity(vectors[distance:], vectors[:-distance], dim=1).mean())

    def idle(self, name: str) -> float:
        """Share of the dimensions that move by less than 0.1 over all positions that are shown."""
        vectors = self.vectors[name]
        return float((vectors.amax(0) - vectors.amin(0) < 0.1).float().mean())

    def as_dict(self) -> dict[str, Any]:
        of_formulas = {
            name: {
                "similarity": {distance: self.similarity(name, distance) for distance in DISTANCES},
                "idle": self.idle(name),
            }
            for name in self.vectors
        }
        return {"own": self.own, "positions": of_formulas}

    def table(self) -> Table:
        rows = [
            (
                name,
                *(
                    "" if (found := self.similarity(name, distance)) is None else f"{found:.2f}"
                    for distance in DISTANCES
                ),
                f"{self.idle(name):.0%}",
            )
            for name in self.vectors
        ]
        positions, width = next(iter(self.vectors.values())).shape
        notes = [
            f"{positions} positions, {width} dimensions; the model's own positions are {self.own}",
            "columns: distance between two positions; cells: mean cosine similarity of vectors at that distance",
            "idle: dimensions that move by less than 0.1 over all these positions",
        ]
        return Table("Positions", ("formula", *map(str, DISTANCES), "idle"), rows, notes)


def examine_positions(network: Any) -> PositionReport:
    """Both sinusoidal formulas for the width of a Transformer, and its own positions if it has learned them."""
    config: LayerSettings = network.config
    waves = {"sinusoidal": 10_000.0, "scaled-sinusoidal": scaled_period(config)}
    vectors = {name: sinusoids(SHOWN, config.model_dim, period=period) for name, period in waves.items()}
    for side in ("source", "target"):
        if isinstance(learned := getattr(network, f"{side}_positions", None), LearnedPositions):
            if learned.weight.is_meta:
                raise UsageError(
                    "an exported model has no vectors of positions to show; name its run or its own folder"
                )
            vectors[f"learned, {side}"] = learned.weight.detach()[:SHOWN].float().cpu() * learned.scale
    return PositionReport(vectors, config.positions)
