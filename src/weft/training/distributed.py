"""Several processes that train one model, one a device, as torchrun starts them (RANK, WORLD_SIZE, LOCAL_RANK).

    joined     finds the others; without torchrun a process is alone, and all of this costs it nothing
    Ranks      what they do together: add up, agree, be told

Each rank takes its rows of every batch (data/batching.py). Gradients, losses and tokens are added up over all ranks
before anything is divided or decided, so every rank takes the step that one process would take on the whole batch, and
none depends on which rank has how many rows. What a step depends on is the same everywhere; what is a matter of clocks,
signals or files is the first rank's to decide (`Ranks.from_first`), which alone reads and writes.

Why the gradients are added up by hand and not by torch's DistributedDataParallel: that wraps one `forward`, and our
losses call a model's parts (encode, decode, the output matrix for the blocked loss) directly. It divides by the number
of ranks where we divide by the tokens of all; it adds up after every backward pass where we do so once an update; and
it must be told of layers that a step leaves out. What it has ahead of us is that it sends gradients while the backward
pass still computes others.

Nothing here knows text, or a model.
"""

import gc
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
from torch.distributed import PrefixStore, TCPStore  # pyright: ignore[reportPrivateImportUsage]

from weft.errors import FailedElsewhere, LostTouch, MemoryRanOut, MissingExtraError, UsageError, WeftError
from weft.runtime import choose_device, derive_seed
from weft.training.heartbeat import BEAT, LONGEST_SILENCE, Heartbeat, Store

PROMPT = timedelta(seconds=45)
"""How long a rank waits for the others in a step, where all have the same to do; then it takes one of them for dead."""
PATIENT = timedelta(days=7)
"""How long it waits while the first rank alone trains a tokenizer, reads, writes or scores, and until all have
validated their shares: as long as that takes. A process that ends is noticed at once all the same, since its
connections close, and one that no longer runs by its heartbeat (heartbeat.py)."""

BUCKET = 1 << 23
"""Numbers (32 MiB) that are added up over the ranks at a time: many small messages take longer than a few large."""

Result = TypeVar("Result")
Item = TypeVar("Item")


def is_first_process() -> bool:
    """Whether this process is the one that speaks; without torchrun every process is."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def joined() -> Iterator["Ranks"]:
    """The processes that were started together with this one, for as long as the block runs.

    What all ranks find wrong alike is said by the first one, and what is wrong with a machine by the first one there;
    the others raise FailedElsewhere. Raises LostTouch where another process has ended or does not answer.
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
    except (MemoryRanOut, MissingExtraError):  # which others need not have met
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
            dist.destroy_process_group()  # whose threads would abort a process that ends
            gc.collect()  # and those of groups that only a finished trainer still holds


def join() -> "Ranks":
    """Find the other processes by what torchrun has put into the environment."""
    if missing := [name for name in ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]:
        raise UsageError(f"WORLD_SIZE is set but not {', '.join(missing)}; start several processes with torchrun")
    device = choose_device()
    if device.type == "cuda":
        here, gpus = int(os.environ.get("LOCAL_WORLD_SIZE", "1")), torch.cuda.device_count()
        if here > gpus:
            raise UsageError(f"torchrun has started {here} processes for {gpus} GPUs; give --nproc-per-node {gpus}")
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    # Gloo carries what lies in memory (decisions, objects), NCCL what lies on GPUs (gradients).
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, timeout=PATIENT)
    prompt = dist.new_group(backend=backend, timeout=PROMPT)
    assert isinstance(prompt, dist.ProcessGroup)  # no rank stands outside
    rank, size = dist.get_rank(), dist.get_world_size()
    heartbeat = heartbeat_of(rank, size)
    heartbeat.start()
    return Ranks(rank, size, prompt, heartbeat)


def heartbeat_of(rank: int, size: int) -> Heartbeat:
    """The heartbeat of this process, which ends it where another one is gone.

    It may be waiting inside Gloo, where nothing reaches it; what it has begun to write lies beside its place (R1).
    """

    def connect() -> Store:
        store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), timeout=PROMPT)
        return PrefixStore("weft/heartbeat", store)

    def end_at_once(lost: int | None) -> None:
        whose = "nobody" if lost is None else f"nothing of process {lost}"
        seconds = LONGEST_SILENCE * BEAT
        error = LostTouch(rank, size, f"{whose} has been heard for {seconds:.0f} seconds")
        sys.stderr.write(f"weft: {error}\n")
        sys.stderr.flush()
        os._exit(error.exit_code)

    return Heartbeat(rank, size, connect, end_at_once)


def is_about_connections(error: RuntimeError) -> bool:
    """Whether this is how Gloo, NCCL or the store says that another process is gone."""
    words = ("gloo", "Gloo", "NCCL", "Connection ", "ProcessGroup", "timed out")
    return isinstance(error, dist.DistError) or any(word in str(error) for word in words)


@dataclass
class Ranks:
    """The processes of a run, of which this one has the number `rank`; by default it is alone.

    `prompt` connects them in a step and `heartbeat` watches over them, both None where a process is alone; `common`
    draws what must be the same on all.
    """

    rank: int = 0
    size: int = 1
    prompt: dist.ProcessGroup | None = None
    heartbeat: Heartbeat | None = None
    common: torch.Generator = field(default_factory=torch.Generator)
    _is_inside: bool = field(default=False, init=False)

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    @property
    def part(self) -> tuple[int, int]:
        """The rows that are this rank's: number `rank` and every `size`-th after it."""
        return self.rank, self.size

    def seed(self, seed: int) -> None:
        """Begin a step's random numbers: dropout masks, from torch's own generators, are each rank's own."""
        torch.manual_seed(seed if self.size == 1 else derive_seed(seed, "rank", self.rank))

    def from_first(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Let the first rank work; every rank gets what it returns.

        Where it fails the first rank raises its error and the others raise FailedElsewhere. Inside such work the first
        rank is alone: what it calls there may use this method too.
        """
        if self.size == 1 or self._is_inside:
            return work(*arguments)
        if not self.is_first:
            outcome = self._hear()
            if isinstance(outcome, Failure):
                raise FailedElsewhere(outcome.text, outcome.exit_code)
            return outcome
        self._is_inside = True
        try:
            result = work(*arguments)
        except Exception as error:
            self._tell(Failure(str(error), getattr(error, "exit_code", 1)))
            raise
        finally:
            self._is_inside = False
        self._tell(result)
        return result

    def _tell(self, outcome: object) -> None:
        """From the first rank to all others, which are waiting by now: one that does not answer soon is dead."""
        others = range(1, self.size)
        calls = [dist.isend(torch.zeros(1), rank) for rank in others]
        for message in [*calls, *(dist.irecv(torch.zeros(1), rank) for rank in others)]:
            assert message is not None  # no rank stands outside
            message.wait(PROMPT)
        dist.broadcast_object_list([outcome], src=0)

    def _hear(self) -> Any:
        dist.recv(torch.zeros(1), src=0)
        dist.send(torch.zeros(1), dst=0)
        told: list[Any] = [None]
        dist.broadcast_object_list(told, src=0)
        return told[0]

    def as_first(self, value: Result) -> Result:
        """The first rank's value of what is not the same everywhere, such as a reading of a clock."""
        return self.from_first(lambda: value)

    def largest(self, *numbers: int) -> list[int]:
        """The largest that any rank has of each."""
        if self.size == 1:
            return list(numbers)
        found = torch.tensor(numbers)
        dist.all_reduce(found, dist.ReduceOp.MAX, group=self.prompt)
        return found.tolist()

    def add_up(
        self, rows: Sequence[Sequence[float | Tensor]], counts: Sequence[int], *, patiently: bool = False
    ) -> tuple[list[list[Any]], list[int]]:
        """Rows of sums, equally many in each, and a count for each row, all added up over the ranks; sums in fp64.

        The sums stay on their device. The counts travel apart, so that no step waits for an accelerator to count.
        `patiently` is for work that may take some ranks much longer than others.
        """
        if self.size == 1:
            return [list(row) for row in rows], list(counts)
        sums, total = torch.stack([torch.as_tensor(x).double() for row in rows for x in row]), torch.tensor(counts)
        for tensor in (sums, total):
            dist.all_reduce(tensor, group=None if patiently else self.prompt)
        return [list(row) for row in sums.unflatten(0, (len(rows), -1))], total.tolist()

    def add_up_in_place(self, tensors: Sequence[Tensor]) -> None:
        """Make each of these fp32 tensors, which have the same shapes everywhere, the sum over all ranks."""
        if self.size == 1:
            return
        sent = []
        for bucket in buckets(tensors, BUCKET):
            flat = torch.cat([tensor.flatten() for tensor in bucket])
            sent.append((bucket, flat, dist.all_reduce(flat, group=self.prompt, async_op=True)))
        for bucket, flat, message in sent:
            assert message is not None  # no rank stands outside
            message.wait()
            pieces = flat.split([tensor.numel() for tensor in bucket])
            for tensor, piece in zip(bucket, pieces, strict=True):
                tensor.copy_(piece.view_as(tensor))

    def dealt_out(self, items: Sequence[Item]) -> Sequence[Item]:
        """This rank's share of a list."""
        return items[self.rank :: self.size]

    def together(self, share: list[Item]) -> list[Item]:
        """The whole of a list that was dealt out, from what each rank has made of its share; on every rank."""
        if self.size == 1:
            return share
        shares: list[list[Item]] = [[] for _ in range(self.size)]
        dist.all_gather_object(shares, share)
        whole: list[Any] = [None] * sum(map(len, shares))
        for rank, one in enumerate(shares):
            whole[rank :: self.size] = one
        return whole


ALONE = Ranks()


@dataclass(frozen=True)
class Failure:
    """What the others are told of an error of the first rank."""

    text: str
    exit_code: int


def buckets(tensors: Iterable[Tensor], most: int) -> Iterator[list[Tensor]]:
    """The tensors in their order, as many at a time as hold `most` numbers together; a larger one stands alone."""
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
