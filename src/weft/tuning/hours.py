"""How long a study will take, from short trials of its speed."""

import math
import time
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory
from typing import Any

import torch

from weft.config import changed
from weft.errors import RecipeError, counted
from weft.figures.table import wrapped
from weft.preparing.first_model import first_model
from weft.runs.budget import duration
from weft.runs.making import trainer_for_a_trial
from weft.runs.train import Silent, as_if_alone
from weft.runs.trial import batches_of, extrapolated, run_seconds, try_out
from weft.runtime import usable_cores
from weft.tasks import TASKS
from weft.training.task import Listener
from weft.tuning.cells import identity
from weft.tuning.lengths import OF_BATCHES
from weft.tuning.study import Study, holding_lock
from weft.tuning.trial import Spec, Trial, first_lines
from weft.tuning.wanted import trials_to_come
from weft.tuning.working import recipe_for

OF_SPEED = ("model.", *OF_BATCHES)
OTHERS_OF_SPEED = ("training.optimizer", "training.precision", "training.r_drop", "training.ema_decay")
"""Keys on which the speed of a step depends."""
TRIAL_SECONDS = 15.0
"""Length of the trial of each shape..."""
DECODING_SECONDS = 2.0
"""... and of each decoding."""


@dataclass(frozen=True)
class Cost:
    """Seconds that one trial of a shape takes."""

    training: float
    """All steps, with validations and checkpoints."""
    measuring: float
    """Everything after the last step."""


@dataclass(frozen=True)
class Hours:
    """What is left of a study, in seconds of work."""

    done: int
    trials: int
    """Trials of the search and of the confirmation, with those that are still to be added."""
    target_tokens: int
    """To be seen in the trials that are left."""
    shapes: int
    training: float
    measuring: float
    workers: int
    """That compute side by side: no more than the cores can hold."""

    @property
    def seconds(self) -> float:
        """Until the last trial is done: a worker takes whole trials, so 3 trials take 2 workers as long as 4."""
        left = self.trials - self.done
        return (self.training + self.measuring) / max(1, left) * math.ceil(left / self.workers)

    def text(self) -> str:
        beside = f" with {self.workers} workers" if self.workers > 1 else ""
        lines = [
            f"trials       {self.trials:,}, of which {self.done:,} are done",
            f"tokens       {self.target_tokens:,} target tokens are left",
            f"training     {duration(self.training)} of one worker, by trials of {counted(self.shapes, 'shape')}",
            f"measuring    {duration(self.measuring)} of one worker",
            f"time         {duration(self.seconds)}{beside}, if nothing else takes the cores",
        ]
        return "\n".join(wrapped(line, hang=13) for line in lines)


def plan_study(study: Study, workers: int, listener: Listener) -> Hours:
    """Estimate the time that is left, by training each shape for some seconds. The trials that the study's file wants
    are added to it; nothing is trained in them."""
    with holding_lock(study.folder):
        study.extend()
    costs: dict[str, Cost] = {}
    training, measuring, tokens = 0.0, 0.0, 0
    share = promoted_share(study)
    left = [(trial, spec) for trial in study.trials() if (spec := trial.spec()) and study.result(trial) is None]
    for trial, spec in left:
        shape = identity({key: value for key, value in spec.settings.items() if is_of_speed(key)})
        try:
            study.recipe_of(spec)
            if shape not in costs:
                listener.on_message(f"trying {'the speed of the base' if shape == '{}' else shape}")
                costs[shape] = try_shape(study, trial, spec)
        except RecipeError as error:  # the trial will be reported as failed
            listener.on_message(f"trial {trial.number} cannot be trained: {first_lines(str(error))}")
            continue
        is_search = spec.phase == "search"
        training += costs[shape].training * (share[0] if is_search else 1)
        measuring += costs[shape].measuring * (share[1] if is_search else 1)
        tokens += round(study.facts.length.target_tokens * (share[0] if is_search else 1))
    coming = trials_to_come(study)
    if coming and costs:
        worst = max(costs.values(), key=lambda cost: cost.training)
        training, measuring = training + coming * worst.training, measuring + coming * worst.measuring
        tokens += coming * study.facts.length.target_tokens
    threads = study.base.recipe.training.threads or 1
    return Hours(
        done=len(study.trials()) - len(left),
        trials=len(study.trials()) + coming,
        target_tokens=tokens,
        shapes=len(costs),
        training=training,
        measuring=measuring,
        workers=max(1, min(workers, usable_cores() // threads)),
    )


def is_of_speed(key: str) -> bool:
    return (key.startswith(OF_SPEED) and key != "model.dropout") or key in OTHERS_OF_SPEED


def promoted_share(study: Study) -> tuple[float, float]:
    """(share of the steps that the trials of the search take, share of them that come to the end)."""
    halving, length = study.config.halving, study.facts.length
    if halving is None:
        return 1.0, 1.0
    points = whole = len({identity(cell.settings) for cell in study.cells()})
    taken, before = 0.0, 0
    for step, _ in length.rungs:
        taken, before, points = taken + points * (step - before), step, math.ceil(points / halving.eta)
    return (taken + points * (length.steps - before)) / (whole * length.steps), points / whole


def try_shape(study: Study, trial: Trial, spec: Spec) -> Cost:
    """Train for some seconds with a trial's settings, and search as much of valid as there is time for."""
    with TemporaryDirectory() as scratch, as_if_alone():
        elsewhere = Trial(trial.path)
        elsewhere.path = type(trial.path)(scratch)
        resolved, length = recipe_for(study, elsewhere, spec)
        kind, files = TASKS[resolved.recipe.task], study.files
        half = replace(files, valid=study.valid("choose"))
        folder = elsewhere.path / "corpus"
        began = time.monotonic()
        prepared = kind.prepare(resolved, files, folder, Silent(), kept_in=study.corpus)
        model = first_model(replace(prepared, resolved=resolved))
        preparing = time.monotonic() - began
        with trainer_for_a_trial(model, prepared.store, half, Silent(), parent=elsewhere.path) as trainer:
            tried = try_out(trainer, model, half.valid, seconds=TRIAL_SECONDS, is_trained=False)
            intervals = trainer.validation_interval, trainer.checkpoint_interval
            parts = run_seconds(length.steps, tried.pace, *intervals)
        ending = parts.pop("ending")
        learned = kind.for_trial(model, batches_of(trainer))
        model.network.eval()
        searching = tried.pace.validation
        with torch.inference_mode():
            for decoding in study.decodings(spec) if study.searches else []:
                searched = replace(learned, resolved=changed(learned.resolved, decoding, "study"))
                searching += extrapolated(scoring(kind, searched), files.valid, DECODING_SECONDS)[0]
    return Cost(preparing + sum(parts.values()), ending + searching)


def scoring(kind: Any, searched: Any) -> Any:
    return lambda some: lambda: kind.score(searched, some)
