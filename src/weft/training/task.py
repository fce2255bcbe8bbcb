"""The contract between the Trainer, which knows how to improve, and a task, which knows what is good."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol, TypeVar, runtime_checkable

from torch import nn

from weft.training.losses import Loss

Model = TypeVar("Model", bound=nn.Module, contravariant=True)
GivenBatch = TypeVar("GivenBatch", contravariant=True)
MadeBatch = TypeVar("MadeBatch", covariant=True)


@dataclass(frozen=True)
class Evaluation:
    """What a validation found: metrics by name (valid_loss, ...), and samples for people to look at."""

    metrics: dict[str, float]
    samples: list[dict[str, str]] = field(default_factory=list)


@runtime_checkable
class Task(Protocol[Model, GivenBatch]):
    def loss(self, model: Model, batch: GivenBatch) -> Loss:
        """The loss of one batch; its `total` carries the gradient."""
        ...

    def evaluate(self, model: Model) -> Evaluation:
        """Metrics of the model, in evaluation mode, on held-out data."""
        ...


@runtime_checkable
class Batches(Protocol[MadeBatch]):
    def epoch(self, epoch: int, start: int = 0) -> Iterator[MadeBatch]:
        """The batches of one epoch from number `start` on, the same whenever they are asked for."""
        ...

    def steps_per_epoch(self) -> int:
        """Batches in an epoch, the same in every one."""
        ...
