"""Make the trainer of a run from its model, its store and its files, and write its model cards."""

import gc
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from weft.config import Resolved, render
from weft.data.store import Store
from weft.folders.card import Parent, model_card
from weft.folders.kinds import KINDS
from weft.folders.manifest import WEIGHTS, check_manifest
from weft.folders.model_folder import Learned, save_model
from weft.preparing.prepared import Files
from weft.runs.trial import AnyTrainer
from weft.runtime import PRECISIONS, choose_device, choose_threads, describe_machine, has_native_bf16
from weft.tasks import TASKS
from weft.training.averaging import Weights
from weft.training.config import TrainingConfig
from weft.training.distributed import ALONE, Ranks
from weft.training.progress import Progress
from weft.training.run_folder import RunFolder
from weft.training.schedules import highest_rate
from weft.training.task import Listener
from weft.training.trainer import Trainer


def make_trainer(
    model: Learned[Any],
    store: Store,
    files: Files,
    given: Resolved[Any],
    run: RunFolder,
    listener: Listener,
) -> AnyTrainer:
    """`given` is the recipe as the user gave it, with which a resumed run compares its own."""
    recipe, ranks = model.recipe, run.ranks
    gc.collect()  # a trainer before this one, whose parts refer to each other, would keep a GPU's memory
    device = choose_device()
    torch.set_num_threads(recipe.training.threads or choose_threads())
    if recipe.training.precision == "bf16" and not has_native_bf16(device):
        listener.on_message(
            'training.precision = "bf16": this processor seems to have no bf16 units and emulates it, about twenty '
            'times more slowly; "auto" takes "fp32" here'
        )
    model.network.to(device)
    model.network.compute_dtype = PRECISIONS[recipe.training.precision]
    model.network.layer_generator = ranks.common
    lesson = TASKS[recipe.task].learn(model, store, files, listener, ranks)
    batches = lesson.batches
    warn_of_schedule(recipe.training, batches.steps_per_epoch(), recipe.model.width, listener)
    steps_per_epoch = recipe.training.steps_per_epoch(batches.steps_per_epoch())
    rows = KINDS[recipe.task].rows
    listener.on_message(
        f"{len(batches):,} training {rows}s, {len(files.valid):,} validation {rows}s; "
        f"{steps_per_epoch:,} steps an epoch, {100 * batches.padding_share():.1f} % padding; "
        f"{model.count_parameters():,} parameters, {recipe.training.precision} on {device.type}"
        + (f", {ranks.size} processes" if ranks.size > 1 else "")
    )

    def write_model(folder: Path, progress: Progress) -> None:
        save_model(folder, model, card_of(model, trainer.identity, progress.step, progress, []))

    trainer = Trainer(
        model.network,
        lesson.task,
        batches,
        recipe.training,
        run=run,
        write_model=write_model,
        read_weights=lambda folder: ranks.from_first(read_weights, folder),
        describe_batch=lesson.describe,
        listener=listener,
        seed=recipe.seed,
        width=recipe.model.width,
        device=device,
        identity={
            "recipe": render(given),
            "data": files.sha256,
            "root": str(files.root.resolve()),
            "machine": describe_machine(),
            "pairs": len(batches),
            "batches": batches.sha256(),
        },
        ranks=ranks,
    )
    return trainer


@contextmanager
def trainer_for_a_trial(
    model: Learned[Any],
    store: Store,
    files: Files,
    listener: Listener,
    *,
    parent: Path | None = None,
    ranks: Ranks = ALONE,
) -> Iterator[AnyTrainer]:
    """A trainer with a temporary run folder, made in `parent`, on whose disk checkpoints are then timed."""
    with ExitStack() as stack:
        made = ranks.from_first(lambda: stack.enter_context(tempfile.TemporaryDirectory(prefix=".", dir=parent)))
        run = RunFolder(Path(made), ranks)
        ranks.from_first(run.checkpoints.mkdir)
        trainer = make_trainer(model, store, files, model.resolved, run, listener)
        trainer.config = trainer.config.model_copy(update={"most_skipped": math.inf})  # a trial has no run to end
        yield trainer


def read_weights(folder: Path) -> Weights:
    """The parameters of a model folder by name. Raises ModelError if the folder has changed since it was written."""
    check_manifest(folder)
    return load_file(folder / WEIGHTS)


def card_of(
    model: Learned[Any],
    identity: Mapping[str, Any],
    steps: int,
    progress: Progress,
    evaluations: Sequence[dict[str, Any]],
) -> str:
    metric = f"valid_{model.recipe.training.select_by}"
    best = None if progress.best_value is None else (metric, progress.best_value)
    return model_card(
        model,
        data=identity["data"],
        pairs=identity["pairs"],
        steps=steps,
        validation=best,
        evaluations=list(evaluations),
        parents=[Parent(**each) for each in identity.get("parents", ())],
    )


TINY_RATE = 1e-4
"""A highest rate below which a schedule whose learning_rate is a factor was probably given a rate instead."""


def warn_of_schedule(training: TrainingConfig, batches_per_epoch: int, width: int, listener: Listener) -> None:
    """Report a length of the run or of its warm-up that is probably a mistake, and a noam schedule whose factor makes
    the rates so small that hardly anything is learned."""
    steps_per_epoch = training.steps_per_epoch(batches_per_epoch)
    horizon = training.horizon(steps_per_epoch, width)
    total = horizon.total_steps
    step, rate = highest_rate(training.schedule, training.learning_rate, horizon)
    if training.schedule == "noam" and rate < TINY_RATE:
        listener.on_message(
            f'schedule = "noam" takes training.learning_rate = {training.learning_rate:g} as a factor: the highest '
            f"rate is {rate:.2g}, at step {step:,}; "
            f"a factor of {training.learning_rate * 7e-4 / rate:.2g} makes it 7e-4"
        )
    if (wanted := training.steps or 0) > total:
        listener.on_message(
            f"training.epochs = {training.epochs} ends this run after {total:,} steps, before the {wanted:,} "
            f"of training.steps; {math.ceil(wanted / steps_per_epoch):,} epochs hold as many"
        )
    if training.warmup >= total and training.warmup >= 1:
        listener.on_message(
            f"training.warmup = {training.warmup:,.0f} steps last as long as the whole run of {total:,}: the "
            "rate only rises; below 1 it is a share of the steps"
        )
