"""The passes of a step on a GPU, recorded once for each shape of batch and replayed from then on (CUDA graphs).

A small model's passes are a thousand small kernels, and the GPU is done with each before Python can ask for the next.
A graph asks for all of them at once. It computes what the passes would: the same kernels on the same places in memory,
with random numbers that go on from torch's seed of the step. So a run may mix both, and does: the first batch of a
shape is computed as ever, the second one recorded.
"""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeVar

import torch
from torch import Tensor, nn

from weft.training.distributed import Ranks, Replica
from weft.training.losses import Loss
from weft.training.optimizers import Both
from weft.training.task import BatchOfRows, RecordableTask

Model = TypeVar("Model", bound=nn.Module)
Batch = TypeVar("Batch", bound=BatchOfRows)

MOST_RECORDINGS = 1000
"""Of one run; a batch of yet another shape is computed without one. Each takes some MiB of the GPU."""


@dataclass(frozen=True)
class Recording:
    """A graph, and the places in memory that it reads and writes."""

    graph: torch.cuda.CUDAGraph
    given: Any
    """The batch that it computes."""
    loss: Loss
    buffers: list[Tensor]
    """Of the model, such as tables of positions: a longer one may take the place of one that the graph reads."""


class Recorded(Replica[Model, Batch], Generic[Model, Batch]):
    """A Replica whose passes are recordings. The gradients keep their places: an update clears them, passes add to
    them."""

    def __init__(self, ranks: Ranks, model: Model, task: RecordableTask[Model, Batch], device: torch.device) -> None:
        super().__init__(ranks, model, task, device)
        self.recordable = task
        self.stream = torch.cuda.Stream(device)
        self.trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.kept = [torch.zeros_like(parameter) for parameter in self.trained]
        self.rate = torch.zeros((), device=device)
        self.step: torch.cuda.CUDAGraph | Literal["was made", "was not made"] = "was not made"
        """Of the optimizer; its first one makes the optimizer's state, and is not recorded."""
        self.forget()

    def forget(self) -> None:
        """Every recording, and the memory that they share: only one of them is replayed at a time."""
        self.recordings: dict[Hashable, Recording | None] = {}
        """None where a batch of this shape was computed, but not recorded."""
        self.pool = torch.cuda.graph_pool_handle()

    def clear_gradients(self) -> None:
        for parameter, gradient in zip(self.trained, self.kept, strict=True):
            parameter.grad = gradient
        torch._foreach_zero_(self.kept)  # pyright: ignore[reportPrivateImportUsage]

    def backward(self, batch: Batch) -> Loss:
        before = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(before)
        try:
            with torch.cuda.stream(self.stream):
                return self.replay_or_compute(self.recordable.filled_up(batch))
        except RuntimeError:  # such as a lack of memory, which recordings may be the reason for
            self.forget()
            raise
        finally:
            before.wait_stream(self.stream)

    def move(self, optimizer: torch.optim.Optimizer, rate: float) -> None:
        if not can_be_replayed(optimizer):
            return super().move(optimizer, rate)
        self.rate.fill_(rate)
        for group in optimizer.param_groups:
            group["lr"] = self.rate
        before = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(before)
        with torch.cuda.stream(self.stream):
            if self.step == "was not made":
                optimizer.step()
                self.step = "was made"
            else:
                if self.step == "was made":
                    with capturable(optimizer):
                        self.step = self.recorded(optimizer.step)
                assert isinstance(self.step, torch.cuda.CUDAGraph)
                self.step.replay()
        before.wait_stream(self.stream)

    def restore_optimizer(self, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
        super().restore_optimizer(optimizer, tensors)
        self.step = "was not made"  # with the tensors that are the state now

    def replay_or_compute(self, batch: Any) -> Loss:
        shape = tuple(tensor.shape for tensor in batch.tensors())
        if shape not in self.recordings:
            if len(self.recordings) < MOST_RECORDINGS:
                self.recordings[shape] = None
            return super().backward(batch)
        recording = self.recordings[shape]
        if recording is None:
            recording = self.recordings[shape] = self.record(batch)
        for place, tensor in zip(recording.given.tensors(), batch.tensors(), strict=True):
            place.copy_(tensor)
        recording.graph.replay()
        return replace(recording.loss, tokens=batch.tokens)

    def record(self, batch: Any) -> Recording:
        given, losses = batch.to(self.device), list[Loss]()

        def passes() -> None:
            loss = self.task.loss(self.model, given)
            loss.total.backward()
            losses.append(replace(loss, total=loss.total.detach()))

        return Recording(self.recorded(passes), given, losses[0], list(self.model.buffers()))

    def recorded(self, work: Callable[[], object]) -> torch.cuda.CUDAGraph:
        """What the work asks of the GPU, which computes nothing meanwhile."""
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin(pool=self.pool, capture_error_mode="thread_local")
        try:
            work()
        finally:
            graph.capture_end()
        return graph


def can_be_replayed(optimizer: torch.optim.Optimizer) -> bool:
    """Whether its step is the same operations every time, and reads its learning rate from a tensor."""
    return isinstance(optimizer, torch.optim.SGD | torch.optim.Adam | torch.optim.AdamW | Both)


@contextmanager
def capturable(optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """Let torch record its step: its optimizers ask for a promise that the caller knows what that takes."""
    for group in optimizer.param_groups:
        group["capturable"] = True
    try:
        yield
    finally:
        for group in optimizer.param_groups:
            group["capturable"] = False
