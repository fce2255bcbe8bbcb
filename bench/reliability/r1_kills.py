"""R1: a run is killed again and again at random moments; does it ever lose what it had?

`python -m bench.reliability.r1_kills`. One run is left alone. Others are begun, killed with SIGKILL at a random moment
of that run's length, rerun and killed again until one comes to its end; then the next is begun, until all kills are
spent. After each kill every checkpoint that can be seen must have the digests that it was written with; every run must
come to its end, and be the first one then, bit for bit.
"""

import random
import signal
from pathlib import Path
from typing import Any

from bench.reliability.place import (
    LONGEST_RUN,
    broken_checkpoints,
    differences,
    finish,
    orphans,
    place,
    seconds_of,
    seconds_of_children,
    start,
    wait_for,
)
from bench.reliability.record import options_of, record

NAME = "R1"
DOES = {
    "en": "`kill -9` at random moments of runs that save every 3 steps; then each is rerun to its end",
    "zh": "每 3 步保存一次的运行，在随机时刻 `kill -9`，再把每个运行跑完",
}
FOUND = {
    "en": "{kills} kills in {runs} runs: {corrupt} corrupt checkpoints, {stuck} stuck, {swept} torn folders swept up, "
    "{different} runs that end otherwise than one left alone",
    "zh": "{runs} 个运行里杀了 {kills} 次：损坏的检查点 {corrupt} 个，卡住 {stuck} 次，清理残留目录 {swept} 个，"
    "结果与不受打扰的运行不同的 {different} 个",
}


def main() -> None:
    options = options_of(__doc__, kills=(50, "how many"), seed=(20, "of the moments"))
    with place() as folder:
        figures = kill_runs(folder, options.kills, options.seed)
    passed = not (figures["corrupt"] or figures["stuck"] or figures["different"] or figures["left"])
    record(options, NAME, figures, passed=passed)


def kill_runs(folder: Path, kills: int, seed: int) -> dict[str, Any]:
    """Spend the kills on as many runs as it takes, and tell what came of it."""
    before = seconds_of_children()
    finish(folder, "whole")
    duration = seconds_of_children() - before
    moments = random.Random(seed)
    figures: dict[str, Any] = dict.fromkeys(("kills", "runs", "corrupt", "stuck", "swept", "different", "left"), 0)
    while figures["kills"] < kills:
        figures["runs"] += 1
        run = f"killed-{figures['runs']}"
        kill_again_and_again(folder, run, moments, duration, kills, figures)
        finish(folder, run)
        figures["different"] += bool(differences(folder / run, folder / "whole"))
        figures["left"] += len(orphans(folder / run))
    return figures


def kill_again_and_again(
    folder: Path, run: str, moments: random.Random, duration: float, most: int, figures: dict[str, Any]
) -> None:
    """Begin or go on with a run and kill it at a random moment of its whole length, until it once comes to its end."""
    while figures["kills"] < most:
        code = run_until(folder, run, moments.uniform(0.05, 1.0) * duration)
        figures["corrupt"] += len(broken_checkpoints(folder / run))
        if code != -signal.SIGKILL:
            figures["stuck"] += code != 0
            return
        figures["kills"] += 1
        figures["swept"] += len(orphans(folder / run))


def run_until(folder: Path, run: str, moment: float) -> int:
    """Begin or go on with a run, kill it when it has used so many seconds of the processors, and return its exit code.

    What else the machine does changes the seconds of a wall clock, but not these.
    """
    with start(folder, run) as running:
        wait_for(lambda: seconds_of(running.pid) >= moment, running, LONGEST_RUN)
        running.kill()
        running.communicate(timeout=LONGEST_RUN)
    return running.returncode


if __name__ == "__main__":
    main()
