"""Several processes that train one model, one a device, as torchrun starts them (RANK, WORLD_SIZE, LOCAL_RANK).

    joined     connects the processes; without torchrun a process is alone, and all of this costs nothing
    Ranks      what they do together: sum, agree, broadcast

Each rank takes its rows of every batch (data/batching.py). Gradients, losses and counts are summed over all ranks
before anything is divided or decided, so every rank takes the step that one process would take on the whole batch,
however the rows are distributed. The first rank alone decides what depends on clocks, signals or files
(`Ranks.from_first`), and it alone reads and writes.

Why gradients are summed here and not by torch's DistributedDataParallel: that wraps one `forward`, and our losses call
a model's parts (encode, decode, the output matrix for the blocked loss) directly. It divides by the number of ranks
where we divide by the tokens of all; it sums after every backward pass where we do so once per update; and it must be
told of layers that a step leaves out. Its advantage is that it sends gradients while the backward pass still runs.

Nothing here knows text or a model.
"""

import gc
import itertools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import PrefixStore, Store, TCPStore  # pyright: ignore[reportPrivateImportUsage]
from torch.distributed.rendezvous import rendezvous

from weft.errors import FailedElsewhere, LostTouch, MemoryRanOut, MissingExtraError, UsageError, WeftError
from weft.runtime import choose_device, derive_seed
from weft.training.heartbeat import BEAT, LONGEST_SILENCE, Heartbeat

PROMPT = timedelta(seconds=45)
"""Timeout within a step, where all ranks do the same work."""
JOINING = timedelta(minutes=10)
"""Timeout until all processes have connected: a machine that cannot start its own does not keep the others waiting."""
PATIENT = timedelta(days=7)
"""Timeout while the first rank alone trains a tokenizer, reads, writes or scores, and while the ranks validate their
shares. A process that ends is still noticed at once, since its connections close, and one that is halted by its
heartbeat (heartbeat.py)."""

BUCKET = 1 << 23
"""Numbers (32 MiB) that are summed over the ranks at a time: many small messages take longer than a few large ones."""

Result = TypeVar("Result")
Item = TypeVar("Item")


def is_first_process() -> bool:
    """Whether this is the process that prints messages; without torchrun every process is."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def joined() -> Iterator["Ranks"]:
    """Connect to the processes that torchrun started together with this one, for as long as the block runs.

    An error that all ranks meet is reported by the first one, and an error of a machine by the first one there; the
    others raise FailedElsewhere. Raises LostTouch if another process has ended or does not answer.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield ALONE
        return
    number = "LOCAL_RANK"
    ranks = ALONE
    try:
        ranks = join()
        number = "RANK"
        yield ranks
    except (MemoryRanOut, MissingExtraError):  # the others may not have met it
        raise
    except WeftError as error:
        if os.environ.get(number, "0") == "0":
            raise
        raise FailedElsewhere(str(error), error.exit_code) from error
    except RuntimeError as error:
        if not is_about_connections(error):
            raise
        raise LostTouch(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), str(error)) from error
    finally:
        if ranks.heartbeat is not None:
            ranks.heartbeat.end()
        if dist.is_initialized():
            dist.destroy_process_group()  # its threads would abort a process that ends
            gc.collect()  # and the groups that only a finished trainer still holds


def join() -> "Ranks":
    """Connect by the environment variables that torchrun sets."""
    if missing := [name for name in ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]:
        raise UsageError(f"WORLD_SIZE is set but not {', '.join(missing)}; start several processes with torchrun")
    device = choose_device()
    if device.type == "cuda":
        here, gpus = int(os.environ.get("LOCAL_WORLD_SIZE", "1")), torch.cuda.device_count()
        if here > gpus:
            raise UsageError(f"torchrun has started {here} processes for {gpus} GPUs; give --nproc-per-node {gpus}")
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    # Gloo for tensors in memory (decisions, objects), NCCL for those on GPUs (gradients).
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    prefix = f"weft/{next(JOINS)}"  # torchrun's store keeps the addresses that an earlier run of this program left
    store, rank, size = next(rendezvous("env://", timeout=JOINING))
    prefixed = PrefixStore(prefix, store)
    dist.init_process_group(backend, store=prefixed, rank=rank, world_size=size, timeout=JOINING)
    prompt, patient = (dist.new_group(backend=backend, timeout=timeout) for timeout in (PROMPT, PATIENT))
    assert isinstance(prompt, dist.ProcessGroup) and isinstance(patient, dist.ProcessGroup)  # every rank is in them
    heartbeat = heartbeat_of(rank, size, prefix)
    heartbeat.start()
    return Ranks(rank, size, prompt, patient, heartbeat)


JOINS = itertools.count()


def heartbeat_of(rank: int, size: int, prefix: str) -> Heartbeat:
    """The heartbeat of this process, which ends the process at once if another one is lost.

    The main thread may be waiting inside Gloo, where no exception reaches it. Unfinished files have temporary names.
    """

    def connect() -> Store:
        store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), timeout=PROMPT)
        return PrefixStore(f"{prefix}/heartbeat", store)

    def end_at_once(lost: int | None) -> None:
        what = "the store has not answered" if lost is None else f"process {lost} has not responded"
        seconds = LONGEST_SILENCE * BEAT
        error = LostTouch(rank, size, f"{what} for {seconds:.0f} seconds")
        sys.stderr.write(f"weft: {error}\n")
        sys.stderr.flush()
        os._exit(error.exit_code)

    return Heartbeat(rank, size, connect, end_at_once)


def is_about_connections(error: RuntimeError) -> bool:
    """Whether Gloo, NCCL or the store reports with this error that another process is gone."""
    words = ("gloo", "Gloo", "NCCL", "Connection ", "ProcessGroup", "timed out")
    return isinstance(error, dist.DistError) or any(word in str(error) for word in words)


@dataclass
class Ranks:
    """The processes of a run; this one has number `rank`. By default it is alone.

    `prompt` is the process group for a step, `patient` the one for work that takes some ranks longer, and `heartbeat`
    watches the other processes; all are None in a process that is alone. `common` draws the random numbers that must be
    the same on all ranks.
    """

    rank: int = 0
    size: int = 1
    prompt: dist.ProcessGroup | None = None
    patient: dist.ProcessGroup | None = None
    heartbeat: Heartbeat | None = None
    common: torch.Generator = field(default_factory=torch.Generator)
    _is_inside: bool = field(default=False, init=False)

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    @property
    def part(self) -> tuple[int, int]:
        """This rank's share of the rows: number `rank` and every `size`-th after it."""
        return self.rank, self.size

    def seed(self, seed: int) -> None:
        """Seed a step. Dropout masks, which torch's global generators draw, differ between ranks."""
        torch.manual_seed(seed if self.size == 1 else derive_seed(seed, "rank", self.rank))

    def from_first(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Call `work` on the first rank only, and return its result on every rank.

        If it fails, the first rank raises the error and the others raise FailedElsewhere. Inside `work` the first rank
        is alone, so nested calls of this method are fine.
        """
        if self.size == 1 or self._is_inside:
            return work(*arguments)
        if not self.is_first:
            outcome = self._hear()
            if isinstance(outcome, FailedElsewhere):
                raise outcome
            return outcome
        self._is_inside = True
        try:
            result = work(*arguments)
        except Exception as error:
            self._tell(FailedElsewhere(str(error), getattr(error, "exit_code", 1)))
            raise
        finally:
            self._is_inside = False
        self._tell(result)
        return result

    def _tell(self, outcome: object) -> None:
        """Send an outcome to all other ranks, which are waiting by now; one that does not answer soon is lost."""
        others = range(1, self.size)
        calls = [dist.isend(torch.zeros(1), rank, self.patient) for rank in others]
        for message in [*calls, *(dist.irecv(torch.zeros(1), rank, self.patient) for rank in others)]:
            assert message is not None  # every rank is in the group
            message.wait(PROMPT)
        dist.broadcast_object_list([outcome], src=0, group=self.patient)

    def _hear(self) -> Any:
        dist.recv(torch.zeros(1), src=0, group=self.patient)
        dist.send(torch.zeros(1), dst=0, group=self.patient)
        told: list[Any] = [None]
        dist.broadcast_object_list(told, src=0, group=self.patient)
        return told[0]

    def as_first(self, value: Result) -> Result:
        """The first rank's value of something that differs between ranks, such as a clock reading."""
        return self.from_first(lambda: value)

    def largest(self, *numbers: int) -> list[int]:
        """The largest value of each number over all ranks."""
        if self.size == 1:
            return list(numbers)
        found = torch.tensor(numbers)
        dist.all_reduce(found, dist.ReduceOp.MAX, group=self.prompt)
        return found.tolist()

    def add_up(
        self, rows: Sequence[Sequence[float | Tensor]], counts: Sequence[int], *, patiently: bool = False
    ) -> tuple[list[list[Any]], list[int]]:
        """Add up rows of equally many sums, and one count per row, over all ranks; sums in fp64.

        The sums stay on their device. Counts are sent separately, so that no step waits for an accelerator to count.
        `patiently` is for work that may take some ranks much longer than others.
        """
        if self.size == 1:
            return [list(row) for row in rows], list(counts)
        sums, total = (
            torch.stack([torch.as_tensor(x, dtype=torch.float64) for row in rows for x in row]),
            torch.tensor(counts),
        )
        for tensor in (sums, total):
            dist.all_reduce(tensor, group=self.patient if patiently else self.prompt)
        return [list(row) for row in sums.unflatten(0, (len(rows), -1))], total.tolist()

    def add_up_in_place(self, tensors: Sequence[Tensor]) -> None:
        """Replace each of these fp32 tensors, whose shapes are the same on all ranks, by its sum over the ranks."""
        if self.size == 1:
            return
        sent = []
        for bucket in buckets(tensors, BUCKET):
            flat = torch.cat([tensor.flatten() for tensor in bucket])
            sent.append((bucket, flat, dist.all_reduce(flat, group=self.prompt, async_op=True)))
        for bucket, flat, message in sent:
            assert message is not None  # every rank is in the group
            message.wait()
            pieces = flat.split([tensor.numel() for tensor in bucket])
            for tensor, piece in zip(bucket, pieces, strict=True):
                tensor.copy_(piece.view_as(tensor))

    def dealt_out(self, items: Sequence[Item]) -> Sequence[Item]:
        """This rank's share of a list."""
        return items[self.rank :: self.size]

    def together(self, share: list[Item]) -> list[Item]:
        """Reassemble on every rank a list that was dealt out, from what each rank made of its share."""
        if self.size == 1:
            return share
        shares: list[list[Item]] = [[] for _ in range(self.size)]
        dist.all_gather_object(shares, share, group=self.patient)
        whole: list[Any] = [None] * sum(map(len, shares))
        for rank, one in enumerate(shares):
            whole[rank :: self.size] = one
        return whole


ALONE = Ranks()


def buckets(tensors: Iterable[Tensor], most: int) -> Iterator[list[Tensor]]:
    """Group the tensors, in order, into lists of at most `most` numbers; a larger tensor is alone in its list."""
    bucket: list[Tensor] = []
    numbers = 0
    for tensor in tensors:
        if bucket and numbers + tensor.numel() > most:
            yield bucket
            bucket, numbers = [], 0
        bucket.append(tensor)
        numbers += tensor.numel()
    if bucket:
        yield bucket
