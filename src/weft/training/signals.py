"""Stopping where everything is saved, when a signal asks for it, or at once where the work is begun anew."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from weft.errors import Stopped


class StopRequest:
    """Whether a signal has asked the work to stop."""

    requested = False

    def honor(self, what_happened: str) -> None:
        """Raise Stopped where a signal has asked for it; called where all that matters is on disk."""
        if self.requested:
            raise Stopped(f"{what_happened}; the same command continues from here")


@contextmanager
def stop_on_signal(*, second_interrupts: bool = True) -> Iterator[StopRequest]:
    """Turn the first SIGINT or SIGTERM into a request that can be honored in a good moment; a second one interrupts.

    Where a batch system signals every process and torchrun passes its own signal on, a second one says no more than the
    first: `second_interrupts=False`. There torchrun also sends SIGTERM to the other processes as soon as one has ended;
    so that they can still say why they end, signals stay caught where an error leaves this.
    """
    stop = StopRequest()

    def ask(number: int, frame: object) -> None:
        if stop.requested and second_interrupts:
            raise KeyboardInterrupt
        stop.requested = True

    previous = caught_by(ask)
    try:
        yield stop
    except Exception:
        if not second_interrupts:
            previous = {}
        raise
    finally:
        give_back(previous)


@contextmanager
def stopped_by_signal(what_happened: str) -> Iterator[None]:
    """Let SIGINT and SIGTERM raise Stopped wherever the work inside stands: for work that is begun anew, and of which
    nothing is left when what it is done with has been closed. A second signal does not disturb the closing."""

    def stop(number: int, frame: object) -> None:
        for one in previous:
            signal.signal(one, signal.SIG_IGN)
        raise Stopped(f"{what_happened}; the same command starts over")

    previous = caught_by(stop)
    try:
        yield
    finally:
        give_back(previous)


Handlers = dict[int, Any]
"""What a signal did before, by its number."""


def caught_by(handler: Callable[[int, object], None]) -> Handlers:
    try:
        return {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not the main thread, where Python delivers no signals
        return {}


def give_back(previous: Handlers) -> None:
    for number, handler in previous.items():
        signal.signal(number, handler)
