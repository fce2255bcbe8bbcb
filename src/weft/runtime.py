"""The machine: device, precision, threads, memory pages and seeds."""

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
"""The number of threads that torch, or the environment, chose before anything here changed it."""


def choose_device() -> torch.device:
    """CUDA if it is available, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


AMD_WITH_BF16 = ("gfx908", "gfx90a", "gfx94", "gfx95", "gfx11", "gfx12")
"""How the names of AMD's GPUs begin that multiply bf16 matrices: CDNA, and RDNA from the third on."""


def has_native_bf16(device: torch.device) -> bool:
    """Whether the device multiplies bf16 matrices in hardware, so that bf16 is faster as well as smaller."""
    if device.type == "cuda" and torch.version.hip:
        return torch.cuda.get_device_properties(device).gcnArchName.startswith(AMD_WITH_BF16)
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device)[0] >= 8
    if device.type == "cpu" and platform.machine().lower() in ("x86_64", "amd64"):
        flags = processor_flags()
        return "avx512_bf16" in flags or "amx_bf16" in flags
    return False


def processor_flags() -> set[str]:
    """The processor's instruction sets as listed by Linux; empty on other systems."""
    return {*processor_fact("flags").split()}


def processor_fact(name: str) -> str:
    """What Linux says of the first processor under a name, such as "flags"; empty on other systems."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next((line.partition(":")[2].strip() for line in file if line.startswith(name)), "")
    except OSError:
        return ""


def choose_precision(precision: Precision, device: torch.device) -> Literal["fp32", "bf16"]:
    """Resolve `auto` for a device: bf16 if the hardware supports it natively, else fp32."""
    if precision == "auto":
        return "bf16" if has_native_bf16(device) else "fp32"
    return precision


def choose_threads() -> int:
    """The number of threads for matrix products: torch's own choice, but at most the cores this process may use.

    Torch counts the cores of the machine. In a container or batch job that may use two of sixty-four, sixty-four
    threads would wait for each other.
    """
    return max(1, min(TORCH_THREADS, usable_cores()))


def use_chosen_threads() -> None:
    """Set this thread's number of threads for matrix products to `choose_threads()`.

    A thread that starts while another one is in `map_in_threads` would otherwise keep the share of a worker there.
    """
    torch.set_num_threads(choose_threads())


@cache
def use_one_thread_after_fork() -> None:
    """Make processes forked from this one compute with one thread.

    OpenMP's threads do not exist in a forked process, so a product shared among several would wait for them forever.
    """
    if hasattr(os, "register_at_fork"):  # nothing forks on Windows
        os.register_at_fork(after_in_child=use_one_thread)


def use_one_thread() -> None:
    """Compute with one thread, also if `choose_threads` is called later."""
    global TORCH_THREADS
    TORCH_THREADS = 1
    torch.set_num_threads(1)


@contextmanager
def without_autocast() -> Iterator[None]:
    """Compute in the precision of the tensors, even if the surrounding program enabled torch's autocast."""
    with torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
        yield


class Cancelled(Exception):
    """Raised in a worker of `map_in_threads` whose result is no longer wanted."""


def map_in_threads(
    work: Callable[[Item, Callable[[], None]], Answer], items: Sequence[Item], workers: int
) -> Generator[Answer, None, None]:
    """Yield work(item, check_cancelled) for each item, in order, from `workers` threads that divide torch's threads.

    Two batches of small products take less time on a core each than one after the other on both cores: no thread waits
    for the other half of a product, or for Python between two products. After an error, or when the generator is
    closed, `check_cancelled` raises Cancelled; work should call it regularly, because running work is waited for.
    """
    if workers == 1 or len(items) <= 1:
        for item in items:
            yield work(item, lambda: None)
        return
    cancelled = Event()

    def check_cancelled() -> None:
        if cancelled.is_set():
            raise Cancelled

    threads = torch.get_num_threads()
    share = max(1, threads // workers)
    try:
        with ThreadPoolExecutor(workers, "weft", torch.set_num_threads, (share,)) as pool:
            answers = [pool.submit(work, item, check_cancelled) for item in items]
            try:
                for answer in answers:
                    yield answer.result()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)  # first, or a cancelled worker starts another item
                cancelled.set()
    finally:
        torch.set_num_threads(threads)  # some libraries have only one number for all threads


def usable_cores() -> int:
    """The number of cores that the scheduler and the CPU quotas of control groups let this process use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, cpu_quota(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")) or cores)


def cpu_quota(memberships: Path, hierarchy: Path) -> int | None:
    """The cores that Linux control groups grant this process, rounded up; None if they are not limited.

    Every group up to the root of its hierarchy may set a limit. Version 2 has one hierarchy, with a line such as
    0::/some/group in `memberships`. Version 1 has one for each controller, mounted in a folder of its name, with a line
    such as 4:cpu,cpuacct:/some/group. A container may see its own group as the root.
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
    """Cores granted by cpu.max: "200000 100000" (microseconds of CPU time per period) or "max 100000"."""
    with contextlib.suppress(OSError, ValueError):
        granted, period = (group / "cpu.max").read_text(encoding="ascii").split()
        return None if granted == "max" else int(granted) / int(period)
    return None


def quota_of_v1(group: Path) -> float | None:
    """Cores granted by cpu.cfs_quota_us and cpu.cfs_period_us, where a quota of -1 means unlimited."""
    with contextlib.suppress(OSError, ValueError):
        granted, period = (
            int((group / f"cpu.cfs_{what}_us").read_text(encoding="ascii")) for what in ("quota", "period")
        )
        return None if granted < 0 else granted / period
    return None


def keep_memory_pages() -> bool:
    """Make glibc keep freed pages for reuse; returns whether it accepted the settings.

    Every step of training or search allocates and frees the same large tensors. By default glibc returns them to the
    kernel each time, and the new page faults can halve the speed of a training step.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:  # musl does not have it
        return False
    # An older glibc always maps blocks over 32 MiB separately and rejects larger thresholds.
    keeps_large = any(mallopt(M_MMAP_THRESHOLD, size) for size in (2**30, 2**25))
    return bool(mallopt(M_TRIM_THRESHOLD, 2**31 - 1)) and keeps_large


def keep_programs() -> None:
    """Enlarge oneDNN's cache of compiled kernels, one per shape, unless the environment sets its size.

    oneDNN reads the setting at its first product. The batches of an epoch have more shapes than the 1,024 kernels of
    its default, and recompiling them in every epoch took a seventh of the time with AMX
    (bench/results/tried.jsonl). The larger cache takes 0.3 GB of memory.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "4096")


def return_memory_pages() -> bool:
    """Make glibc return free memory to the kernel; returns whether there was any.

    Between two jobs with tensors of many sizes, this keeps a fragmented heap from growing.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform.startswith("linux") else None
    return trim is not None and bool(trim(0))


def derive_seed(*parts: int | str) -> int:
    """A 63-bit seed for one purpose, for example derive_seed(seed, "dropout", step).

    Random numbers then depend only on where they are used, not on how many were drawn before, so a resumed run draws
    the same numbers without saving the state of a generator.
    """
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def describe_machine() -> dict[str, str]:
    """The facts about this machine that belong in a bug report."""
    device = choose_device()
    return {
        "weft": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "system": platform.platform(),
        "processor": processor_fact("model name") or platform.processor() or platform.machine(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "threads": str(torch.get_num_threads()),
        "native bf16": "yes" if has_native_bf16(device) else "no",
    }
