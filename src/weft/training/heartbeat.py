"""Whether the other processes of a run are still there, also while one of them works and the rest wait for it.

Where a process is killed its connections close. Where a machine is lost, or a process halted, none does; and while the
first rank trains a tokenizer or the ranks validate, nobody could say how long is too long. So every process counts up a
number of its own in torchrun's store, all the time and beside its work, and looks at the numbers of the others.
"""

import threading
from collections.abc import Callable
from typing import Protocol, runtime_checkable

BEAT = 3.0
"""Seconds between two beats."""
LONGEST_SILENCE = 17
"""Beats without a word of a process, after which it is gone: 51 seconds, some more than a step waits for the others, so
that in a step it is the step that says so."""


@runtime_checkable
class Store(Protocol):
    """What is needed of torch's stores."""

    def add(self, key: str, amount: int, /) -> int:
        """Count up, from 0 where the key is new, and return the count."""
        ...


class Heartbeat:
    """This process's beats, and those of the others as it hears them.

    `lost` is called, from a thread, with the number of a process that is no longer heard, or with None where nobody is,
    not even this one: then it is the store that does not answer.

    A silence is counted in beats of this process and not in seconds: one that was itself halted, or was kept from
    running by a long call, has heard nobody meanwhile and must not conclude anything from it.
    """

    def __init__(self, rank: int, size: int, connect: Callable[[], Store], lost: Callable[[int | None], None]):
        self.rank, self.size, self.connect, self.lost = rank, size, connect, lost
        self.counts = [0] * size
        self.silence = [0] * size
        self.ended = threading.Event()

    def start(self) -> None:
        for work in (self._speak, self._watch):
            threading.Thread(target=work, name="weft heartbeat", daemon=True).start()

    def end(self) -> None:
        self.ended.set()

    def beat(self, store: Store) -> None:
        """Be heard, and hear."""
        store.add(str(self.rank), 1)
        for rank, before in enumerate(self.counts):
            self.counts[rank] = store.add(str(rank), 0)
            if self.counts[rank] != before:
                self.silence[rank] = 0

    def look(self) -> None:
        """Once a beat: everyone has been silent for one beat more."""
        self.silence = [beats + 1 for beats in self.silence]
        silent = [rank for rank, beats in enumerate(self.silence) if beats > LONGEST_SILENCE]
        if silent:
            self.lost(None if self.rank in silent else silent[0])

    def _speak(self) -> None:
        try:
            store = self.connect()
            while not self.ended.wait(BEAT):
                self.beat(store)
        except RuntimeError:  # the store is gone: nobody is heard from here on, and look() says so
            return

    def _watch(self) -> None:
        while not self.ended.wait(BEAT):
            self.look()
