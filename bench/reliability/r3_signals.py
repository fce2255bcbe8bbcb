"""R3: a run is asked to stop, by SIGTERM or Ctrl-C; does it stop soon, with everything saved and nothing left running?

`python -m bench.reliability.r3_signals`. The same run is begun, stopped and gone on with, each time by a signal to the
process alone or to its whole group, as a terminal and a batch system send it. weft makes its batches in the process
that trains, so there are no workers beside it.
"""

import contextlib
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from bench.reliability.place import LONGEST_RUN, broken_checkpoints, last_step, place, start, wait_for
from bench.reliability.record import options_of, record

NAME = "R3"
DOES = {
    "en": "SIGTERM and Ctrl-C, to the process and to its group",
    "zh": "SIGTERM 和 Ctrl-C，发给进程或整个进程组",
}
FOUND = {
    "en": "{stopped} of {signals} stopped at the end of a step with exit code 3, {most_steps} steps later at most, "
    "{slowest} s from signal to exit at most; {corrupt} corrupt checkpoints",
    "zh": "{signals} 次里有 {stopped} 次在一步结束时停下，退出码 3，最多又走了 {most_steps} 步，从信号到退出最长 "
    "{slowest} 秒；损坏的检查点 {corrupt} 个",
}

SETTINGS = ("training.epochs=5000", 'training.validate_every="500 epochs"')
"""A run that does not end by itself."""


def main() -> None:
    options = options_of(__doc__, rounds=(3, "how often each signal is sent"))
    with place() as folder:
        figures = stop_again_and_again(folder, options.rounds)
    passed = figures["stopped"] == figures["signals"] and not figures["corrupt"] and figures["most_steps"] <= 2
    record(options, NAME, figures, passed=passed)


def stop_again_and_again(folder: Path, rounds: int) -> dict[str, Any]:
    """Two signals, two ways to send them, so many times each."""
    figures = {"signals": 0, "stopped": 0, "most_steps": 0, "slowest": 0.0, "corrupt": 0}
    for _ in range(rounds):
        for number in (signal.SIGTERM, signal.SIGINT):
            for to_group in (False, True):
                stop_once(folder, number, to_group, figures)
    return figures


def stop_once(folder: Path, number: signal.Signals, to_group: bool, figures: dict[str, Any]) -> None:
    run = folder / "run"
    before = steps_logged(run)
    with start(folder, "run", *SETTINGS, start_new_session=True) as running:
        is_training = wait_for(lambda: steps_logged(run) > before, running, LONGEST_RUN)
        steps = steps_logged(run)
        began = time.monotonic()
        if to_group:
            os.killpg(running.pid, number)
        else:
            running.send_signal(number)
        try:
            _, said = running.communicate(timeout=LONGEST_RUN)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            raise SystemExit(f"{number.name} did not stop the run in {LONGEST_RUN:.0f} s") from None
    figures["slowest"] = max(figures["slowest"], round(time.monotonic() - began, 2))
    figures["signals"] += 1
    message = re.search(r"weft: stopped at step (\d+) and saved; the same command continues from here\n\Z", said)
    is_saved = message is not None and last_step(run) == int(message[1])
    figures["stopped"] += is_training and is_saved and running.returncode == 3 and not is_alive(running.pid)
    figures["most_steps"] = max(figures["most_steps"], last_step(run) - steps)
    figures["corrupt"] += len(broken_checkpoints(run))


def steps_logged(run: Path) -> int:
    """Steps that the run has taken: it logs each of them."""
    path = run / "metrics.jsonl"
    return path.read_bytes().count(b'"loss"') if path.exists() else 0


def is_alive(group: int) -> bool:
    """Whether any process of the group is left."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, 0)
        return True
    return False


if __name__ == "__main__":
    main()
