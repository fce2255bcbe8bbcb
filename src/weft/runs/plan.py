"""What a run will take, before anything is trained: steps, parameters, multiply-adds, memory, time.

What can be counted is counted, the rest is measured. Nothing is written to the run folder. For a run that has begun,
the time is that of the steps that are left.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weft.config import Resolved
from weft.data.batching import Buckets
from weft.data.store import Store
from weft.errors import RunError, UsageError
from weft.figures.table import wrapped
from weft.folders.kinds import KINDS
from weft.folders.model_folder import Learned
from weft.models.cost import PRODUCTS_IN_AN_UPDATE, parameters_by_part
from weft.preparing.corpora import find_recipe
from weft.preparing.first_model import first_model
from weft.preparing.prepared import Files
from weft.runs.budget import duration
from weft.runs.making import trainer_for_a_trial
from weft.runs.resume import (
    Limit,
    SoFar,
    check_not_shorter,
    finished_message,
    limit_reached,
    model_so_far,
    run_so_far,
)
from weft.runs.train import Silent
from weft.runs.trial import AnyTrainer, Trial, batches_of, run_seconds, target_tokens, times_due, try_out
from weft.runtime import keep_memory_pages, keep_programs
from weft.tasks import TASKS
from weft.training.recording import Recorded
from weft.training.rescue import explaining_out_of_memory
from weft.training.run_folder import RunFolder, RunStatus, optimizer_tensors, option_beside
from weft.training.schedules import highest_rate
from weft.training.task import CarryingTask, Listener

SURE_STEPS = 10
"""Steps of a trial from which its time is not called rough."""


@dataclass(frozen=True)
class Plan:
    """The work of a run, its cost, and after a trial its duration."""

    run: str
    rows: str
    """The noun for what the data has: pair, or text."""
    pairs: int
    """Rows for training, which of a translator are pairs."""
    pairs_an_epoch: int
    """Pairs in an epoch; pairs of a weighted corpus count as often as they occur."""
    valid_pairs: int
    """For validation."""
    batches: int
    """In an epoch."""
    accumulate: int
    """Batches that a step is made from."""
    padding: float
    """Share of the tokens in the batches of an epoch."""
    target_tokens: int
    """To predict in an epoch, padding not counted."""
    steps_per_epoch: int
    epochs: int | None
    """At most; None if only training.steps limits the run."""
    steps: int
    """Steps of the whole run, unless patience or a signal ends it earlier."""
    steps_done: int
    validations: int | None
    """Still to come; None if they are due by the clock and there was no trial."""
    highest_rate: tuple[int, float]
    """The step at which the learning rate is highest, and that rate."""
    parameters: Mapping[str, int]
    """By part of the network."""
    multiply_adds: Mapping[str, float] | None
    """Per target token of a forward pass, by part of the network; None for kinds that weft does not count."""
    passes: int
    """Passes of the model over each batch: two with R-Drop."""
    device: str
    """cpu or cuda."""
    memory: Mapping[str, int]
    """Bytes on the device for parameters, gradients, optimizer, activations, and on a GPU recordings."""
    trial: Trial | None
    seconds: Mapping[str, float] | None
    """From start to exit by what they are for, if the run began or was resumed now."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        forward = self.multiply_adds
        update = None if forward is None else {part: self.in_an_update(count) for part, count in forward.items()}
        return {**asdict(self), "multiply_adds_of_an_update": update, "ends_at": self.ends_at()}

    def in_an_update(self, multiply_adds: float) -> float:
        """Multiply-adds of an update, given those of a forward pass."""
        return self.passes * PRODUCTS_IN_AN_UPDATE * multiply_adds

    def ends_at(self) -> str | None:
        """Local time in ISO 8601, to the minute; None without a trial."""
        if self.seconds is None:
            return None
        end = datetime.now().astimezone() + timedelta(seconds=sum(self.seconds.values()))
        return end.isoformat(sep=" ", timespec="minutes")

    def table(self) -> str:
        """For a terminal."""
        parts = [self._work(), self._cost(), self._memory(), self._time()]
        return "\n\n".join("\n".join(wrapped(line, hang=13) for line in lines) for lines in parts if lines)

    def _work(self) -> list[str]:
        an_epoch = f"{self.batches:,}" if self.accumulate == 1 else f"ceil({self.batches:,} / {self.accumulate:,})"
        passes = self.steps / self.steps_per_epoch
        if self.epochs is None:
            ended_by, epochs = "(training.steps) =", f"{passes:,.3g}"
        else:
            ended_by, epochs = "(training.steps) of" if passes < self.epochs else "=", f"{self.epochs:,}"
        done = f"; {self.steps_done:,} steps are done" if self.steps_done else ""
        repeated = f" ({self.pairs_an_epoch:,} an epoch)" if self.pairs_an_epoch != self.pairs else ""
        return [
            f"run          {self.run}",
            f"{f'{self.rows}s':<13}{self.pairs:,} for training{repeated}, {self.valid_pairs:,} for validation",
            f"batches      {self.batches:,} an epoch, {100 * self.padding:.1f} % padding",
            f"tokens       {self.target_tokens:,} target tokens an epoch, padding not counted",
            f"steps        {self.steps:,} {ended_by} {an_epoch} an epoch x {epochs} epoch{'s' * (epochs != '1')}{done}",
            f"rate         highest {self.highest_rate[1]:.3g}, at step {self.highest_rate[0]:,}",
        ]

    def _cost(self) -> list[str]:
        if self.multiply_adds is None:
            parameters = {**self.parameters, "all": sum(self.parameters.values())}
            heading = f"{'':<12} {'parameters':>14}"
            return [heading, *(f"{part:<12} {numbers:>14,}" for part, numbers in parameters.items())]
        total = {part: (self.parameters[part], self.multiply_adds[part]) for part in self.parameters}
        total["all"] = sum(self.parameters.values()), sum(self.multiply_adds.values())
        return [
            f"{'':<12} {'parameters':>14} {'multiply-adds a target token':>33}",
            f"{'':<12} {'':>14} {'forward':>16} {'update':>16}",
            *(
                f"{part:<12} {numbers:>14,} {forward:>16,.0f} {self.in_an_update(forward):>16,.0f}"
                for part, (numbers, forward) in total.items()
            ),
        ]

    def _memory(self) -> list[str]:
        parts = ", ".join(f"{name} {mebibytes(count)}" for name, count in self.memory.items())
        lines = [f"memory       {parts}: {mebibytes(sum(self.memory.values()))}"]
        if self.trial is not None:
            whose = "by this process, its libraries and the corpus with it" if self.device == "cpu" else "on the GPU"
            lines += [f"peak         {mebibytes(self.trial.peak_bytes)} in the trial, {whose}"]
        return lines

    def _time(self) -> list[str]:
        if self.trial is None or self.seconds is None:
            return []
        trial, pace = self.trial, self.trial.pace
        parts = ", ".join(f"{name} {duration(seconds)}" for name, seconds in self.seconds.items())
        rough = f" (rough: from {trial.steps} steps)" if trial.steps < SURE_STEPS else ""
        return [
            f"speed        {trial.target_tokens_per_second:,.0f} target tokens a second, "
            f"{3600 / pace.step:,.0f} steps an hour (from {trial.steps} steps in {trial.seconds:.1f} s)",
            f"validation   {pace.validation:.1f} s (from {trial.validated:,} of {self.valid_pairs:,} {self.rows}s), "
            f"{self.validations:,} times",
            f"time         {duration(sum(self.seconds.values()))}{rough}: {parts}",
            f"end          {self.ends_at()}",
        ]


@explaining_out_of_memory()
def plan(
    recipe: str | Path | Mapping[str, Any],
    *,
    run: str | Path | None = None,
    data: str | Path | None = None,
    overrides: Sequence[str] = (),
    seconds: float | None = 20.0,
    listener: Listener | None = None,
) -> Plan:
    """Plan what `train` would do with these arguments; `seconds` is the length of the trial, None skips it.

    Raises what `train` would raise, and RunError for a run that is finished.
    """
    listener = listener or Silent()
    keep_memory_pages()
    keep_programs()
    began = time.monotonic()
    resolved, data_root, run_path = find_recipe(recipe, run=run, data=data, overrides=overrides)
    if resolved.recipe.model.is_counted:
        raise UsageError(
            f'a model of kind "{resolved.recipe.model.kind}" is counted in one pass over its texts, within seconds: '
            "there are no steps to plan"
        )
    files = TASKS[resolved.recipe.task].read(resolved.recipe, data_root, listener)
    with TemporaryDirectory() as scratch:
        folder = RunFolder(run_path)
        model, store, so_far = model_to_train(resolved, files, folder, Path(scratch) / "corpus", listener)
        steps_done = 0 if so_far is None else so_far.status.last
        with trainer_for_a_trial(model, store, files, listener) as trainer:
            if so_far is not None:
                check_steps_are_left(so_far, trainer, folder)
            preparation = time.monotonic() - began
            memory = memory_by_use(trainer)
            if isinstance(trainer.task, CarryingTask):
                trainer.task.restore({}, trainer.device)  # what it carries is that of parts of batches
            trial = None
            if seconds is not None:
                is_trained = steps_done > 0 or model.recipe.training.init is not None
                trial = try_out(trainer, model, files.valid, seconds=seconds, is_trained=is_trained)
    batches = batches_of(trainer)
    intervals = trainer.validation_interval, trainer.checkpoint_interval
    left = trainer.horizon.total_steps - steps_done
    tokens = target_tokens(batches)
    rows = np.concatenate(batches.order(0))
    lengths = [column.lengths[rows] for column in batches.columns]
    lengths[-1] = lengths[-1] - 1  # <s> is not predicted
    counts = model.recipe.model.multiply_adds([*model.vocabularies.values()][-1].vocab_size, *lengths)
    return Plan(
        run=str(run_path),
        rows=KINDS[model.recipe.task].rows,
        pairs=len(batches),
        pairs_an_epoch=len(rows),
        valid_pairs=len(files.valid),
        batches=trainer.batches_per_epoch,
        accumulate=trainer.config.accumulate,
        padding=batches.padding_share(),
        target_tokens=tokens,
        steps_per_epoch=trainer.steps_per_epoch,
        epochs=trainer.config.epochs,
        steps=trainer.horizon.total_steps,
        steps_done=steps_done,
        validations=(
            None
            if trial is None and intervals[0].seconds is not None
            else times_due(intervals[0], left, trial.pace.step if trial else 0.0, done=steps_done)
        ),
        highest_rate=highest_rate(trainer.config.schedule, trainer.config.learning_rate, trainer.horizon),
        parameters=parameters_by_part(model.network),
        multiply_adds=None if counts is None else {part: count / tokens for part, count in counts.items()},
        passes=getattr(model.recipe.training, "passes", 1),
        device=trainer.device.type,
        memory=memory,
        trial=trial,
        seconds=None
        if trial is None
        else {"preparation": preparation, **run_seconds(left, trial.pace, *intervals, done=steps_done)},
    )


def model_to_train(
    resolved: Resolved[Any], files: Files, run: RunFolder, folder: Path, listener: Listener
) -> tuple[Learned[Any], Store, SoFar | None]:
    """The model that training would begin or resume with, its store, and the state of a run that has begun.

    What the run has not prepared is prepared in `folder`.
    """
    run.refuse_other_folders()
    status, kept_in = run.status(), run.corpus
    if status is None:
        prepared = TASKS[resolved.recipe.task].prepare(resolved, files, folder, listener, kept_in=kept_in)
        return first_model(prepared), prepared.store, None
    so_far = run_so_far(run, status, resolved, files)
    if limit := so_far.ended_by():
        raise already_finished(run, status, limit)
    model = model_so_far(so_far, run, listener)
    store = TASKS[model.recipe.task].reopen(model, resolved, files, folder, listener, kept_in=kept_in)
    return model, store, so_far


def check_steps_are_left(so_far: SoFar, trainer: AnyTrainer, run: RunFolder) -> None:
    """Raise RunError if the recipe ends the run before the steps that it has taken or was to take."""
    check_not_shorter(so_far, trainer, run)
    if so_far.status.finished and trainer.horizon.total_steps <= so_far.status.last:
        limit = limit_reached(so_far.now, so_far.state)
        raise already_finished(run, so_far.status, limit)


def already_finished(run: RunFolder, status: RunStatus, limit: Limit) -> RunError:
    return RunError(f"{finished_message(run, status, limit)}, or plan a new run: {option_beside(run.path)}")


# Memory


def memory_by_use(trainer: AnyTrainer) -> dict[str, int]:
    """Bytes of the parameters, their gradients, the optimizer's state, their moving average if the recipe has one, the
    activations of the largest batch, and where passes are recorded the places of a recording's.

    The activations are what the forward pass keeps for the backward pass. What comes and goes within either (a block
    of logits, which on a GPU is that of the whole batch; a gradient on its way down) is not in them.
    """
    parameters = sum(parameter.nbytes for parameter in trainer.model.parameters())
    average = {} if trainer.average is None else {"average": sum(tensor.nbytes for tensor in trainer.average.values())}
    activations = max(activation_bytes(trainer, batch) for batch in largest_batches(batches_of(trainer)))
    return {
        "parameters": parameters,
        "gradients": parameters,
        "optimizer": optimizer_bytes(trainer),
        **average,
        "activations": activations,
        **({"recordings": activations} if isinstance(trainer.replica, Recorded) else {}),
    }


def optimizer_bytes(trainer: AnyTrainer) -> int:
    """Size of the optimizer's state, which exists only after a step; this one is taken with gradients of zero."""
    for parameter in trainer.model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    trainer.optimizer.step()
    trainer.optimizer.zero_grad()
    return sum(tensor.nbytes for tensor in optimizer_tensors(trainer.optimizer).values())


def largest_batches(batches: Buckets[Any]) -> list[Any]:
    """The batch of the most tokens, padding counted, and that of the most pairs of tokens for attention to weigh."""

    def tokens(indices: np.ndarray) -> int:
        return sum(int(column.lengths[indices].max()) for column in batches.columns)

    order = batches.order(0)
    return [batches.batch(max(order, key=lambda indices: len(indices) * tokens(indices) ** power)) for power in (1, 2)]


def activation_bytes(trainer: AnyTrainer, batch: Any) -> int:
    """Bytes that a forward pass over the batch keeps for the backward pass.

    All of it is proportional to the number of rows but for what is kept once (weights in a lower precision, the
    gradient of the output's), so an eighth and a quarter of a batch suffice, which take less memory than all of it.
    """
    eighths = batch.chunk(8)
    if len(eighths) < 8 or len(eighths[-1].chunk(2)) < 2:
        return kept_bytes(trainer, batch)
    for_few, for_more = kept_bytes(trainer, eighths[0]), kept_bytes(trainer, batch.chunk(4)[0])
    return for_few + 7 * (for_more - for_few)


def kept_bytes(trainer: AnyTrainer, batch: Any) -> int:
    """Bytes that autograd holds after the loss, each piece of memory counted once, the parameters left out."""
    parameters = {parameter.untyped_storage().data_ptr() for parameter in trainer.model.parameters()}
    held: dict[int, Tensor] = {}

    def hold(tensor: Tensor) -> Tensor:
        held[tensor.untyped_storage().data_ptr()] = tensor  # keeps it alive, so that no later tensor reuses its memory
        return tensor

    trainer.model.train()
    trainer.model.training = False  # of the model itself and none of its parts: layer dropout then leaves no layer out
    with torch.autograd.graph.saved_tensors_hooks(hold, lambda tensor: tensor):
        trainer.task.loss(trainer.model, batch.to(trainer.device))
    return sum(tensor.untyped_storage().nbytes() for place, tensor in held.items() if place not in parameters)


def mebibytes(count: int) -> str:
    return f"{count / 2**20:,.0f} MiB"
