"""The machine: device, precision, threads, memory pages and seeds. Knows nothing of models or data."""

import contextlib
import ctypes
import hashlib
import math
import os
import platform
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Event
from typing import Literal, TypeVar

import torch

from weft.version import __version__

Precision = Literal["auto", "fp32", "bf16"]
Item = TypeVar("Item")
Answer = TypeVar("Answer")

PRECISIONS: dict[str, torch.dtype] = {"fp32": torch.float32, "bf16": torch.bfloat16}

# glibc's names for its two thresholds (malloc.h).
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3


TORCH_THREADS = torch.get_num_threads()
"""Torch's own choice, or the environment's, before anything here changed it."""


def choose_device() -> torch.device:
    """The accelerator where there is one that weft was written for, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def has_native_bf16(device: torch.device) -> bool:
    """Whether the device multiplies bf16 matrices in hardware, so that bf16 is not only smaller but faster."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device)[0] >= 8
    if device.type == "cpu" and platform.machine().lower() in ("x86_64", "amd64"):
        flags = processor_flags()
        return "avx512_bf16" in flags or "amx_bf16" in flags
    return False


def processor_flags() -> set[str]:
    """The instruction sets that Linux names for this processor; empty elsewhere."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next((set(line.split()) for line in file if line.startswith("flags")), set())
    except OSError:
        return set()


def choose_precision(precision: Precision, device: torch.device) -> Literal["fp32", "bf16"]:
    """What `auto` means on this device: bf16 where the hardware has it natively, else fp32."""
    if precision == "auto":
        return "bf16" if has_native_bf16(device) else "fp32"
    return precision


def choose_threads() -> int:
    """How many threads a matrix product shall use: torch's own choice, but no more than this process may run at once.

    Torch counts the machine's cores. In a container or a batch job that was given two of sixty-four, sixty-four threads
    would wait for each other.
    """
    return max(1, min(TORCH_THREADS, usable_cores()))


def use_chosen_threads() -> None:
    """Let the products of this thread use as many threads as `choose_threads` says. One that begins while another is in
    `side_by_side` would otherwise have the share of a worker there, for good."""
    torch.set_num_threads(choose_threads())


@cache
def compute_alone_after_forks() -> None:
    """From now on a process that is forked from this one computes with one thread: those of the OpenMP library are not
    in it, and a product that several should share would wait for them for ever."""
    if hasattr(os, "register_at_fork"):  # nothing forks on Windows
        os.register_at_fork(after_in_child=compute_alone)


def compute_alone() -> None:
    """With one thread, whatever is chosen from now on."""
    global TORCH_THREADS
    TORCH_THREADS = 1
    torch.set_num_threads(1)


@contextmanager
def without_autocast() -> Iterator[None]:
    """Computing in here is in the precision of what is computed with, whatever the program around it has torch cast."""
    with torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
        yield


class UnwantedError(Exception):
    """Ends work whose answer nobody waits for any more."""


def side_by_side(
    work: Callable[[Item, Callable[[], None]], Answer], items: Sequence[Item], workers: int
) -> Generator[Answer, None, None]:
    """work(item, go_on) of each, in order, by so many threads at once, which share out torch's threads among them.

    Two batches of small products, each on a core of its own, take less time than one after the other on both: nobody
    waits for the other half of a product, nor for Python between two. After an error, and where the generator is
    closed, `go_on` raises, so work that calls it now and then ends soon; it is waited for.
    """
    if workers == 1 or len(items) <= 1:
        for item in items:
            yield work(item, lambda: None)
        return
    given_up = Event()

    def go_on() -> None:
        if given_up.is_set():
            raise UnwantedError

    threads = torch.get_num_threads()
    share = max(1, threads // workers)
    try:
        with ThreadPoolExecutor(workers, "weft", torch.set_num_threads, (share,)) as pool:
            answers = [pool.submit(work, item, go_on) for item in items]
            try:
                for answer in answers:
                    yield answer.result()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)  # first, or a worker that gives up begins another
                given_up.set()
    finally:
        torch.set_num_threads(threads)  # some of its libraries know but one number for all threads


def usable_cores() -> int:
    """Cores that the scheduler may put this process on, or fewer where its control group has a quota of their time."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, cpu_quota(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")) or cores)


def cpu_quota(memberships: Path, hierarchy: Path) -> int | None:
    """The cores that Linux control groups grant this process, rounded up; None where nothing limits them.

    Every group on the way up to the root of a hierarchy may limit those below it. Version 2 has one hierarchy, named
    by a line of `memberships` such as 0::/some/group; version 1 has one for each controller, mounted in a folder of its
    name, as in 4:cpu,cpuacct:/some/group. A container may see its own group as the root.
    """
    try:
        lines = memberships.read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeError):
        return None
    quotas = []
    for controllers, name in (line.split(":", 2)[1:] for line in lines if line.count(":") >= 2):
        if controllers and "cpu" not in controllers.split(","):
            continue
        root, read_quota = (hierarchy / "cpu", quota_of_v1) if controllers else (hierarchy, quota_of_v2)
        group = root / name.lstrip("/")
        quotas += [read_quota(folder) for folder in (group, *group.parents) if folder.is_relative_to(root)]
    return min((max(1, math.ceil(quota)) for quota in quotas if quota is not None), default=None)


def quota_of_v2(group: Path) -> float | None:
    """Cores by its cpu.max: "200000 100000", microseconds of computing in so many microseconds, or "max 100000"."""
    with contextlib.suppress(OSError, ValueError):
        granted, period = (group / "cpu.max").read_text(encoding="ascii").split()
        return None if granted == "max" else int(granted) / int(period)
    return None


def quota_of_v1(group: Path) -> float | None:
    """Cores by its two files of such microseconds; -1 is no limit."""
    with contextlib.suppress(OSError, ValueError):
        granted, period = (
            int((group / f"cpu.cfs_{what}_us").read_text(encoding="ascii")) for what in ("quota", "period")
        )
        return None if granted < 0 else granted / period
    return None


def keep_memory_pages() -> bool:
    """Tell glibc to keep the pages that it was given; True where it took settings.

    Every step of a training or a search allocates and frees the same large tensors. By default glibc returns them to
    the kernel each time and takes the page faults again, which can halve the speed of a training step.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:  # musl has no such thing
        return False
    # An older glibc maps what is larger than 32 MiB apart whatever it is told, and refuses to be told more.
    keeps_large = any(mallopt(M_MMAP_THRESHOLD, size) for size in (2**30, 2**25))
    return bool(mallopt(M_TRIM_THRESHOLD, 2**31 - 1)) and keeps_large


def keep_programs() -> None:
    """Have oneDNN keep some thousand of the programs that it writes for its products, one for each shape, unless
    the environment says how many. It asks at its first product.

    The batches of an epoch have more shapes than the 1,024 programs that it keeps by itself, and each was written anew
    in every epoch: with AMX a seventh of the time (bench/results/tried.jsonl), for 0.3 GB of memory.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "4096")


def return_memory_pages() -> bool:
    """Have glibc return what is free to the kernel; True where there was any.

    Between two pieces of work with tensors of many sizes, it keeps the heap from growing by the gaps between them.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform.startswith("linux") else None
    return trim is not None and bool(trim(0))


def derive_seed(*parts: int | str) -> int:
    """A 63-bit seed for one purpose, for example derive_seed(seed, "dropout", step).

    Random numbers are a function of where they are used and not of how many were drawn before, so a resumed run needs
    no generator state to go on with the same numbers.
    """
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def describe_machine() -> dict[str, str]:
    """What a bug report needs to know about this machine."""
    device = choose_device()
    return {
        "weft": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "system": platform.platform(),
        "processor": processor_name(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "threads": str(torch.get_num_threads()),
        "native bf16": "yes" if has_native_bf16(device) else "no",
    }


def processor_name() -> str:
    """The processor's own name for itself where Linux tells it, else the architecture."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()
