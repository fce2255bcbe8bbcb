"""The work of preparation over the processes of this machine: `map` that reads only a few items ahead.

cluster.py does the same over the machines of a cluster.
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
"""For each process, that are read before the answer to the first of them is there."""

CONTAINERS_BETWEEN_COLLECTIONS = 50_000
"""A piece of the corpus becomes tens of thousands of lists of ids, which hold no cycle: to look for one after every 700
of them, as Python does, would take half as long as to cut the text."""

Item = TypeVar("Item", contravariant=True)
Answer = TypeVar("Answer", covariant=True)


@runtime_checkable
class Each(Protocol):
    """Calls a function with each item and gives the answers in the order of the items."""

    def __call__(self, function: Callable[[Item], Answer], items: Iterable[Item], /) -> Iterator[Answer]: ...


@contextmanager
def workers(processes: int) -> Iterator[Each]:
    """`map` over so many processes, that reads only a few items ahead; in this process where it is the only one."""
    if processes == 1:
        yield map
        return
    # Forked children would inherit locks of this process's threads; these begin anew.
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
            "a process that cleaned or cut pairs was ended from outside, as where memory runs out; with fewer of them "
            "it takes less: weft prepare --processes 1, then train"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def begin_worker() -> None:
    """Leave signals to the process that gives out the work, and end when it does, however it ends: one that was ended
    while it writes an answer would leave that process reading half of it for ever."""
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
    """Processes that are started inside the block import what they are given to do, and not the user's script too: it
    would run once more in each of them where it does not ask for its `__name__`."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
