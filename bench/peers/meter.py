"""Target tokens a second of a training loop that belongs to somebody else, counted from outside it.

It runs inside each system's own environment, so it imports the standard library alone, and torch is only used where
the system has loaded it already. What a token is, the driver beside it says: those the loss is taken over, </s>
counted, padding not.
"""

import fcntl
import json
import os
import sys
import time
from pathlib import Path


class Meter:
    """Lets the loop warm up, counts for a while, writes what it counted, and ends the process.

    The driver calls `step_begins` at the beginning of every step. A step counts when the next one begins, so all that
    a system does between two steps (collating, optimizer, logging) is in its time. Where several processes name the
    same file in METER_TURN, one at a time counts, and those that have warmed up wait for their turn.
    """

    def __init__(self, *, warmup: float, seconds: float, output: Path, system: dict[str, str]) -> None:
        self.warmup, self.seconds, self.output, self.system = warmup, seconds, output, system
        self.first: float | None = None
        self.window: CpuWatch | None = None
        self.turn: int | None = None
        self.steps = self.target_tokens = self.tokens_of_last_step = 0

    def step_begins(self, target_tokens: int) -> None:
        now = time.perf_counter()
        if self.first is None:
            self.first = now
        if self.window is not None:
            self.steps += 1
            self.target_tokens += self.tokens_of_last_step
            if now - self.window.began >= self.seconds:
                self.finish(self.window)
        elif now - self.first >= self.warmup:
            wait_for_device()
            self.take_turn()
            self.window = CpuWatch()
        self.tokens_of_last_step = target_tokens

    def take_turn(self) -> None:
        """Wait until nobody else counts; the turn is over with the process."""
        if file := os.environ.get("METER_TURN"):
            self.turn = os.open(file, os.O_WRONLY | os.O_CREAT)
            fcntl.flock(self.turn, fcntl.LOCK_EX)

    def finish(self, window: "CpuWatch") -> None:
        wait_for_device()
        torch = sys.modules["torch"]
        figures = {
            **self.system,
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "target_tokens": self.target_tokens,
            "steps": self.steps,
            "seconds": round(window.seconds(), 3),
            "target_tokens_per_second": round(self.target_tokens / window.seconds(), 1),
            "others_cpu": window.others(),
        }
        self.output.write_text(json.dumps(figures), encoding="utf-8")
        os._exit(0)  # the system would go on for hours, or begin to save and to validate


class CpuWatch:
    """Time since it was made, and how busy other programs kept the processor meanwhile."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self._own, self._all = time.process_time(), busy_cpu_seconds()

    def seconds(self) -> float:
        return time.perf_counter() - self.began

    def others(self) -> float | None:
        """Their share of all cores, 0 to 1, what a hypervisor took away included; None where nothing tells it."""
        if self._all is None:
            return None
        own = time.process_time() - self._own
        busy = (busy_cpu_seconds() or 0.0) - self._all
        return round(max(0.0, busy - own) / (self.seconds() * (os.cpu_count() or 1)), 4)


def busy_cpu_seconds() -> float | None:
    """What all cores together have worked since the machine started; None on systems other than Linux."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            user, nice, system, _idle, _waiting, hard, soft, stolen = map(int, file.readline().split()[1:9])
    except OSError:
        return None
    return (user + nice + system + hard + soft + stolen) / os.sysconf("SC_CLK_TCK")


def wait_for_device() -> None:
    """A GPU works behind the program's back; wait until it has done what it was asked."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.synchronize()
