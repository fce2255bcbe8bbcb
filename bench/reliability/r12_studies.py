"""R12: the workers of a study are killed at random moments; is every trial done once, as if nobody had been killed?

`python -m bench.reliability.r12_studies`. A study of short trials is done by one worker that is left alone. Then
several workers do it again, and are killed with SIGKILL at random moments and replaced. Every point must have one
result, and every trial the weights of the first study, bit for bit. After that, several processes open a new study in
the same moment, again and again: it must be made once, without an error.

Workers are forked from a process that has imported everything and computed nothing, so that their start takes no time.
"""

import gc
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.reliability.place import place
from bench.reliability.record import options_of, record

from weft.tuning.cells import identity
from weft.tuning.opening import open_study
from weft.tuning.study import Study
from weft.tuning.working import work

NAME = "R12"
DOES = {
    "en": "`kill -9` of the workers of a study at random moments; several processes that begin one study at once",
    "zh": "在随机时刻 `kill -9` 一个研究的工作进程；多个进程在同一时刻开始同一个新研究",
}
FOUND = {
    "en": "{kills} kills of {workers} workers on {trials} trials: {results} results for {distinct} distinct points, "
    "{different} trials whose weights are not those of a study left alone; {beginnings} beginnings by {workers} "
    "processes at once: {errors} errors, {studies} studies",
    "zh": "{workers} 个工作进程做 {trials} 个试验，杀了 {kills} 次：{distinct} 个不同的点有 {results} 个结果，"
    "权重与不受打扰的研究不同的试验 {different} 个；{workers} 个进程同时开始 {beginnings} 次：错误 {errors} 次，"
    "研究 {studies} 个",
}
STUDY = """\
base = "tiny.toml"
metric = "loss"
seeds = {seeds}
budget = {{ steps = {steps} }}
validations = 1
[space]
training.learning_rate = [1e-3, 2e-3, 5e-3]
training.label_smoothing = [0.0, 0.1]
"""
SHORT_ANSWERS = """\
[decoding]
max_length_ratio = 1.0  # so little trained, it would write until it is stopped
max_length_extra = 2
"""
POINTS = 6
LONGEST = 600.0
"""Seconds after which a study counts as stuck."""


def main() -> None:
    options = options_of(
        __doc__,
        kills=(10, "how many"),
        trials=(24, f"a multiple of {POINTS}"),
        workers=(4, "at a time"),
        beginnings=(20, "of new studies"),
        steps=(40, "of a trial"),
        seed=(20, "of the moments"),
    )
    import torch._dynamo  # noqa: F401  # which the first step of an optimizer would import

    gc.freeze()
    with place() as folder:
        recipe = (folder / "tiny.toml").read_text(encoding="utf-8").replace("epochs = 4", "threads = 1")
        (folder / "tiny.toml").write_text(recipe + SHORT_ANSWERS, encoding="utf-8")
        figures = kill_workers(folder, options)
        figures |= begin_at_once(folder, options.beginnings, options.workers)
    passed = figures["results"] == figures["distinct"] == figures["trials"] and not figures["different"]
    passed = passed and not figures["errors"] and figures["studies"] == figures["beginnings"]
    record(options, NAME, figures, passed=passed)


def kill_workers(folder: Path, options: Any) -> dict[str, Any]:
    """Do the study twice, the second time under fire, and compare."""
    seeds = [*range(1, options.trials // POINTS + 1)]
    (folder / "study.toml").write_text(STUDY.format(seeds=seeds, steps=options.steps), encoding="utf-8")

    def do(name: str) -> None:
        work(open_study(folder / "study.toml", folder=folder / name))

    began = time.monotonic()
    wait_for(fork(lambda: do("alone")))
    duration = (time.monotonic() - began) / min(options.workers, len(os.sched_getaffinity(0)))
    moments, kills = random.Random(options.seed), 0
    running = [fork(lambda: do("killed")) for _ in range(options.workers)]
    while kills < options.kills:
        time.sleep(moments.uniform(0.0, 1.6 * duration / options.kills))
        victim = running.pop(moments.randrange(len(running)))
        os.kill(victim, signal.SIGKILL)
        kills += was_killed(victim)
        running.append(fork(lambda: do("killed")))
    for process in running:
        wait_for(process)
    alone, killed = open_study(folder / "alone"), open_study(folder / "killed")
    results = [result for result in killed.results() if result.state == "done"]
    return {
        "kills": kills,
        "workers": options.workers,
        "trials": options.trials,
        "results": len(results),
        "distinct": len({(identity(result.settings), result.seed) for result in results}),
        "different": len(differing(alone, killed)),
    }


def differing(alone: Study, other: Study) -> list[int]:
    """The trials whose weights differ between two studies."""
    pairs = zip(alone.trials(), other.trials(), strict=True)
    name = "run/model.safetensors"
    return [one.number for one, two in pairs if (one.path / name).read_bytes() != (two.path / name).read_bytes()]


def begin_at_once(folder: Path, beginnings: int, processes: int) -> dict[str, Any]:
    """Let processes open a new study in the same moment, so many times."""
    errors = studies = 0
    for number in range(beginnings):
        new, moment = folder / f"new-{number}", time.monotonic() + 0.2

        def begin(new: Path = new, moment: float = moment) -> None:
            time.sleep(max(0.0, moment - time.monotonic()))
            open_study(folder / "study.toml", folder=new)

        codes = [os.waitpid(process, 0)[1] for process in [fork(begin) for _ in range(processes)]]
        errors += sum(code != 0 for code in codes)
        points = [(identity(spec.settings), spec.seed) for t in open_study(new).trials() if (spec := t.spec())]
        studies += len(points) == len(set(points)) == len(open_study(folder / "alone").trials())
    return {"beginnings": beginnings, "errors": errors, "studies": studies}


def fork(do: Callable[[], None]) -> int:
    """Run a function in a child process; returns its number."""
    sys.stdout.flush()
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        do()
        code = 0
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    finally:
        os._exit(code)


def wait_for(process: int) -> None:
    """Wait for a child; raises SystemExit if it failed or is stuck."""
    deadline = time.monotonic() + LONGEST
    while time.monotonic() < deadline:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            if status:
                raise SystemExit(f"a worker ended with {os.waitstatus_to_exitcode(status)}")
            return
        time.sleep(0.02)
    os.kill(process, signal.SIGKILL)
    raise SystemExit(f"a worker was stuck for {LONGEST:.0f} s")


def was_killed(process: int) -> bool:
    """Wait for a child; returns whether a signal ended it, and not its own end before."""
    return os.WIFSIGNALED(os.waitpid(process, 0)[1])


if __name__ == "__main__":
    main()
