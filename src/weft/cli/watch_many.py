"""`weft watch` of several runs: those of a study, or all in a folder. A line for each."""

import shlex
import statistics
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from weft.cli.displays import STATES, ending, step_place
from weft.errors import RunError, counted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from weft.analysis.watching import RunWatch

IDLE = 15.0
"""Seconds without a trial in work after which the workers of a study count as gone."""


class Several:
    """Runs, the ones that train among them shown line by line."""

    def __init__(self) -> None:
        self.runs: list[RunWatch] = []
        self.said = ""

    def follow(self, folders: Iterable[Path]) -> bool:
        """Read the runs in these folders; returns whether anything has changed."""
        from weft.analysis.watching import RunWatch

        known = {run.folder: run for run in self.runs}
        runs = [known.get(folder) or RunWatch(folder, self.name_of(folder)) for folder in folders]
        changed = [run.read() for run in runs]
        changed.append({run.folder for run in runs} != known.keys())
        self.runs = runs
        return any(changed)

    def name_of(self, folder: Path) -> str:
        return folder.name

    def counts(self) -> str:
        raise NotImplementedError

    def picture(self, width: int, height: int, console: "Console") -> "list[Text]":
        from rich.text import Text

        lines = [Text(self.counts(), "bold")]
        lines += [Text(row_of(run), "bold red" if run.sickness() else "") for run in self.runs]
        for line in lines:
            line.truncate(width, overflow="ellipsis")
        return lines[:height]

    def tell(self) -> None:
        """Print how many runs are done, where that has changed."""
        counts = self.counts()
        said, self.said = self.said, counts.partition("  left")[0]
        if said != self.said:
            print(counts, flush=True)


def row_of(run: "RunWatch") -> str:
    """A run in one line."""
    parts = [run.name, *(run.sickness() or [run.state])]
    if run.last:
        parts += [step_place(run.last, run.total_steps), f"loss {run.last['loss']:.3f}"]
    metric = run.headline
    if metric is not None and metric.key in (newest := run.run.validations[-1]):
        parts.append(f"{metric.title} {newest[metric.key]:{metric.form}}")
    parts.append(ending(run.seconds_left) if run.state == "training" else "")
    return "  ".join(filter(None, parts))


class RunsOfFolder(Several):
    """All runs in a folder, those that changed last first."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def read(self) -> bool:
        found = {path.parent for name in ("run.json", "metrics.jsonl") for path in self.folder.glob(f"*/{name}")}
        changed = self.follow(sorted(found))
        self.runs.sort(key=lambda run: -run.heard_at)
        return changed

    def counts(self) -> str:
        states = Counter(run.state for run in self.runs)
        told = (f"{states[state]} {state}" for state in STATES if states[state])
        return f"{self.folder.resolve().name}  {counted(len(self.runs), 'run')}: {', '.join(told)}"

    def exit_code(self, until: str | None) -> int | None:
        states = {run.state for run in self.runs}
        if until == "sick" and any(run.sickness() for run in self.runs if run.state == "training"):
            return 1
        if states == {"finished"}:
            return 0
        return 3 if until is not None and not states & {"training", "preparing"} else None


class Study(Several):
    """A study: how many trials are done, the best cells so far, and the trials that train."""

    def __init__(self, folder: Path) -> None:
        from weft.runs.train import Silent
        from weft.tuning.opening import load
        from weft.tuning.study import BASE, FACTS, STUDY
        from weft.tuning.trial import read_sealed

        super().__init__()
        if any(read_sealed(folder / name) is None for name in (STUDY, BASE, FACTS)):  # watching writes nothing
            raise RunError(f"{folder} is damaged; weft tune {shlex.quote(str(folder))} restores it")
        self.study = load(folder, Silent())
        self.busy_at = time.monotonic()

    def name_of(self, folder: Path) -> str:
        return folder.parent.name

    def read(self) -> bool:
        from weft.files import is_locked

        before = len(self.study.results())
        trials = [trial for trial in self.study.trials() if self.study.result(trial) is None]
        changed = self.follow(trial.run for trial in trials if is_locked(trial.path / "lock"))
        if self.runs:
            self.busy_at = time.monotonic()
        return changed or len(self.study.results()) != before

    @property
    def left(self) -> int:
        """Trials without a result, those that are to be added among them."""
        from weft.tuning.wanted import trials_to_come

        return len(self.study.trials()) + trials_to_come(self.study) - len(self.study.results())

    def seconds_left(self) -> float | None:
        """By the mean time of a trial and the trials that train side by side."""
        taken = [result.seconds for result in self.study.results() if result.state == "done"]
        running = [run.seconds_left for run in self.runs]
        known = [seconds for seconds in running if seconds is not None]
        if not self.runs or not (taken or known):
            return None
        usual = statistics.fmean(
            taken or [run.last["seconds"] + (run.seconds_left or 0) for run in self.runs if run.last]
        )
        rest = sum(usual if seconds is None else seconds for seconds in running)
        return (rest + usual * (self.left - len(running))) / len(running)

    def counts(self) -> str:
        states = Counter(result.state for result in self.study.results())
        told = [f"{states['done']} done", *(f"{states[s]} {s}" for s in ("failed", "stopped") if states[s])]
        told += [f"{len(self.runs)} training", f"{self.left - len(self.runs)} to come"]
        name, total = self.study.folder.resolve().name, self.left + sum(states.values())
        return f"{name}  {total} trials: {', '.join(told)}  {ending(self.seconds_left())}".rstrip()

    def picture(self, width: int, height: int, console: "Console") -> "list[Text]":
        from rich.text import Text

        from weft.tuning.judging import ranked
        from weft.tuning.results import said

        study, lines = self.study, super().picture(width, height, console)
        for cell in ranked(study)[: max(0, height - len(lines) - 1)]:
            if values := study.values(cell):
                if len(lines) == len(self.runs) + 1:
                    lines.append(Text(f"{study.metric.title} so far, the best first", "bold"))
                mean, seeds = statistics.fmean(values.values()), counted(len(values), "seed")
                line = Text(f"{mean:{study.metric.form}}  {seeds}  {said({**cell.names, **cell.nuisance})}")
                line.truncate(width, overflow="ellipsis")
                lines.append(line)
        return lines

    def exit_code(self, until: str | None) -> int | None:
        failed = any(result.state == "failed" for result in self.study.results())
        if until == "sick" and (failed or any(run.sickness() for run in self.runs)):
            return 1
        if not self.left:
            return 0
        return 3 if until is not None and time.monotonic() - self.busy_at > IDLE else None
