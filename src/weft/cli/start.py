"""The start of the `weft` command. Verbs that train run with a setting that the C library reads only at a start.

glibc caches freed small chunks of memory of each size (tcache) and does not merge the free memory around them. A
training step allocates and frees thousands of tensors, so these chunks fragment the heap more and more. Without the
cache the process measured after 420 steps held a gigabyte less, and its steps had slowed down less
(bench/results/tried.jsonl; one process each).

OpenMP's threads spin while they wait for each other, by default for so long that beside a busy process they hold each
other up: two threads on two cores trained a Transformer 256 wide with 2,589 target tokens a second alone, and took no
step in twelve seconds beside three busy processes. With WAITS they took 2,503 and 626 tokens; never spinning
(OMP_WAIT_POLICY=PASSIVE), 2,157 and 986.
"""

import atexit
import contextlib
import gc
import os
import sys
from collections.abc import Mapping
from pathlib import Path

TRAINS = {"train", "plan", "augment", "tune", "ablate"}
"""The verbs that train, or allocate as many tensors."""
READ = (["config"], ["watch"], ["models", "list"], ["models", "show"])
"""The verbs that read and compute nothing, and so do without torch."""
WAITS = {"GOMP_SPINCOUNT": "10000"}
"""How long OpenMP's threads spin before they sleep, where the environment does not say."""
TUNABLES, CACHE = "GLIBC_TUNABLES", "glibc.malloc.tcache_count"


def start() -> None:
    """The entry point of the command."""
    if "OMP_WAIT_POLICY" not in os.environ:
        for name, value in WAITS.items():  # read when torch is imported
            os.environ.setdefault(name, value)
    if TRAINS & set(sys.argv[1:3]) and (environment := with_whole_heap(os.environ)) is not None:
        with contextlib.suppress(OSError):  # without the setting everything works, only slower
            os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)  # restarts this process
    if (sys.argv[1:2] in READ or sys.argv[1:3] in READ) and not any(map(has_export, sys.argv[3:])):
        from weft.cli.without_torch import stand_in_for_torch

        stand_in_for_torch()
    from weft.cli.main import run

    atexit.register(gc.freeze)  # else the interpreter collects all of torch at its end
    run()


def has_export(argument: str) -> bool:
    """Whether this is a folder that holds an exported model, whose parameters torch counts."""
    folder = Path(argument)
    try:
        return folder.is_dir() and next(folder.rglob("export.json"), None) is not None
    except OSError:  # it may be no path at all
        return False


def with_whole_heap(environment: Mapping[str, str]) -> dict[str, str] | None:
    """The environment with the setting added; None where it is set already, or the C library is not glibc."""
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
