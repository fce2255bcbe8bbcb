"""Where a run stands: all that a checkpoint holds beside the model and the optimizer."""

import math
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from weft.training.losses import Loss
from weft.training.recovery import LossLevel


@dataclass
class Window:
    """Sums over the steps since the last line of metrics.jsonl."""

    loss: float | Tensor = 0.0
    nll: float | Tensor = 0.0
    tokens: int = 0
    seconds: float = 0.0

    def add(self, loss: Loss) -> None:
        """Add up in fp64 where the loss is: to look at a number of an accelerator is to wait for it."""
        self.loss = self.loss + loss.total.detach().double()
        self.nll = self.nll + loss.nll.double()
        self.tokens += loss.tokens

    def include(self, other: "Window") -> None:
        self.loss, self.nll = self.loss + other.loss, self.nll + other.nll
        self.tokens += other.tokens

    def mean_loss(self) -> float:
        """NaN where every update was left out."""
        return float(self.loss) / self.tokens if self.tokens else math.nan

    def mean_nll(self) -> float:
        return float(self.nll) / self.tokens if self.tokens else math.nan

    def read(self) -> None:
        """Make plain numbers of the sums."""
        self.loss, self.nll = float(self.loss), float(self.nll)


@dataclass
class Progress:
    """Where a run stands: with the model and the optimizer, all that a checkpoint holds.

    `epoch` and `batch` are the place in the data; `kept` lists (step, value of the metric) of validated checkpoints
    that are wanted beside the last and the best, and `best_loss` is the validation loss of the best. `rate_scale` is
    what validations have made of the learning rate, `bad_validations` counts those without improvement since plateau
    last lowered it, and `trials_lost` how often training went back to the best checkpoint.

    Of what went wrong: `skipped` counts the updates that were left out, `parts` is how many pieces a batch is computed
    in since memory ran out, `fallbacks` how often the run diverged, and `level` is what that is told by.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    seconds: float = 0.0
    best_value: float | None = None
    best_step: int | None = None
    best_loss: float | None = None
    validations_since_best: int = 0
    validated_at: float = 0.0
    checkpointed_at: float = 0.0
    skipped: int = 0
    skipped_in_a_row: int = 0
    parts: int = 1
    fallbacks: int = 0
    rate_scale: float = 1.0
    bad_validations: int = 0
    trials_lost: int = 0
    kept: list[tuple[int, float]] = field(default_factory=list)
    window: Window = field(default_factory=Window)
    level: LossLevel = field(default_factory=LossLevel)

    @classmethod
    def from_json(cls, state: dict[str, Any]) -> "Progress":
        kept = [(step, value) for step, value in state["kept"]]
        sums = {"window": Window(**state["window"]), "level": LossLevel(**state["level"])}
        return cls(**{**state, "kept": kept, **sums})
