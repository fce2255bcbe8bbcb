"""R11: does a run that goes on for long take more and more memory, or leave files open?

`python -m bench.reliability.r11_soak --minutes 10`. `weft train` runs with validations and checkpoints all the time.
Its resident memory and its open files are looked at twice a second. The first fifth of the time is warm-up; the median
memory of the last tenth is compared with that of the tenth after the warm-up. SIGTERM ends it.
"""

import signal
import statistics
import time
from pathlib import Path
from typing import Any

from bench.reliability.place import last_step, open_files, place, resident_bytes, start, wait_for
from bench.reliability.record import options_of, record

NAME = "R11"
DOES = {
    "en": "{minutes} minutes of training, with {steps} steps, {validations} validations and {checkpoints} checkpoints",
    "zh": "训练 {minutes} 分钟：{steps} 步、{validations} 次验证、{checkpoints} 个检查点",
}
FOUND = {
    "en": "memory grew by {growth_percent} % (from {from_mib} to {to_mib} MiB); open files: {least_files} to "
    "{most_files}",
    "zh": "内存增长 {growth_percent} %（从 {from_mib} 到 {to_mib} MiB）；打开的文件 {least_files} 到 {most_files} 个",
}

MOST_GROWTH = 1.0
"""Percent."""
EVERY = 0.5
"""Seconds between two looks."""
SETTINGS = ("training.epochs=100000", 'training.validate_every="200 steps"', 'training.checkpoint_every="40 steps"')


def main() -> None:
    options = options_of(__doc__, minutes=(10.0, "how long"))
    with place(pairs=4000) as folder:
        figures = soak(folder, 60 * options.minutes)
    is_steady = figures["growth_percent"] < MOST_GROWTH and figures["most_files"] == figures["least_files"]
    passed = is_steady and figures["exit_code"] == 3
    record(options, NAME, {"minutes": options.minutes, **figures}, passed=passed)


def soak(folder: Path, seconds: float) -> dict[str, Any]:
    """Watch a run for so long after its first checkpoint."""
    memory: list[int] = []
    files: list[int] = []
    with start(folder, "run", *SETTINGS) as running:
        wait_for(lambda: last_step(folder / "run") > 0, running)
        end = time.monotonic() + seconds
        while time.monotonic() < end and running.poll() is None:
            memory.append(resident_bytes(running.pid))
            files.append(settled_files(running.pid))
            time.sleep(EVERY)
        running.send_signal(signal.SIGTERM)
        _, said = running.communicate()
    if running.returncode != 3:
        raise SystemExit(f"the run ended with {running.returncode}: {said}")
    tenth, warm = max(1, len(memory) // 10), len(memory) // 5
    early, late = statistics.median(memory[warm : warm + tenth]), statistics.median(memory[-tenth:])
    steps = last_step(folder / "run")
    return {
        "steps": steps,
        "validations": steps // 200,
        "checkpoints": steps // 40,
        "growth_percent": round(100 * (late / early - 1), 2),
        "from_mib": round(early / 2**20, 1),
        "to_mib": round(late / 2**20, 1),
        "least_files": min(files[warm:]),
        "most_files": max(files[warm:]),
        "exit_code": running.returncode,
    }


def settled_files(pid: int) -> int:
    """Open files but for those of a moment, when a log or a checkpoint is written: the fewest of three looks."""
    looks = []
    for _ in range(3):
        looks.append(open_files(pid))
        time.sleep(0.05)
    return min(looks)


if __name__ == "__main__":
    main()
