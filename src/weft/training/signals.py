"""Stopping on a signal: where everything is saved, or at once if the work starts over anyway."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from weft.errors import Stopped


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

    previous = install_handler(ask)
    try:
        yield stop
    except Exception:
        if not second_interrupts:
            previous = {}
        raise
    finally:
        restore_handlers(previous)


@contextmanager
def stopped_by_signal(what_happened: str) -> Iterator[None]:
    """Let SIGINT and SIGTERM raise Stopped at any point inside the block, for work that starts over and leaves nothing
    behind once its resources are closed. A second signal does not disturb the closing."""

    def stop(number: int, frame: object) -> None:
        for one in previous:
            signal.signal(one, signal.SIG_IGN)
        raise Stopped(f"{what_happened}; the same command starts over")

    previous = install_handler(stop)
    try:
        yield
    finally:
        restore_handlers(previous)


Handlers = dict[int, Any]
"""The previous handler of each signal, by its number."""


def install_handler(handler: Callable[[int, object], None]) -> Handlers:
    try:
        return {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not the main thread, where Python delivers no signals
        return {}


def restore_handlers(previous: Handlers) -> None:
    for number, handler in previous.items():
        signal.signal(number, handler)
