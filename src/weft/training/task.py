"""The contract between the Trainer, which knows how to improve, and a task, which knows what is good."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from torch import nn

from weft.training.losses import Loss


@dataclass(frozen=True)
class Evaluation:
    """What a validation found: metrics by name (valid_loss, ...), and samples for people to look at."""

    metrics: dict[str, float]
    samples: list[dict[str, str]] = field(default_factory=list)


@runtime_checkable
class Task(Protocol):
    def loss(self, model: nn.Module, batch: Any) -> Loss:
        """The loss of one batch; its `total` carries the gradient."""
        ...

    def evaluate(self, model: nn.Module) -> Evaluation:
        """Metrics of the model, in evaluation mode, on held-out data."""
        ...


@runtime_checkable
class Batches(Protocol):
    def epoch(self, epoch: int, start: int = 0) -> Iterator[Any]:
        """The batches of one epoch from number `start` on, the same whenever they are asked for."""
        ...

    def steps_per_epoch(self) -> int: ...
