"""From a recipe to a trained model in a run folder. The same call starts a run, continues it, or finds it done."""

import copy
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from weft.config import Resolved, changed
from weft.data.store import Store
from weft.errors import UsageError, WorkerLost
from weft.files import write_atomically
from weft.folders.model_folder import Learned
from weft.preparing.corpora import find_recipe
from weft.preparing.first_model import first_model
from weft.preparing.prepared import Prepared
from weft.runs.budget import LEAVING, Budget, Fit, duration, fit_to, note_budget, refuse_two_lengths, same_budget
from weft.runs.finish import finish
from weft.runs.making import make_trainer, trainer_for_a_trial
from weft.runs.resume import (
    Limit,
    SoFar,
    check_not_shorter,
    check_same_batches,
    check_same_data,
    check_same_recipe,
    how_to_go_on,
    model_so_far,
    run_so_far,
    what_ended,
)
from weft.runs.trial import AnyTrainer, try_out
from weft.runtime import keep_memory_pages, keep_programs, without_autocast
from weft.tasks import TASKS
from weft.tasks.kind import Files
from weft.training.distributed import Ranks, joined
from weft.training.rescue import explaining_out_of_memory
from weft.training.run_folder import DIAGNOSIS, RunFolder, RunStatus
from weft.training.signals import StopRequest, stop_on_signal
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
) -> Path:
    """Train by a recipe, a TOML file or the same as a dict, and return the run folder, which then is also a model.

    `run` is runs/ and the recipe's name where it is left out (a dict needs it); `data` is the folder that data paths
    are relative to: else the environment's WEFT_DATA, else the recipe's own folder. Each override is "KEY=VALUE".
    A `budget`, such as "30m", makes the run as long as fits between now and the end of this call.

    Where torchrun has started several processes they train together; only the first one reads, writes and tells.
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
        return train_resolved(
            resolved,
            data_root=data_root,
            run_path=run_path,
            budget=budget if isinstance(budget, Budget | None) else Budget.parse(str(budget)),
            listener=listener if listener is not None and ranks.is_first else Silent(),
            ranks=ranks,
        )


@contextmanager
def as_if_alone() -> Iterator[None]:
    """The modes of torch that the program around it is in change nothing in here, and what is seeded in here leaves the
    random numbers of that program alone (but for those that a GPU draws)."""
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
) -> Path:
    """Train in this run folder until the recipe is fulfilled, and return the folder, which then is also a model.

    Raises Stopped when a signal asks for it, RunError where the folder belongs to another recipe or its data changed.
    """
    keep_memory_pages()
    keep_programs()
    if budget is not None:
        refuse_two_lengths(resolved)
    run = RunFolder(run_path, ranks)
    with run.locked(), stop_on_signal(second_interrupts=ranks.size == 1) as stop:
        status = run.status()
        corpora = ranks.from_first(TASKS[resolved.recipe.task].read, resolved.recipe, data_root, listener)
        if status is None:
            with blaming_a_signal(stop):
                trainer = begin(resolved, corpora, run, budget, listener)
        else:
            so_far = ranks.from_first(run_so_far, run, status, resolved)
            check_same_data(so_far.state["data"], corpora, run, status)
            check_same_recipe(so_far, run)
            budget = same_budget(so_far.state.get("budget"), budget, run)
            limit = so_far.what_ended()
            if status.finished and not so_far.is_raised(limit):
                say_finished(run, status, limit, listener)
                return run_path
            with blaming_a_signal(stop):
                trainer = go_on(resolved, so_far, corpora, run, budget, listener)
            if status.finished and trainer.is_finished():  # by another limit
                say_finished(run, status, what_ended(so_far.now.recipe.training, so_far.state), listener)
                return run_path
            listener.on_message(f"continuing from step {status.last} of {trainer.horizon.total_steps}")
        if trainer.agree(stop):
            stop.honor("stopped before its first step")
        trainer.train(stop)
        ranks.from_first(finish, run, trainer, corpora, listener)
    return run_path


@contextmanager
def blaming_a_signal(stop: StopRequest) -> Iterator[None]:
    """A signal to the whole process group ends the workers that prepare pairs, too: then it has stopped this run."""
    try:
        yield
    except WorkerLost:
        stop.honor("stopped while preparing pairs")
        raise


def begin(
    resolved: Resolved[Any],
    corpora: Files,
    run: RunFolder,
    budget: Budget | None,
    listener: Listener,
) -> AnyTrainer:
    """A fresh run: prepare the pairs, make the weights, and save all of it as step 0."""
    run.clear()
    kind = TASKS[resolved.recipe.task]
    prepared = run.ranks.from_first(kind.prepare, resolved, corpora, run.corpus, listener)
    model = run.ranks.from_first(first_model, prepared)
    if budget is not None:
        model = fitted(resolved, prepared, model, corpora, run, budget, listener)
    trainer = make_trainer(model, prepared.store, corpora, resolved, run, listener)
    diagnosis = json.dumps(prepared.account.diagnosis, ensure_ascii=False) + "\n"
    run.ranks.from_first(write_atomically, run.path / DIAGNOSIS, diagnosis)
    note_budget(trainer, budget)
    trainer.identity["chosen_epochs"] = kind.usual_epochs(resolved, prepared.account.clean)
    parents = run.ranks.from_first(kind.parents, model.recipe, corpora.train, corpora.root)
    trainer.identity["parents"] = [asdict(each) for each in parents]
    if kind.fit is not None:  # learned at once: no step is left for the Trainer, and its weights are the best
        kind.fit(model, prepared.store)
        trainer.progress.step = trainer.horizon.total_steps
        trainer.validate(is_due=True)
    trainer.checkpoint()
    return trainer


def fitted(
    resolved: Resolved[Any],
    prepared: Prepared[Any],
    model: Learned[Any],
    corpora: Files,
    run: RunFolder,
    budget: Budget,
    listener: Listener,
) -> Learned[Any]:
    """The model with the steps that a budget has time for; or, where these are few and its size was left open, a
    smaller one with more of them. Raises UsageError where not even one step fits."""
    ranks, pairs = run.ranks, prepared.account.clean
    fit = fitted_steps(model, prepared.store, corpora, run, budget, listener)
    smaller, why = TASKS[resolved.recipe.task].smaller(resolved, prepared.resolved.recipe, pairs, fit.epochs)
    if smaller and budget.spent() + LEAVING < budget.seconds:
        listener.on_message(why)
        hurried = replace(prepared, resolved=changed(prepared.resolved, smaller, "budget"))
        model = ranks.from_first(first_model, hurried)
        fit = fitted_steps(model, prepared.store, corpora, run, budget, listener)
    if not fit.steps:
        raise UsageError(fit.lack)
    model.resolved = fit.resolved
    return model


def fitted_steps(
    model: Learned[Any], store: Store, corpora: Files, run: RunFolder, budget: Budget, listener: Listener
) -> Fit:
    """How many steps of the model a budget has time for, by a trial on a copy of it."""
    began, ranks = time.monotonic(), run.ranks
    on_a_copy = replace(model, network=copy.deepcopy(model.network))
    with trainer_for_a_trial(on_a_copy, store, corpora, Silent(), beside=run.checkpoints, ranks=ranks) as trainer:
        making = time.monotonic() - began  # the run's own trainer will take as long
        is_trained = model.recipe.training.init is not None
        trial = try_out(trainer, on_a_copy, corpora.valid, seconds=budget.trial_seconds, is_trained=is_trained)
        left = budget.seconds - budget.spent() - making
        fit = ranks.from_first(fit_to, model.resolved, trial, trainer, left)
    listener.on_message(
        f"{fit.steps:,} steps fit into {duration(budget.seconds)}: {trial.pace.step:.3f} s a step, "
        f"{trial.pace.validation:.1f} s a validation, by a trial of {trial.steps} steps"
    )
    return fit


def go_on(
    resolved: Resolved[Any],
    so_far: SoFar,
    corpora: Files,
    run: RunFolder,
    budget: Budget | None,
    listener: Listener,
) -> AnyTrainer:
    """The run as its last checkpoint left it; with more steps than before, the schedule is that of the longer run."""
    model = model_so_far(so_far, run, listener)
    store = run.ranks.from_first(TASKS[model.recipe.task].reopen, model, resolved, corpora, run.corpus, listener)
    trainer = make_trainer(model, store, corpora, resolved, run, listener)
    check_same_batches(so_far.state["batches"], trainer)
    check_not_shorter(so_far, trainer, run)
    trainer.restore(so_far.status.last)
    note_budget(trainer, budget)
    trainer.identity["chosen_epochs"] = so_far.now.recipe.training.epochs or so_far.state["chosen_epochs"]
    trainer.identity["parents"] = so_far.state.get("parents", [])
    return trainer


def say_finished(run: RunFolder, status: RunStatus, limit: Limit, listener: Listener) -> None:
    listener.on_message(f"{run.path} is finished (step {status.last}); {how_to_go_on(limit)}")
