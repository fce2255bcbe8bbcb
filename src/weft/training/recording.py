"""The passes of a step on a GPU, recorded once for each shape of batch and replayed from then on (CUDA graphs).

A small model's passes are a thousand small kernels, and the GPU is done with each before Python can ask for the next.
A graph asks for all of them at once. It computes what the passes would: the same kernels on the same places in memory,
with random numbers that go on from torch's seed of the step. So a run may mix both, and does: the first batch of a
shape is computed as ever, the second one recorded. The optimizer's step, which has no shape, is recorded once.

A graph keeps its places in memory, which makes them as good as gone for everything else. Where that is too much, all
that was recorded is forgotten, and the rest of the run is computed as ever.
"""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeGuard, TypeVar

import torch
from torch import Tensor, nn

from weft.errors import is_out_of_memory
from weft.training.compilation import compile_layers
from weft.training.distributed import Ranks
from weft.training.optimizers import Both
from weft.training.replica import Replica
from weft.training.task import BatchOfRows, Loss, RecordableTask, Task

Model = TypeVar("Model", bound=nn.Module)
Batch = TypeVar("Batch", bound=BatchOfRows)

MOST_RECORDINGS = 1000
"""Of one run; a batch of yet another shape is computed without one. Each takes some MiB of the GPU."""
SETTLED = 20
"""Batches in a row that were replayed, after which the others will be, too."""


def make_replica(
    ranks: Ranks,
    model: Model,
    task: Task[Model, Batch],
    device: torch.device,
    *,
    compiles: bool = False,
    records: bool = False,
    say: Callable[[str], None] = lambda text: None,
) -> Replica[Model, Batch]:
    """The model as this process trains it: with compiled layers, with recorded passes where that is possible, or
    neither."""
    if compiles:
        compile_layers(model, device)
    elif records and ranks.size == 1 and device.type == "cuda" and can_be_recorded(task):
        return Recorded(ranks, model, task, device, say)
    return Replica(ranks, model, task, device)


def can_be_recorded(task: Task[Model, Batch]) -> TypeGuard[RecordableTask[Model, Batch]]:
    return isinstance(task, RecordableTask) and task.can_be_recorded


class Graph(Protocol):
    """What torch.cuda.CUDAGraph is."""

    def replay(self) -> None: ...


@dataclass(frozen=True)
class Recording:
    """A graph, and the places in memory that it reads and writes."""

    graph: Graph
    given: Any
    """The batch that it computes."""
    sums: Tensor
    """The total of its loss, then the loss's other sums."""
    buffers: list[Tensor]
    """Of the model, such as tables of positions: a longer one may take the place of one that the graph reads."""


class Recorded(Replica[Model, Batch], Generic[Model, Batch]):
    """A Replica whose passes are recordings. The gradients keep their places: an update clears them, passes add to
    them."""

    def __init__(
        self,
        ranks: Ranks,
        model: Model,
        task: RecordableTask[Model, Batch],
        device: torch.device,
        say: Callable[[str], None],
    ) -> None:
        super().__init__(ranks, model, task, device)
        self.recordable, self.say = task, say
        self.trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.kept = [torch.zeros_like(parameter) for parameter in self.trained]
        self.rate = torch.zeros((), device=device)
        self.fits = True
        """Whether there is memory for recordings."""
        self.names: tuple[str, ...] = ()
        """The names of a loss's sums, known once a batch was computed; a recording is made later."""
        self.replayed_in_a_row = 0
        self.recordings: dict[Hashable, Recording | None] = {}
        """None where a batch of this shape was computed, but not recorded."""
        self.update: Graph | Literal["was made", "was not made"] = "was not made"
        """Of the optimizer; its first one makes the optimizer's state, and is not recorded."""
        self.open()

    def open(self) -> None:
        """Begin a stream to record from, and the two memories of which recordings take their places: one for the
        passes, of which only one is replayed at a time, and one for the optimizer's step."""
        self.stream = torch.cuda.Stream(self.device)
        self.pools = {what: torch.cuda.graph_pool_handle() for what in ("passes", "step")}

    @contextmanager
    def on_stream(self) -> Iterator[None]:
        """Let the GPU work on the stream, after what was asked of it before, and before what will be."""
        before = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(before)
        try:
            with torch.cuda.stream(self.stream):
                yield
        finally:
            before.wait_stream(self.stream)

    def recorded(self, work: Callable[[], object], what: Literal["passes", "step"]) -> Graph:
        """What the work asks of the GPU, which computes nothing meanwhile."""
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin(pool=self.pools[what], capture_error_mode="thread_local")
        try:
            work()
        except BaseException:
            with suppress(RuntimeError):
                graph.capture_end()
            raise
        graph.capture_end()
        return graph

    @property
    def is_settled(self) -> bool:
        return not self.fits or self.replayed_in_a_row >= SETTLED

    def free_memory(self) -> bool:
        if self.fits:
            self.give_up()
            return True
        return False

    def give_up(self) -> None:
        """Forget all recordings, make no others, and say so."""
        self.fits, self.recordings, self.update = False, {}, "was made"
        self.open()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        self.say("there is not enough memory to record the steps of this model: they are computed one by one")

    def zero_grad(self) -> None:
        for parameter, gradient in zip(self.trained, self.kept, strict=True):
            parameter.grad = gradient
        torch._foreach_zero_(self.kept)  # pyright: ignore[reportPrivateImportUsage]

    def backward(self, batch: Batch) -> Loss:
        with self.on_stream():
            if not self.fits:
                return super().backward(batch)
            filled = self.recordable.filled_up(batch)
            shape = tuple(tensor.shape for tensor in filled.tensors())
            if (recording := self.recording_of(shape, filled)) is None:
                self.replayed_in_a_row = 0
                loss = super().backward(filled)
                self.names = tuple(loss.sums)
                return loss
            self.replayed_in_a_row += 1
            for place, tensor in zip(recording.given.tensors(), filled.tensors(), strict=True):
                place.copy_(tensor)
            recording.graph.replay()
            total, *sums = recording.sums.clone()
            return Loss(total, filled.tokens, dict(zip(self.names, sums, strict=True)))

    def recording_of(self, shape: Hashable, batch: Any) -> Recording | None:
        """That of the shape, which is made at its second batch."""
        if shape not in self.recordings:
            if len(self.recordings) < MOST_RECORDINGS:
                self.recordings[shape] = None
            return None
        if self.recordings[shape] is None:
            self.replayed_in_a_row = 0
            try:
                self.recordings[shape] = self.record(batch)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                self.give_up()
        return self.recordings.get(shape)

    def record(self, batch: Any) -> Recording:
        given, sums = batch.to(self.device), torch.zeros(1 + len(self.names), device=self.device)

        def passes() -> None:
            loss = self.task.loss(self.model, given)
            loss.total.backward()
            sums.copy_(torch.stack([loss.total.detach(), *loss.sums.values()]))

        return Recording(self.recorded(passes, "passes"), given, sums, list(self.model.buffers()))

    def step(self, optimizer: torch.optim.Optimizer, rate: float) -> None:
        if not self.fits or not can_be_replayed(optimizer):
            return super().step(optimizer, rate)
        self.rate.fill_(rate)
        for group in optimizer.param_groups:
            group["lr"] = self.rate
        with self.on_stream():
            if self.update == "was made":
                try:
                    with capturable(optimizer):
                        self.update = self.recorded(optimizer.step, "step")
                except (RuntimeError, MemoryError) as error:
                    if not is_out_of_memory(error):
                        raise
                    self.give_up()
            if isinstance(self.update, str):
                optimizer.step()
                self.update = "was made"
            else:
                self.update.replay()

    def restore_optimizer(self, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
        super().restore_optimizer(optimizer, tensors)
        self.update = "was not made"  # with the tensors that are the state now


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
