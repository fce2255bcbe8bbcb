"""Notices processes of a run that no longer answer, even while the others wait for them without a time limit.

When a process is killed, its connections close. When a machine is lost or a process is halted, none does, and while the
first rank trains a tokenizer or the ranks validate, no timeout would be right. So every process keeps counting up a
number of its own in torchrun's store, and watches the numbers of the others.
"""

import threading
from collections.abc import Callable

from torch.distributed import Store  # pyright: ignore[reportPrivateImportUsage]

BEAT = 3.0
"""Seconds between two beats."""
LONGEST_SILENCE = 17
"""Beats without a sign of a process after which it counts as lost: 51 seconds, a little more than the timeout of a
step, so that in a step it is the step that reports it."""


class Heartbeat:
    """Counts beats in the store, and calls `lost` from a thread when those of another process stop.

    `lost` gets the rank of that process, or None if not even this process is heard: then the store does not answer.

    Silence is counted in beats of this process and not in seconds: a process that was halted itself has heard no other
    meanwhile, and must not conclude anything from that.
    """

    def __init__(self, rank: int, size: int, connect: Callable[[], Store], lost: Callable[[int | None], None]):
        self.rank, self.size, self.connect, self.lost = rank, size, connect, lost
        self.counts, self.silence = [0] * size, [0] * size
        self.ended = threading.Event()

    def start(self) -> None:
        for work in (self._speak, self._watch):  # two threads, since a store that does not answer blocks the first
            threading.Thread(target=work, name="weft heartbeat", daemon=True).start()

    def end(self) -> None:
        self.ended.set()

    def beat(self, store: Store) -> None:
        """Count up, and note which other processes have."""
        store.add(str(self.rank), 1)
        for rank, before in enumerate(self.counts):
            self.counts[rank] = store.add(str(rank), 0)
            if self.counts[rank] != before:
                self.silence[rank] = 0

    def look(self) -> None:
        """Count one more beat of silence for every process, and report the first one that is silent for too long.

        If this process has not heard itself for half of that time either, it is the store that does not answer: another
        process may have been heard a few beats earlier than this one when it stopped.
        """
        self.silence = [beats + 1 for beats in self.silence]
        silent = [rank for rank, beats in enumerate(self.silence) if beats > LONGEST_SILENCE]
        if silent:
            self.lost(None if self.silence[self.rank] > LONGEST_SILENCE // 2 else silent[0])

    def _speak(self) -> None:
        try:
            store = self.connect()
            while not self.ended.wait(BEAT):
                self.beat(store)
        except RuntimeError:  # the store is gone; look() will report it
            return

    def _watch(self) -> None:
        while not self.ended.wait(BEAT):
            self.look()
