"""A process that is halted closes no connection; the others notice by its heartbeat.

The second half runs this file as a program, twice at once: `main` is a process that waits for the first one's work.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable

from torch.distributed import HashStore, TCPStore  # pyright: ignore[reportPrivateImportUsage]

from weft.training import heartbeat
from weft.training.distributed import joined
from weft.training.heartbeat import LONGEST_SILENCE, Heartbeat


class Two:
    """Two processes' heartbeats at one store, which beat and look when a test says so."""

    def __init__(self) -> None:
        store = HashStore()
        self.said: list[tuple[int, int | None]] = []
        self.hearts = [Heartbeat(rank, 2, lambda: store, self.noting(rank)) for rank in (0, 1)]
        self.store = store

    def noting(self, rank: int) -> Callable[[int | None], None]:
        return lambda lost: self.said.append((rank, lost))

    def pass_by(self, beats: int, *, beating: tuple[int, ...], looking: tuple[int, ...] = (0, 1)) -> None:
        for _ in range(beats):
            for rank in beating:
                self.hearts[rank].beat(self.store)
            for rank in looking:
                self.hearts[rank].look()


def test_a_process_that_is_silent_for_long_is_named_to_the_others() -> None:
    two = Two()
    two.pass_by(100, beating=(0, 1))
    assert two.said == []
    two.pass_by(LONGEST_SILENCE, beating=(0,), looking=(0,))
    assert two.said == []
    two.pass_by(1, beating=(0,), looking=(0,))
    assert two.said == [(0, 1)]


def test_where_nobody_is_heard_it_is_the_store_that_does_not_answer() -> None:
    two = Two()
    two.pass_by(3, beating=(0, 1))
    two.pass_by(LONGEST_SILENCE, beating=(), looking=(1,))
    assert two.said == [(1, None)]


def test_the_store_does_not_answer_even_if_the_other_process_was_late_when_it_stopped() -> None:
    two = Two()
    two.pass_by(3, beating=(0, 1))
    two.pass_by(2, beating=(1,), looking=(1,))  # on a loaded machine one process beats twice between the other's beats
    two.pass_by(LONGEST_SILENCE - 2, beating=(), looking=(1,))
    assert two.said == [(1, None)]


def test_a_process_that_was_halted_itself_takes_nobody_for_dead() -> None:
    two = Two()
    two.pass_by(3, beating=(0, 1))
    two.pass_by(5 * LONGEST_SILENCE, beating=(1,), looking=())  # the first one is halted: it neither beats nor looks
    two.pass_by(3, beating=(0, 1), looking=(0,))
    assert two.said == []


def test_a_process_that_waits_for_a_halted_one_ends_with_one_message() -> None:
    """Once the store is torchrun's, and once that of the halted process; both at the same time."""
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        own = free.getsockname()[1]
    worlds = {"process 0 has not responded": (store.port, True), "the store has not answered": (own, False)}
    started = {what: [start(rank, *world) for rank in (0, 1)] for what, world in worlds.items()}
    try:
        said = {what: other.communicate(timeout=100)[1] for what, (_, other) in started.items()}
    finally:
        for process in (process for both in started.values() for process in both):
            process.kill()
            process.communicate()
    for what, (_, other) in started.items():
        assert other.returncode == 1
        assert said[what].count("weft: ") == 1
        assert "weft: process 1 of 2 (counted from 0) has lost touch with another one" in said[what]
        assert f"({what} for" in said[what]


def start(rank: int, port: int, is_torchruns: bool) -> subprocess.Popen[str]:
    """One of two processes that run this file."""
    world = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": str(rank)}
    world |= {"LOCAL_RANK": str(rank), "TORCHELASTIC_USE_AGENT_STORE": str(is_torchruns), "CUDA_VISIBLE_DEVICES": ""}
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, __file__], env={**os.environ, **world}, stdout=pipe, stderr=pipe, text=True
    )


def main() -> None:
    heartbeat.BEAT = 0.4  # 7 seconds of silence: longer than a loaded machine stalls

    with joined() as ranks:

        def work() -> None:
            assert ranks.heartbeat is not None
            while min(ranks.heartbeat.counts) < 5:  # both beat, and hear each other
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGSTOP)

        ranks.from_first(work)


if __name__ == "__main__":
    main()
