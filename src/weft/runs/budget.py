"""`--budget 30m`: as many steps as fit between a run's start and its exit, chosen once and written into its recipe.

Parses and formats times, turns a trial (trial.py) into a number of steps, and records the time that a run took.
"""

import json
import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from weft.config import Resolved, changed
from weft.errors import RunError, UsageError
from weft.files import write_atomically
from weft.runs.trial import AnyTrainer, Trial, fit_steps, run_seconds
from weft.training.config import MOST_EPOCHS, Interval
from weft.training.run_folder import RunFolder

FITTED = frozenset({"training.epochs", "training.steps"})
"""Keys that a budget decides."""

DURATION = re.compile(r"(?:(\d{1,9}(?:\.\d+)?)h)?(?:(\d{1,9}(?:\.\d+)?)m)?(?:(\d{1,9}(?:\.\d+)?)s)?")

LONGEST_TRIAL = 20.0
"""Seconds of the trial, ..."""
TRIAL_SHARE = 0.03
"""... and the share of the budget that it may take."""

SAFETY = 0.04
"""Share of the time left after the trial that is kept free.

The mean of a trial of some twenty steps is off by about 2 %, and the steps of two runs of one recipe on one machine
differ by as much.
"""

BESIDE, OF_ALL = 0.25, 0.02
"""Shares of the interval between validations, and of all steps, within which the last step brings no validation of its
own."""

LEAVING = 2.0
"""Seconds kept for what no trial measures: writing the finished model and the report, starting and ending Python."""


@dataclass(frozen=True)
class Budget:
    """Wall time from `began`, a reading of time.monotonic(), to the exit of the program."""

    seconds: float
    began: float = field(default_factory=time.monotonic)

    @classmethod
    def parse(cls, text: str, began: float | None = None) -> "Budget":
        """Parse a time such as "45s", "30m", "1.5h" or "1h30m". Raises UsageError for any other text."""
        match = DURATION.fullmatch(text)
        parts = match.groups() if match else ()
        seconds = sum(float(part or 0) * unit for part, unit in zip(parts, (3600, 60, 1), strict=False))
        if seconds == 0:
            raise UsageError(f'--budget {text}: expected a time such as "30m", "1h30m" or "45s"')
        return cls(seconds, time.monotonic() if began is None else began)

    @property
    def trial_seconds(self) -> float:
        return min(LONGEST_TRIAL, TRIAL_SHARE * self.seconds)

    def spent(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self.began


def duration(seconds: float) -> str:
    """4865 -> 1h21m05s, 65 -> 1m05s, 1800 -> 30m, 5 -> 5s."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if not hours and not minutes:
        return f"{seconds}s"
    whole = f"{hours}h{minutes:02}m" if hours else f"{minutes}m"
    return f"{whole}{seconds:02}s" if seconds else whole


def refuse_two_lengths(resolved: Resolved[Any]) -> None:
    """Raise UsageError if the recipe gives training.steps next to a budget. (Its epochs are overridden.)"""
    if resolved.recipe.training.steps is not None:
        raise UsageError("--budget and training.steps both say how many steps a run takes; leave one of them out")


def same_budget(begun_with: Mapping[str, float] | None, now: Budget | None, run: RunFolder) -> Budget | None:
    """The budget of a resumed run, less the time that earlier sittings took; None if it has none.

    Raises RunError if it is not the budget that the run was begun with, because its steps were chosen then.
    """
    was, given = (None if begun_with is None else begun_with["seconds"]), (None if now is None else now.seconds)
    if was != given:
        texts = ("no --budget" if seconds is None else f"--budget {duration(seconds)}" for seconds in (was, given))
        raise RunError(
            f"{run.path} was started with {next(texts)} and cannot continue with {next(texts)}: its steps are chosen; "
            f"repeat the old command, or {run.advise_new_run()}"
        )
    if begun_with is None or now is None:
        return None
    return replace(now, began=now.began - begun_with["before_training"])


@dataclass(frozen=True)
class Fit:
    """The length of training that fits into the rest of a budget."""

    steps: int
    """As many as there is time for; 0 if not even one fits."""
    resolved: Resolved[Any]
    """The model's recipe with these steps and their epochs; unchanged if no step fits."""
    epochs: float
    lack: str
    """The reason why no step fits; empty if some do."""


def fit_to(resolved: Resolved[Any], trial: Trial, trainer: AnyTrainer, seconds: float) -> Fit:
    """Choose the steps that fit into the remaining seconds of a budget; `trainer` is that of the trial."""
    intervals = trainer.validation_interval, trainer.checkpoint_interval
    most = MOST_EPOCHS * trainer.steps_per_epoch
    steps = fit_steps((1 - SAFETY) * (seconds - LEAVING), trial.pace, *intervals, most=most)
    steps -= steps_beside(steps, intervals[0])
    if steps == 0:
        least = sum(run_seconds(1, trial.pace, *intervals).values()) / (1 - SAFETY) + LEAVING
        lack = (
            f"the budget leaves {duration(max(0, seconds))} for training, and one step with its validation, its "
            f"checkpoint and the last scores takes {duration(math.ceil(least))} here; give more time, or fewer "
            "held-out data"
        )
        return Fit(0, resolved, 0.0, lack)
    epochs = steps / trainer.steps_per_epoch
    settings = {"training.steps": steps, "training.epochs": math.ceil(epochs)}
    return Fit(steps, changed(resolved, settings, "measured"), epochs, "")


def steps_beside(steps: int, validate: Interval) -> int:
    """The steps after the last regular validation, if they are so few that another one after them says nothing new."""
    after = 0 if validate.seconds is not None or steps < validate.steps else steps % validate.steps
    return after if after < min(BESIDE * validate.steps, OF_ALL * steps) else 0


def few_epochs(given: Resolved[Any], fit: Fit, trial: Trial, trainer: AnyTrainer, budget: Budget) -> str:
    """A message for a budget that buys less than half of the epochs that a recipe asks for; empty if it buys more."""
    wanted = given.recipe.training.epochs if given.origins["training.epochs"] != "default" else None
    if wanted is None or fit.epochs >= wanted / 2:
        return ""
    intervals = trainer.validation_interval, trainer.checkpoint_interval
    whole = sum(run_seconds(wanted * trainer.steps_per_epoch, trial.pace, *intervals).values())
    return (
        f"{duration(budget.seconds)} buy {fit.epochs:.2g} of the {wanted} epochs of this recipe, which would take "
        f"{duration(whole / (1 - SAFETY) + budget.spent())}; for a model that learns more in this time, make the "
        "sizes in [model] smaller"
    )


def note_budget(trainer: AnyTrainer, budget: Budget | None) -> None:
    """Store the budget, and the part spent before the trainer's clock began, in every later checkpoint."""
    if budget is not None:
        trainer.identity["budget"] = {"seconds": budget.seconds, "before_training": budget.spent()}


def record_outcome(trainer: AnyTrainer) -> None:
    """Write to metrics.jsonl the time that a run has used of its budget over all its sittings.

    Replaces the line of a sitting that was killed after writing it and before the run was finished.
    """
    budget = trainer.identity.get("budget")
    if budget is not None:
        trainer.tick()
        used = budget["before_training"] + trainer.progress.seconds
        path = trainer.run.path / "metrics.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        earlier = [line for line in lines if "budget_seconds" in json.loads(line)]
        if earlier:
            used = max(used, *(json.loads(line)["used_seconds"] for line in earlier))
            write_atomically(path, "".join(line for line in lines if line not in earlier))
        row = {"step": trainer.progress.step, "budget_seconds": budget["seconds"], "used_seconds": round(used, 3)}
        trainer.run.append("metrics.jsonl", row)


def describe_outcome(run: Path, *, since: float) -> str:
    """Describe the time used by a run that finished `since` seconds ago, as "budget 30m, used 29m12s"."""
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    recorded = next(row for line in reversed(lines) if "budget_seconds" in (row := json.loads(line)))
    budget, used = recorded["budget_seconds"], recorded["used_seconds"] + since
    over = f", {duration(used - budget)} too long" if used > budget else ""
    return f"budget {duration(budget)}, used {duration(used)}{over}"
