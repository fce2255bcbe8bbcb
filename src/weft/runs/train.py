"""From a recipe to a trained model in a run folder. The same call begins, resumes or merely reports a run."""

import copy
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from weft.config import Resolved, changed
from weft.data.store import Store
from weft.errors import UsageError, WorkerLost, counted
from weft.files import write_atomically
from weft.folders.model_folder import Learned
from weft.preparing.corpora import find_recipe
from weft.preparing.first_model import first_model
from weft.preparing.prepared import Files, Prepared
from weft.runs.budget import (
    LEAVING,
    Budget,
    Fit,
    duration,
    few_epochs,
    fit_to,
    note_budget,
    refuse_two_lengths,
    same_budget,
)
from weft.runs.finish import finish
from weft.runs.making import make_trainer, trainer_for_a_trial
from weft.runs.resume import (
    SoFar,
    check_not_shorter,
    check_same_batches,
    finished_message,
    limit_reached,
    model_so_far,
    run_so_far,
)
from weft.runs.trial import AnyTrainer, try_out
from weft.runtime import keep_memory_pages, keep_programs, without_autocast
from weft.tasks import TASKS
from weft.training.distributed import Ranks, joined
from weft.training.events import writing_events
from weft.training.rescue import explaining_out_of_memory
from weft.training.run_folder import DIAGNOSIS, RunFolder
from weft.training.signals import StopRequest, stop_on_signal, stopped_by_signal
from weft.training.task import Listener


class Silent:
    """A listener for programs that watch the run folder instead."""

    def on_message(self, text: str) -> None: ...

    def on_log(self, row: dict[str, Any], total_steps: int) -> None: ...

    def on_validation(self, row: dict[str, Any], samples: list[dict[str, str]], is_best: bool) -> None: ...


def train(
    recipe: str | Path | Mapping[str, Any],
    *,
    run: str | Path | None = None,
    data: str | Path | None = None,
    overrides: Sequence[str] = (),
    budget: str | Budget | None = None,
    listener: Listener | None = None,
    tensorboard: bool = False,
) -> Path:
    """Train by a recipe, a TOML file or a dict, and return the run folder, which then is also a model folder.

    `run` defaults to runs/NAME, the name of the recipe file (a dict needs it). `data` is the folder that data paths are
    relative to; it defaults to WEFT_DATA, else to the recipe's folder. Each override is "KEY=VALUE". With a `budget`,
    such as "30m", the run has as many steps as fit between now and the end of this call. With `tensorboard`, its
    metrics are also written as event files, which needs tensorboardX.

    Processes started by torchrun train together; only the first one reads, writes and reports.
    """
    with joined() as ranks, as_if_alone():
        if isinstance(listener, type):
            raise UsageError(f"a listener is an object, not a class; pass {listener.__name__}()")
        if listener is not None and not isinstance(listener, Listener):
            raise UsageError("a listener has the methods on_message, on_log and on_validation; this one lacks some")
        if torch.get_default_dtype() != torch.float32:
            raise UsageError("weights are trained in fp32; before that, call torch.set_default_dtype(torch.float32)")
        resolved, data_root, run_path = ranks.from_first(
            lambda: find_recipe(recipe, run=run, data=data, overrides=overrides)
        )
        listener = listener if listener is not None and ranks.is_first else Silent()
        writes = tensorboard and ranks.is_first
        with writing_events(run_path, listener) if writes else nullcontext(listener) as listener:
            return train_resolved(
                resolved,
                data_root=data_root,
                run_path=run_path,
                budget=budget if isinstance(budget, Budget | None) else Budget.parse(str(budget)),
                listener=listener,
                ranks=ranks,
            )


@contextmanager
def as_if_alone() -> Iterator[None]:
    """Ignore the caller's torch modes inside the block, and restore its random state afterwards (except a GPU's)."""
    with torch.inference_mode(False), torch.enable_grad(), without_autocast(), torch.random.fork_rng(devices=[]):
        yield


@explaining_out_of_memory()
def train_resolved(
    resolved: Resolved[Any],
    *,
    data_root: Path,
    run_path: Path,
    budget: Budget | None,
    listener: Listener,
    ranks: Ranks,
    stop: StopRequest | None = None,
    kept_in: Path | None = None,
    part_of_valid: Callable[[Any], Any] | None = None,
) -> Path:
    """Train in this run folder to the end of the recipe, and return the folder, which then is also a model folder.

    A caller that handles signals itself passes its `stop`. `kept_in` is a folder with a corpus prepared earlier, which
    is used if it was made from the same. With `part_of_valid` the run sees only that part of the validation data.

    Raises Stopped after a signal, Paused after the step `stop.pause_at`, and RunError if the folder belongs to another
    recipe or its data changed.
    """
    keep_memory_pages()
    keep_programs()
    if budget is not None:
        refuse_two_lengths(resolved)
    run = RunFolder(run_path, ranks)
    catching = nullcontext(stop) if stop is not None else stop_on_signal(second_interrupts=ranks.size == 1)
    with run.locked(), catching as stop:
        status = run.status()
        files = ranks.from_first(TASKS[resolved.recipe.task].read, resolved.recipe, data_root, listener)
        if part_of_valid is not None:
            files = replace(files, valid=part_of_valid(files.valid))
        if status is None:
            with stopped_if_signalled(stop):
                trainer = begin(resolved, files, run, budget, listener, kept_in)
        else:
            so_far = ranks.from_first(run_so_far, run, status, resolved, files)
            budget = same_budget(so_far.state.get("budget"), budget, run)
            if limit := so_far.ended_by():
                listener.on_message(finished_message(run, status, limit))
                return run_path
            with stopped_if_signalled(stop):
                trainer = resume_run(resolved, so_far, files, run, budget, listener, kept_in)
            if status.finished and trainer.is_finished():  # by another limit
                limit = limit_reached(so_far.now, so_far.state)
                listener.on_message(finished_message(run, status, limit))
                return run_path
            listener.on_message(f"continuing from step {status.last} of {trainer.horizon.total_steps}")
        if trainer.agree(stop):
            stop.honor("stopped before its first step")
        trainer.train(stop)
        ranks.from_first(finish, run, trainer, files, listener)
    return run_path


@contextmanager
def stopped_if_signalled(stop: StopRequest) -> Iterator[None]:
    """Raise Stopped, not WorkerLost, after a signal: if sent to the process group, it ends the workers too."""
    try:
        yield
    except WorkerLost:
        stop.honor("stopped while preparing pairs")
        raise


def begin(
    resolved: Resolved[Any],
    files: Files,
    run: RunFolder,
    budget: Budget | None,
    listener: Listener,
    kept_in: Path | None = None,
) -> AnyTrainer:
    """Begin a run: prepare the files, initialize the weights, and save the checkpoint of step 0."""
    run.clear()
    kind = TASKS[resolved.recipe.task]
    prepare = partial(kind.prepare, kept_in=kept_in)
    prepared = run.ranks.from_first(prepare, resolved, files, run.corpus, listener)
    model = run.ranks.from_first(first_model, prepared)
    if model.recipe.model.is_counted:
        assert kind.fit is not None  # its task has such models
        for message in kind.fit(model, prepared.store):
            listener.on_message(message)
    elif budget is not None:
        model = fitted(resolved, prepared, model, files, run, budget, listener)
    trainer = make_trainer(model, prepared.store, files, resolved, run, listener)
    diagnosis = json.dumps(prepared.account.diagnosis, ensure_ascii=False) + "\n"
    run.ranks.from_first(write_atomically, run.path / DIAGNOSIS, diagnosis)
    note_budget(trainer, budget)
    trainer.identity["chosen_epochs"] = kind.usual_epochs(resolved, prepared.account.clean)
    parents = run.ranks.from_first(kind.parents, model.recipe, files.train, files.root)
    trainer.identity["parents"] = [asdict(each) for each in parents]
    if model.recipe.model.is_counted:  # no step is left for the Trainer, and these weights are the best
        trainer.progress.step = trainer.horizon.total_steps
        trainer.validate(is_due=True)
    trainer.checkpoint()
    return trainer


def fitted(
    resolved: Resolved[Any],
    prepared: Prepared[Any],
    model: Learned[Any],
    files: Files,
    run: RunFolder,
    budget: Budget,
    listener: Listener,
) -> Learned[Any]:
    """Fit the number of steps to a budget. If few fit and the recipe leaves the size open, take a smaller model.

    Raises UsageError if not even one step fits.
    """
    ranks, pairs = run.ranks, prepared.account.clean
    fit, few = fitted_steps(resolved, model, prepared.store, files, run, budget, listener)
    smaller, why = TASKS[resolved.recipe.task].smaller(resolved, prepared.resolved.recipe, pairs, fit.epochs)
    if smaller and ranks.as_first(budget.spent() + LEAVING < budget.seconds):
        listener.on_message(why)
        hurried = replace(prepared, resolved=changed(prepared.resolved, smaller, "budget"))
        model = ranks.from_first(first_model, hurried)
        fit, few = fitted_steps(resolved, model, prepared.store, files, run, budget, listener)
    if few:
        listener.on_message(few)
    if not fit.steps:
        raise UsageError(fit.lack)
    model.resolved = fit.resolved
    return model


def fitted_steps(
    given: Resolved[Any],
    model: Learned[Any],
    store: Store,
    files: Files,
    run: RunFolder,
    budget: Budget,
    listener: Listener,
) -> tuple[Fit, str]:
    """Measure how many steps of the model fit into a budget, by a trial on a copy of it; also returns a message if they
    are few."""
    began, ranks = time.monotonic(), run.ranks
    on_a_copy = replace(model, network=copy.deepcopy(model.network))
    starts_over = stopped_by_signal("stopped before its first step")
    if ranks.size > 1 or given.recipe.training.compile:  # other ranks, or the compiler, would report another error
        starts_over = nullcontext()
    with (
        starts_over,
        trainer_for_a_trial(on_a_copy, store, files, Silent(), parent=run.checkpoints, ranks=ranks) as trainer,
    ):
        making = time.monotonic() - began  # the run's own trainer will take as long
        is_trained = model.recipe.training.init is not None
        trial = try_out(trainer, on_a_copy, files.valid, seconds=budget.trial_seconds, is_trained=is_trained)
        left = budget.seconds - budget.spent() - making
        fit = ranks.from_first(fit_to, model.resolved, trial, trainer, left)
        few = few_epochs(given, fit, trial, trainer, budget) if fit.steps else ""
    listener.on_message(
        f"{counted(fit.steps, 'step')} fit into {duration(budget.seconds)}: {trial.pace.step:.3f} s a step, "
        f"{trial.pace.validation:.1f} s a validation, by a trial of {trial.steps} steps"
    )
    return fit, few


def resume_run(
    resolved: Resolved[Any],
    so_far: SoFar,
    files: Files,
    run: RunFolder,
    budget: Budget | None,
    listener: Listener,
    kept_in: Path | None = None,
) -> AnyTrainer:
    """Restore the last checkpoint; if the recipe now gives more steps, the schedule is that of the longer run."""
    model = model_so_far(so_far, run, listener)
    reopen = partial(TASKS[model.recipe.task].reopen, kept_in=kept_in)
    store = run.ranks.from_first(reopen, model, resolved, files, run.corpus, listener)
    trainer = make_trainer(model, store, files, resolved, run, listener)
    check_same_batches(so_far.state["batches"], trainer)
    check_not_shorter(so_far, trainer, run)
    trainer.restore(so_far.status.last)
    note_budget(trainer, budget)
    trainer.identity["chosen_epochs"] = so_far.now.recipe.training.epochs or so_far.state["chosen_epochs"]
    # With the parents as they were: one may have changed since, and the files were compared.
    trainer.identity["data"], trainer.identity["parents"] = so_far.state["data"], so_far.state.get("parents", [])
    return trainer
