"""Where a run stands: all that a checkpoint holds beside the model and the optimizer."""

import math
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from weft.training.task import Loss

LOSS = "loss"
"""The name of the minimized sum, in a Window and in metrics.jsonl."""

JUDGED_OVER = 50
"""Updates whose mean loss is one judgement: single batches differ by a nat, means of fifty hardly do."""


@dataclass
class Window:
    """Sums over some updates: the loss under LOSS, and those of the task under its own names."""

    sums: dict[str, float | Tensor] = field(default_factory=lambda: {LOSS: 0.0})
    count: int = 0
    seconds: float = 0.0

    def add(self, loss: Loss) -> None:
        """Add up in fp64, on the loss's own device: reading a number from an accelerator would wait for it."""
        self.include(Window({LOSS: loss.total.detach().double(), **{k: v.double() for k, v in loss.sums.items()}}))
        self.count += loss.count

    def include(self, other: "Window") -> None:
        for name, value in other.sums.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
        self.count += other.count

    @property
    def plain_loss(self) -> float | Tensor:
        """The first of the task's sums, which is the loss without regularization; the loss where there are none."""
        return next((value for name, value in self.sums.items() if name != LOSS), self.sums[LOSS])

    def mean(self, name: str) -> float:
        """NaN where every update was skipped."""
        return float(self.sums[name]) / self.count if self.count else math.nan

    def means(self) -> dict[str, float]:
        return {name: self.mean(name) for name in self.sums}

    def emptied(self) -> "Window":
        """A window of no updates, which names the same sums."""
        return Window(dict.fromkeys(self.sums, 0.0))

    def read(self) -> None:
        """Turn the sums into Python numbers."""
        self.sums = {name: float(value) for name, value in self.sums.items()}


@dataclass
class LossLevel:
    """The training loss per prediction, as a mean over JUDGED_OVER updates: the newest mean, the lowest so far, and
    the lowest since a validation last found nothing wrong with a higher one.

    Why it takes more than a validation loss to tell that a run diverges: that one also rises when a model learns its
    corpus by heart, while the training loss falls. Why more than a training loss: that one also rises, from a low
    level, when the learning rate of a trained model is raised anew, while the validation loss rises little.
    """

    total: float | Tensor = 0.0
    count: int = 0
    updates: int = 0
    newest: float | None = None
    lowest: float | None = None
    accepted: float | None = None

    def add(self, total: float | Tensor, count: int) -> None:
        """One more update; its loss stays on its device until fifty of them are looked at."""
        self.total = self.total + total
        self.count += count
        self.updates += 1
        if self.updates == JUDGED_OVER:
            self.newest = float(self.total) / self.count
            self.lowest = self.newest if self.lowest is None else min(self.lowest, self.newest)
            self.accepted = self.newest if self.accepted is None else min(self.accepted, self.newest)
            self.total, self.count, self.updates = 0.0, 0, 0

    def has_risen(self, by: float) -> bool:
        """Whether the newest mean lies more than so many nats above the lowest one."""
        return self.newest is not None and self.lowest is not None and self.newest > self.lowest + by

    def calls_for_validation(self, by: float) -> bool:
        """Whether the newest mean lies so far above what no validation has accepted yet."""
        return self.newest is not None and self.accepted is not None and self.newest > self.accepted + by

    def accept(self) -> None:
        """A validation has found nothing wrong with the newest mean: only a still higher one calls for another."""
        self.accepted = self.newest

    def restarted(self) -> "LossLevel":
        """Where training goes on from weights of this level: the next mean is judged by it, whatever came after it."""
        return LossLevel(lowest=self.lowest, accepted=self.lowest)

    def read(self) -> None:
        """Make a plain number of the sum."""
        self.total = float(self.total)


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
        window, level = dict(state["window"]), dict(state["level"])
        if "tokens" in window:  # a checkpoint of the time when there were these two sums and no others
            sums = {LOSS: window.pop("loss"), "nll": window.pop("nll")}
            window |= {"sums": sums, "count": window.pop("tokens")}
            level |= {"total": level.pop("nll"), "count": level.pop("tokens")}
        return cls(**{**state, "kept": kept, "window": Window(**window), "level": LossLevel(**level)})
