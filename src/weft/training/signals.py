"""Stopping on a signal: where everything is saved, or at once if the work starts over anyway."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from weft.errors import Stopped

SIGNALS = (signal.SIGINT, signal.SIGTERM)
LOOK_EVERY = 0.1
"""Seconds between two looks at whether another process has ended."""


class StopRequest:
    """Whether a signal has requested a stop, or a caller a pause at some step."""

    requested = False
    pause_at: int | None = None
    """Step after whose checkpoint training raises Paused. If that step is validated anyway, the run is the same later
    as one without the pause."""

    def honor(self, what_happened: str) -> None:
        """Raise Stopped if a signal has requested it. Call it where everything that matters is on disk."""
        if self.requested:
            raise Stopped(f"{what_happened}; the same command continues from here")


@contextmanager
def stop_on_signal(*, second_interrupts: bool = True) -> Iterator[StopRequest]:
    """Turn the first SIGINT or SIGTERM into a request that is honored at a safe point; a second one interrupts.

    Under torchrun use `second_interrupts=False`: a batch system signals every process, and torchrun passes its own
    signal on. It also sends SIGTERM to all processes as soon as one has ended; so that the others can still report why
    they end, signals stay caught if an error leaves the block.
    """
    stop = StopRequest()

    def ask(number: int, frame: object) -> None:
        if stop.requested and second_interrupts:
            raise KeyboardInterrupt
        stop.requested = True

    with handled(ask, also_after_errors=not second_interrupts):
        yield stop


@contextmanager
def stopped_by_signal(what_happened: str) -> Iterator[None]:
    """Let SIGINT and SIGTERM raise Stopped at any point inside the block, for work that starts over and leaves nothing
    behind once its resources are closed. A second signal does not disturb the closing."""

    def stop(number: int, frame: object) -> None:
        for one in SIGNALS:
            signal.signal(one, signal.SIG_IGN)
        raise Stopped(f"{what_happened}; the same command starts over")

    with handled(stop):
        yield


@contextmanager
def handled(handler: Callable[[int, object], None], *, also_after_errors: bool = False) -> Iterator[None]:
    """Let this function handle SIGNALS inside the block; `also_after_errors`, still after an error that leaves it."""
    previous = {}
    try:
        with suppress(ValueError):  # not the main thread, where Python delivers no signals
            previous = {number: signal.signal(number, handler) for number in SIGNALS}
        yield
    except Exception:
        if also_after_errors:
            previous = {}
        raise
    finally:
        for number, before in previous.items():
            signal.signal(number, before)


def stop_with_parent(parent: int) -> None:
    """Send this process SIGTERM once the one that started it has ended, even if it was killed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK_EVERY)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()
