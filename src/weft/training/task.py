"""What the Trainer asks of others: a task that says what to minimize and to measure, batches, and a listener."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from weft.training.metric import Metric

Model = TypeVar("Model", bound=nn.Module, contravariant=True)
GivenBatch = TypeVar("GivenBatch", contravariant=True)
MadeBatch = TypeVar("MadeBatch", covariant=True)


@dataclass(frozen=True)
class Loss:
    """Sums over the predictions of a batch. All tensors stay on their device: to read one is to wait for it."""

    total: Float[Tensor, ""]
    """What is minimized; it carries the gradient."""
    count: int
    """Predictions (tokens, words, pixels) that were summed over; divide by it for means."""
    sums: Mapping[str, Float[Tensor, ""]] = field(default_factory=dict)
    """Further sums by name, without gradient, whose means are logged next to the loss. The first, if any, is the loss
    without regularization, by which the Trainer tells whether a run diverges."""


@dataclass(frozen=True)
class Evaluation:
    """What a validation found: metrics as valid_NAME, and samples for people to look at."""

    metrics: dict[str, float]
    samples: list[dict[str, str]] = field(default_factory=list)


@runtime_checkable
class Task(Protocol[Model, GivenBatch]):
    """What is learned: the loss of a batch, and how good a model is."""

    @property
    def metrics(self) -> Sequence[Metric]:
        """What `evaluate` can measure; the first chooses the best weights where the recipe names no other."""
        ...

    @property
    def counts(self) -> str:
        """What the `count` of a loss is of, such as "target_tokens"; the speed is logged as COUNTS_per_second."""
        ...

    def loss(self, model: Model, batch: GivenBatch) -> Loss:
        """The loss of one batch; its `total` carries the gradient."""
        ...

    def evaluate(self, model: Model) -> Evaluation:
        """Metrics of the model, in evaluation mode, on held-out data."""
        ...


@runtime_checkable
class RecordableTask(Task[Model, GivenBatch], Protocol[Model, GivenBatch]):
    """A task whose losses a GPU may be able to replay (recording.py)."""

    @property
    def can_be_recorded(self) -> bool:
        """Whether the loss runs the same operations for all batches of one shape, none of which waits for a result."""
        ...

    def filled_up(self, batch: GivenBatch) -> Any:
        """Pad a batch to a round shape, of which there are few; it has `tensors()`, and its `tokens` are counted."""
        ...


@runtime_checkable
class CarryingTask(Protocol):
    """A task that carries something from batch to batch, which a resumed run needs as it was."""

    def carried(self) -> dict[str, Tensor]:
        """What is carried, named carried.NAME, from all ranks."""
        ...

    def restore(self, tensors: dict[str, Tensor], device: torch.device) -> None:
        """Continue from the tensors of a checkpoint."""
        ...


@runtime_checkable
class Batches(Protocol[MadeBatch]):
    def epoch(self, epoch: int, start: int = 0) -> Iterator[MadeBatch]:
        """The batches of an epoch from number `start` on; always the same for the same epoch."""
        ...

    def steps_per_epoch(self) -> int:
        """Batches per epoch, the same in every epoch."""
        ...


@runtime_checkable
class BatchOfRows(Protocol):
    """What the Trainer needs of a batch; a tensor is one."""

    def to(self, device: torch.device) -> Any:
        """Move the batch to a device."""
        ...

    def chunk(self, parts: int, /) -> Sequence[Any]:
        """Split the rows into at most `parts` batches, whose losses add up to the loss of this one."""
        ...


@runtime_checkable
class PaddedBatch(Protocol):
    """A batch that is padded to a rectangle."""

    def padding(self) -> tuple[int, int]:
        """How many places hold padding, and how many there are; the batch is still on the CPU."""
        ...


@runtime_checkable
class Listener(Protocol):
    """Shows a person how training goes. Listeners watch, they do not steer."""

    def on_message(self, text: str) -> None: ...

    def on_log(self, row: dict[str, Any], total_steps: int) -> None: ...

    def on_validation(self, row: dict[str, Any], samples: list[dict[str, str]], is_best: bool) -> None: ...
