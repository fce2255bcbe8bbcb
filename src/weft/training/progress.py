"""The state of a run: everything that a checkpoint holds besides the model and the optimizer."""

import math
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from weft.training.divergence import JUDGED_OVER
from weft.training.task import Loss

LOSS = "loss"
"""The name of the minimized sum, in a Window and in metrics.jsonl."""

Validated = tuple[int, float, float | None]
"""A validated checkpoint: its step, the value of the metric, and the validation loss."""


@dataclass
class Window:
    """Sums over some updates: the loss under LOSS, and those of the task under its own names."""

    sums: dict[str, float | Tensor] = field(default_factory=lambda: {LOSS: 0.0})
    count: int = 0
    seconds: float = 0.0
    updates: int = 0
    clipped: float | Tensor = 0.0
    """Updates whose gradient was longer than clip_norm."""
    padding: int = 0
    places: int = 0
    """Places in the batches of this process, of which `padding` hold padding; 0 if the batches do not tell."""

    def add(self, loss: Loss) -> None:
        """Add up in fp64, on the loss's own device: reading a number from an accelerator would wait for it."""
        self.include(Window({LOSS: loss.total.detach().double(), **{k: v.double() for k, v in loss.sums.items()}}))
        self.count += loss.count

    def include(self, other: "Window") -> None:
        for name, value in other.sums.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
        self.count += other.count
        self.updates += other.updates
        self.clipped = self.clipped + other.clipped
        self.padding, self.places = self.padding + other.padding, self.places + other.places

    @property
    def plain_loss(self) -> float | Tensor:
        """The first of the task's sums, which is the loss without regularization; the loss if there are none."""
        return next((value for name, value in self.sums.items() if name != LOSS), self.sums[LOSS])

    def mean(self, name: str) -> float:
        """NaN where every update was skipped."""
        return float(self.sums[name]) / self.count if self.count else math.nan

    def means(self) -> dict[str, float]:
        return {name: self.mean(name) for name in self.sums}

    def shares(self) -> dict[str, float]:
        """The share of the updates that were clipped, and of the places that hold padding, where that is known."""
        clipped = float(self.clipped) / self.updates if self.updates else math.nan
        padded = {"padding_share": round(self.padding / self.places, 4)} if self.places else {}
        return {"clipped_share": round(clipped, 4), **padded}

    def emptied(self) -> "Window":
        """A window of no updates, which names the same sums."""
        return Window(dict.fromkeys(self.sums, 0.0))

    def read(self) -> None:
        """Turn the sums into Python numbers."""
        self.sums = {name: float(value) for name, value in self.sums.items()}
        self.clipped = float(self.clipped)


@dataclass
class LossLevel:
    """The training loss per prediction as a mean over JUDGED_OVER updates: the newest mean, the lowest one, and the
    lowest since a validation last accepted a higher one.

    A validation loss alone does not tell that a run diverges: it also rises when a model overfits, while the training
    loss falls. Nor does a training loss alone: it also rises when the learning rate of a trained model is raised again,
    while the validation loss rises little.
    """

    total: float | Tensor = 0.0
    count: int = 0
    updates: int = 0
    newest: float | None = None
    lowest: float | None = None
    accepted: float | None = None

    def add(self, total: float | Tensor, count: int) -> None:
        """Add an update. Its loss stays on its device until JUDGED_OVER of them are read."""
        self.total = self.total + total
        self.count += count
        self.updates += 1
        if self.updates == JUDGED_OVER:
            self.newest = float(self.total) / self.count
            self.lowest = self.newest if self.lowest is None else min(self.lowest, self.newest)
            self.accepted = self.newest if self.accepted is None else min(self.accepted, self.newest)
            self.total, self.count, self.updates = 0.0, 0, 0

    def has_risen(self, by: float) -> bool:
        """Whether the newest mean is more than `by` above the lowest one."""
        return self.newest is not None and self.lowest is not None and self.newest > self.lowest + by

    def calls_for_validation(self, by: float) -> bool:
        """Whether the newest mean is more than `by` above the lowest accepted one."""
        return self.newest is not None and self.accepted is not None and self.newest > self.accepted + by

    def accept(self) -> None:
        """Accept the newest mean after a good validation: only a still higher one calls for another validation."""
        self.accepted = self.newest

    def restarted(self, lowest: float | None = None) -> "LossLevel":
        """The level after weights were restored: the next mean is compared with the lowest one; with the run's own
        `lowest` one if the weights are from before the first."""
        lowest = lowest if self.lowest is None else self.lowest
        return LossLevel(lowest=lowest, accepted=lowest)

    def read(self) -> None:
        """Turn the sum into a Python number."""
        self.total = float(self.total)


@dataclass
class Progress:
    """The state of a run; with the model and the optimizer, all that a checkpoint holds.

    `epoch` and `batch` are the place in the data. `kept` lists validated checkpoints that are kept besides the last
    and the best, and `best_loss` is the validation loss of the best. `rate_scale` is
    the factor that validations have given the learning rate, `bad_validations` counts validations without improvement
    since plateau last lowered it, and `trials_lost` how often training restarted from the best checkpoint.

    `skipped` counts skipped updates, `parts` is the number of parts in which a batch is computed since memory ran out,
    `fallbacks` counts divergences, and `level` detects them.
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
    kept: list[Validated] = field(default_factory=list)
    window: Window = field(default_factory=Window)
    level: LossLevel = field(default_factory=LossLevel)

    @classmethod
    def from_json(cls, state: dict[str, Any]) -> "Progress":
        kept = [(step, value, loss[0] if loss else None) for step, value, *loss in state["kept"]]  # older ones: no loss
        window, level = dict(state["window"]), dict(state["level"])
        if "tokens" in window:  # a checkpoint of the time when there were these two sums and no others
            sums = {LOSS: window.pop("loss"), "nll": window.pop("nll")}
            window |= {"sums": sums, "count": window.pop("tokens")}
            level |= {"total": level.pop("nll"), "count": level.pop("tokens")}
        return cls(**{**state, "kept": kept, "window": Window(**window), "level": LossLevel(**level)})
