"""R9: one of two processes dies, or no longer answers; how long do the others last?

`python -m bench.reliability.r9_lost_process`. torchrun starts two processes; when they train, the first or the second
is killed (SIGKILL), or halted (SIGSTOP), as where a machine is lost: no connection closes then, and the other one has
to notice by its clock. Once the first is halted before they train, while the other one waits for what it reads. Each
time the other must end within 60 seconds with one message, torchrun must end, and the same command must go on.
"""

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from bench.reliability.place import LONGEST_RUN, broken_checkpoints, last_step, place, wait_for
from bench.reliability.record import options_of, record
from bench.reliability.several import ranks_of, start_together

NAME = "R9"
DOES = {
    "en": "one of 2 processes is killed or halted (torchrun, gloo)",
    "zh": "两个进程（torchrun、gloo）中的一个被杀掉或挂起",
}
FOUND = {
    "en": "the other one ended with one message, {killed_after} s after a kill and {halted_after} s after a halt at "
    "most; {corrupt} corrupt checkpoints; {gone_on} of {rounds} gone on with",
    "zh": "另一个进程最迟在对方被杀 {killed_after} 秒、被挂起 {halted_after} 秒后结束，只有一条报错；"
    "损坏的检查点 {corrupt} 个；{rounds} 次里有 {gone_on} 次接着跑了下去",
}

MOST_SECONDS = 60.0

SETTINGS = ("training.epochs=5000", 'training.validate_every="500 epochs"', "training.threads=1")
"""A run that does not end by itself."""


def main() -> None:
    options = options_of(__doc__)
    with place() as folder:
        figures = lose_again_and_again(folder)
    passed = (
        max(figures["killed_after"], figures["halted_after"]) <= MOST_SECONDS
        and not figures["corrupt"]
        and figures["gone_on"] == figures["rounds"]
    )
    record(options, NAME, figures, passed=passed)


def lose_again_and_again(folder: Path) -> dict[str, Any]:
    """Lose each process once by a kill and once by a halt, and the first one by a halt before a run has a step."""
    figures: dict[str, Any] = {"rounds": 0, "killed_after": 0.0, "halted_after": 0.0, "corrupt": 0, "gone_on": 0}
    for name, lost, number in (
        ("run", 0, signal.SIGKILL),
        ("run", 1, signal.SIGKILL),
        ("run", 0, signal.SIGSTOP),
        ("run", 1, signal.SIGSTOP),
        ("not-begun", 0, signal.SIGSTOP),
    ):
        key = "killed_after" if number == signal.SIGKILL else "halted_after"
        figures["rounds"] += 1
        figures[key] = max(figures[key], round(lose(folder / name, lost, number), 1))
        figures["corrupt"] += len(broken_checkpoints(folder / name))
        figures["gone_on"] += goes_on(folder / name)
    return figures


def lose(run: Path, lost: int, number: signal.Signals) -> float:
    """Begin or go on, send a process this signal, and return how many seconds later the other one has ended."""
    before = last_step(run)

    def is_under_way() -> bool:
        if run.name == "not-begun":
            return (run / "lock").exists()  # the first process reads the corpus next
        return last_step(run) > max(before, 0)

    with start_together(run.parent, run.name, *SETTINGS) as running:
        if not wait_for(is_under_way, running, LONGEST_RUN):
            raise SystemExit("the run did not begin")
        processes = ranks_of(running)
        os.kill(processes[lost], number)
        began = time.monotonic()
        while is_alive(processes[1 - lost]) and time.monotonic() < began + 2 * MOST_SECONDS:
            time.sleep(0.05)
        seconds = time.monotonic() - began
        if number == signal.SIGSTOP:
            os.kill(processes[lost], signal.SIGKILL)  # torchrun would wait half a minute for it
        _, said = running.communicate(timeout=LONGEST_RUN)
    if said.count("weft: ") != 1 or f"process {1 - lost} of 2 (counted from 0) has lost touch" not in said:
        raise SystemExit(f"the other process did not say what has happened: {said}")
    return seconds


def is_alive(pid: int) -> bool:
    """Whether a process still runs; one that has ended stays a zombie until its parent looks."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(") ")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def goes_on(run: Path) -> bool:
    """Whether the same command takes more steps, and stops in peace."""
    before = last_step(run)
    with start_together(run.parent, run.name, *SETTINGS) as running:
        went_on = wait_for(lambda: last_step(run) > before, running, LONGEST_RUN)
        running.terminate()
        try:
            running.communicate(timeout=LONGEST_RUN)
        except subprocess.TimeoutExpired:
            running.kill()
            return False
    return went_on


if __name__ == "__main__":
    main()
