"""Distribute preparation over processes of this machine, with a `map` that reads only a few items ahead.

cluster.py does this over the machines of a cluster.
"""

import gc
import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from types import ModuleType
from typing import Protocol, TypeVar, runtime_checkable

from weft.errors import WorkerLost

ITEMS_AHEAD = 3
"""Items per process that are read before the first answer arrives."""

CONTAINERS_BETWEEN_COLLECTIONS = 50_000
"""Threshold of the garbage collector. A piece becomes tens of thousands of lists of ids without cycles; collecting
after every 700 of them, Python's default, would take half as long as tokenizing."""

Item = TypeVar("Item", contravariant=True)
Answer = TypeVar("Answer", covariant=True)


@runtime_checkable
class Each(Protocol):
    """Calls a function with each item and yields the answers in the order of the items."""

    def __call__(self, function: Callable[[Item], Answer], items: Iterable[Item], /) -> Iterator[Answer]: ...


@contextmanager
def workers(processes: int) -> Iterator[Each]:
    """Yield a `map` over this many processes that reads only a few items ahead; 1 means this process."""
    if processes == 1:
        yield map
        return
    # Forked children would inherit the locks of this process's threads.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, mp_context=context, initializer=begin_worker)

    def each(function: Callable[[Item], Answer], items: Iterable[Item]) -> Iterator[Answer]:
        waiting: deque[Future[Answer]] = deque()
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > ITEMS_AHEAD * processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    try:
        with without_main_module():
            for begun in [pool.submit(os.getpid) for _ in range(processes)]:  # each starts a process
                begun.result()
        yield each
    except BrokenProcessPool:
        raise WorkerLost(
            "a process that cleaned or tokenized pairs was killed, perhaps because memory ran out; to use less memory, "
            "run weft prepare --processes 1, then train"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def begin_worker() -> None:
    """Ignore signals, and exit when the parent process does.

    A worker that a signal killed while it writes an answer would leave the parent waiting for the rest forever.
    """
    gc.set_threshold(CONTAINERS_BETWEEN_COLLECTIONS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end_with_parent() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


@contextmanager
def without_main_module() -> Iterator[None]:
    """Processes started inside the block do not import the user's script, which may lack a `__main__` guard."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
