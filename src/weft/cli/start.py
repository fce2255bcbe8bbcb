"""How the `weft` command begins and ends: without looking for garbage where there is none. And where it will train,
with a setting of the C library that is read at a start alone.

glibc keeps freed small chunks of memory at hand wherever they lie, some of each size, and does not join what is free
around them. A training step takes and frees thousands of tensors; those chunks cut the heap into ever more pieces, and
tensors lie ever farther apart. Without that cache the process measured after 420 steps held a gigabyte less, and its
steps had slowed down less (bench/results/tried.jsonl; one process each).
"""

import atexit
import contextlib
import gc
import os
import sys
from collections.abc import Iterator, Mapping

TRAINS = {"train", "plan", "augment"}
"""The verbs that train, or make as many tensors."""
TUNABLES, CACHE = "GLIBC_TUNABLES", "glibc.malloc.tcache_count"


def start() -> None:
    """The entry point of the command."""
    if TRAINS & set(sys.argv[1:3]) and (environment := with_whole_heap(os.environ)) is not None:
        with contextlib.suppress(OSError):  # without it all goes well too, only slower
            os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)  # the same process anew
    from weft.cli.main import run

    atexit.register(gc.freeze)  # or the interpreter looks through all of torch once more before it ends
    run()


@contextlib.contextmanager
def without_collections() -> Iterator[None]:
    """For the imports of verbs whose answer somebody waits for: torch and what stands on it are half a million objects
    and no garbage. Looked through again and again, they take a third longer."""
    if "torch" in sys.modules:  # not the beginning of a process
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def with_whole_heap(environment: Mapping[str, str]) -> dict[str, str] | None:
    """The environment with the setting in it; None where it says something about that, or the library is another."""
    given = environment.get(TUNABLES, "")
    if CACHE in given or not is_glibc():
        return None
    return {**environment, TUNABLES: f"{given}:{CACHE}=0".lstrip(":")}


def is_glibc() -> bool:
    """Whether the C library is the one of most Linux systems."""
    try:
        return bool(os.confstr("CS_GNU_LIBC_VERSION"))
    except (AttributeError, OSError, ValueError):
        return False
