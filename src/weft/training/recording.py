"""Forward and backward passes on a GPU, recorded once per batch shape and replayed from then on (CUDA graphs).

The passes of a small model are a thousand small kernels, and the GPU finishes each before Python can launch the next.
A graph launches all of them at once. It runs the same kernels on the same memory, with random numbers that continue
from torch's seed of the step, so a run may mix both: the first batch of a shape is computed normally and the second one
recorded. The optimizer's step, which has no shape, is recorded once.

A graph keeps its memory, which nothing else can use then. If that is too much, all recordings are dropped, and the rest
of the run is computed normally.
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
"""Most recordings of a run; batches of further shapes are computed normally. Each takes a few MiB of the GPU."""
SETTLED = 20
"""Number of replayed batches in a row after which the following ones are taken to be replayed too."""


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
    """The interface of torch.cuda.CUDAGraph."""

    def replay(self) -> None: ...


@dataclass(frozen=True)
class Recording:
    """A graph, and the tensors that it reads and writes."""

    graph: Graph
    given: Any
    """The batch that it reads."""
    sums: Tensor
    """The total of its loss, then the loss's other sums."""
    buffers: list[Tensor]
    """The buffers that the graph reads, kept alive: a longer table of positions may replace one in the model."""


class Recorded(Replica[Model, Batch], Generic[Model, Batch]):
    """A Replica that replays recordings. Gradients keep their memory: an update clears them, and passes add to them."""

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
        """Whether there is enough memory for recordings."""
        self.names: tuple[str, ...] = ()
        """The names of a loss's sums, known once a batch was computed; a recording is made later."""
        self.replayed_in_a_row = 0
        self.recordings: dict[Hashable, Recording | None] = {}
        """None if a batch of this shape was computed but not recorded yet."""
        self.update: Graph | Literal["was made", "was not made"] = "was not made"
        """The recorded optimizer step. The first step creates the optimizer's state and is not recorded."""
        self.open()

    def open(self) -> None:
        """Create a stream to record from, and two memory pools: one for the passes, of which only one is replayed at a
        time, and one for the optimizer's step."""
        self.stream = torch.cuda.Stream(self.device)
        self.pools = {what: torch.cuda.graph_pool_handle() for what in ("passes", "step")}

    @contextmanager
    def on_stream(self) -> Iterator[None]:
        """Run the block on the stream, ordered after all earlier and before all later work of the GPU."""
        before, stream = torch.cuda.current_stream(self.device), self.stream  # which the block may replace
        stream.wait_stream(before)
        try:
            with torch.cuda.stream(stream):
                yield
        finally:
            before.wait_stream(stream)

    def recorded(self, work: Callable[[], object], what: Literal["passes", "step"]) -> Graph:
        """Record what the work launches, without computing it."""
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
        """Drop all recordings, make no others, and report it."""
        self.fits, self.recordings, self.update = False, {}, "was made"
        self.open()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        self.say("not enough memory to record the steps of this model; they are computed normally")

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
        """The recording for a shape, which is made at its second batch."""
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
        self.update = "was not made"  # with the state's new tensors


def can_be_replayed(optimizer: torch.optim.Optimizer) -> bool:
    """Whether the optimizer's step always runs the same operations and reads its learning rate from a tensor."""
    return isinstance(optimizer, torch.optim.SGD | torch.optim.Adam | torch.optim.AdamW | Both)


@contextmanager
def capturable(optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """Set the flag with which torch allows the optimizer's step to be recorded."""
    for group in optimizer.param_groups:
        group["capturable"] = True
    try:
        yield
    finally:
        for group in optimizer.param_groups:
            group["capturable"] = False
