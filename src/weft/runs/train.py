"""From a recipe to a trained model in a run folder. The same call begins a run, goes on with it, or finds it done."""

import copy
import json
import math
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from weft.config import (
    Difference,
    Resolved,
    changed,
    differences,
    leaves,
    parse_rendered,
    render,
)
from weft.data.augmentation import PairNoise
from weft.data.batching import Batch, PairBatches
from weft.data.encoding import tag_ids
from weft.data.store import Store
from weft.errors import RunError, UsageError, WorkerLost
from weft.evaluating.evaluation import evaluate
from weft.files import sync, write_atomically
from weft.folders.card import Parent, model_card
from weft.folders.model_folder import (
    MANIFEST,
    WEIGHTS,
    TranslationModel,
    check_manifest,
    load_model,
    read_config,
    save_model,
)
from weft.folders.recipes import OF_THE_MACHINE, TranslationRecipe
from weft.models.transformer import Transformer
from weft.preparing.corpora import Corpora, find_recipe, read_all
from weft.preparing.defaults import choose_smaller, describe_smaller, usual_epochs
from weft.preparing.first_model import first_model, with_machine_choices
from weft.preparing.parents import parents_of
from weft.preparing.preparation import Prepared, other_batches, prepare, prepared_for
from weft.preparing.teachers import load_teachers
from weft.preparing.vocabularies import can_begin_with
from weft.runs.budget import (
    FITTED,
    LEAVING,
    Budget,
    Fit,
    duration,
    fit_to,
    note_budget,
    record_outcome,
    refuse_two_lengths,
    same_budget,
)
from weft.runs.trial import TranslationTrainer, try_out
from weft.runtime import (
    PRECISIONS,
    choose_device,
    choose_threads,
    has_native_bf16,
    keep_memory_pages,
    keep_programs,
    without_autocast,
)
from weft.tasks.translation import TranslationTask
from weft.text.vocabulary import PADDING_ID
from weft.training.averaging import Weights
from weft.training.config import TrainingConfig
from weft.training.distributed import ALONE, Ranks, joined
from weft.training.progress import Progress
from weft.training.rescue import explaining_out_of_memory
from weft.training.run_folder import DIAGNOSIS, RunFolder, RunStatus
from weft.training.signals import StopRequest, stop_on_signal
from weft.training.task import Listener
from weft.training.trainer import Trainer
from weft.translating.translator import Translator

LIMITS = {*FITTED, "training.patience", "training.trials"}
"""Keys that say how long a run trains. They may be raised when it goes on, and lowered where it is finished."""
MAY_CHANGE = {
    *(*LIMITS, *OF_THE_MACHINE, "training.most_skipped", "training.divergence"),
    *("training.log_every", "training.checkpoint_every"),
}
"""Keys that may be changed when a run goes on: these, those that say when it gives up, and how often it writes what
changes no number. Other validations would choose other weights."""

Limit = Literal["epochs", "steps", "patience", "trials", "budget"]


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
            raise UsageError(f"a listener is an object and no class; give {listener.__name__}()")
        if listener is not None and not isinstance(listener, Listener):
            raise UsageError("a listener has the methods on_message, on_log and on_validation; this one lacks some")
        if torch.get_default_dtype() != torch.float32:
            raise UsageError("weights are trained in fp32; before that, call torch.set_default_dtype(torch.float32)")
        resolved, data_root, run_path = ranks.from_first(
            lambda: find_recipe(recipe, run=run, data=data, overrides=overrides)
        )
        return train_translation(
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
def train_translation(
    resolved: Resolved[TranslationRecipe],
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
        corpora = ranks.from_first(read_all, resolved.recipe, data_root, listener)
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
            listener.on_message(f"going on from step {status.last} of {trainer.horizon.total_steps}")
        if trainer.agree(stop):
            stop.honor("stopped before the first step of this sitting")
        trainer.train(stop)
        ranks.from_first(finish, run, trainer, corpora, listener)
    return run_path


@contextmanager
def blaming_a_signal(stop: StopRequest) -> Iterator[None]:
    """A signal to the whole process group ends the workers that prepare pairs, too: then it has stopped this run."""
    try:
        yield
    except WorkerLost:
        stop.honor("stopped while pairs were prepared")
        raise


@dataclass(frozen=True)
class SoFar:
    """A run that has begun, and the recipe by which it is asked to go on."""

    status: RunStatus
    state: Mapping[str, Any]
    """The last checkpoint's. Its `chosen_epochs` are those of a recipe that names neither epochs nor steps."""
    given: Resolved[TranslationRecipe]
    """The recipe as the user gave it when the run was begun or last gone on with, completed by those epochs."""
    chosen: Resolved[TranslationRecipe]
    """The given recipe with everything that weft chose."""
    now: Resolved[TranslationRecipe]
    """The recipe as the user gives it now, completed by those epochs."""

    def what_ended(self) -> Limit:
        """Which limit the run has come to, if it is finished."""
        return what_ended(self.given.recipe.training, self.state)

    def is_raised(self, limit: Limit) -> bool:
        """Whether the recipe asks for more than the run was given; a limit that is left out is endless."""
        old, new = self.given.recipe.training, self.now.recipe.training
        return limit != "budget" and (getattr(new, limit) or math.inf) > (getattr(old, limit) or math.inf)


def run_so_far(run: RunFolder, status: RunStatus, now: Resolved[TranslationRecipe]) -> SoFar:
    """What the last checkpoint says of the run, beside the recipe that is given now."""
    _, state = run.load(status.last)
    if missing := {"recipe", "data", "batches", "progress"} - state.keys():
        raise RunError(f"{run.checkpoint(status.last)} lacks {', '.join(sorted(missing))}; it was damaged")
    given = parse_rendered(state["recipe"], TranslationRecipe, run.checkpoint(status.last))
    state.setdefault("chosen_epochs", given.recipe.training.epochs)  # a checkpoint of the time when they were rarer
    given, now = (with_epochs(resolved, state["chosen_epochs"]) for resolved in (given, now))
    return SoFar(status, state, given, read_config(run.checkpoint(status.last)), now)


def with_epochs(resolved: Resolved[TranslationRecipe], epochs: int) -> Resolved[TranslationRecipe]:
    """The recipe with the epochs of a run that has begun, where it names no length itself."""
    if resolved.origins["training.epochs"] != "default" or resolved.recipe.training.steps is not None:
        return resolved
    return changed(resolved, {"training.epochs": epochs}, "corpus")


def begin(
    resolved: Resolved[TranslationRecipe],
    corpora: Corpora,
    run: RunFolder,
    budget: Budget | None,
    listener: Listener,
) -> TranslationTrainer:
    """A fresh run: prepare the pairs, make the weights, and save all of it as step 0."""
    run.clear()
    prepared = run.ranks.from_first(prepare, resolved, corpora, run.corpus, listener)
    model = run.ranks.from_first(first_model, prepared)
    if budget is not None:
        model = fitted(resolved, prepared, model, corpora, run, budget, listener)
    trainer = make_trainer(model, prepared.store, corpora, resolved, run, listener)
    diagnosis = json.dumps(prepared.account.diagnosis, ensure_ascii=False) + "\n"
    run.ranks.from_first(write_atomically, run.path / DIAGNOSIS, diagnosis)
    note_budget(trainer, budget)
    trainer.identity["chosen_epochs"] = usual_epochs(resolved, prepared.account.clean)
    parents = run.ranks.from_first(parents_of, model.recipe, corpora.train, corpora.root)
    trainer.identity["parents"] = [asdict(each) for each in parents]
    trainer.checkpoint()
    return trainer


def fitted(
    resolved: Resolved[TranslationRecipe],
    prepared: Prepared,
    model: TranslationModel,
    corpora: Corpora,
    run: RunFolder,
    budget: Budget,
    listener: Listener,
) -> TranslationModel:
    """The model with the steps that a budget has time for; or, where these are few and its size was left open, a
    smaller one with more of them. Raises UsageError where not even one step fits."""
    ranks, pairs = run.ranks, prepared.account.clean
    fit = fitted_steps(model, prepared.store, corpora, run, budget, listener)
    smaller = choose_smaller(resolved, prepared.resolved.recipe, pairs, fit.epochs)
    if smaller and budget.spent() + LEAVING < budget.seconds:
        listener.on_message(describe_smaller(smaller, pairs, fit.epochs))
        hurried = replace(prepared, resolved=changed(prepared.resolved, smaller, "budget"))
        model = ranks.from_first(first_model, hurried)
        fit = fitted_steps(model, prepared.store, corpora, run, budget, listener)
    if not fit.steps:
        raise UsageError(fit.lack)
    model.resolved = fit.resolved
    return model


def fitted_steps(
    model: TranslationModel, store: Store, corpora: Corpora, run: RunFolder, budget: Budget, listener: Listener
) -> Fit:
    """How many steps of the model a budget has time for, by a trial on a copy of it."""
    began, ranks = time.monotonic(), run.ranks
    on_a_copy = replace(model, network=copy.deepcopy(model.network))
    with trainer_for_a_trial(on_a_copy, store, corpora, Silent(), beside=run.checkpoints, ranks=ranks) as trainer:
        making = time.monotonic() - began  # the run's own trainer will take as long
        is_trained = model.recipe.training.init is not None
        trial = try_out(trainer, corpora.valid, seconds=budget.trial_seconds, is_trained=is_trained)
        left = budget.seconds - budget.spent() - making
        fit = ranks.from_first(fit_to, model.resolved, trial, trainer, left)
    listener.on_message(
        f"{fit.steps:,} steps fit into {duration(budget.seconds)}: {trial.pace.step:.3f} s a step, "
        f"{trial.pace.validation:.1f} s a validation, by a trial of {trial.steps} steps"
    )
    return fit


@contextmanager
def trainer_for_a_trial(
    model: TranslationModel,
    store: Store,
    corpora: Corpora,
    listener: Listener,
    *,
    beside: Path | None = None,
    ranks: Ranks = ALONE,
) -> Iterator[TranslationTrainer]:
    """A trainer whose run folder is gone after the block; `beside` is a folder on the disk that is tried out too."""
    with ExitStack() as stack:
        made = ranks.from_first(lambda: stack.enter_context(tempfile.TemporaryDirectory(prefix=".", dir=beside)))
        run = RunFolder(Path(made), ranks)
        ranks.from_first(run.checkpoints.mkdir)
        trainer = make_trainer(model, store, corpora, model.resolved, run, listener)
        trainer.config = trainer.config.model_copy(update={"most_skipped": math.inf})  # no run to end, no file to name
        yield trainer


def go_on(
    resolved: Resolved[TranslationRecipe],
    so_far: SoFar,
    corpora: Corpora,
    run: RunFolder,
    budget: Budget | None,
    listener: Listener,
) -> TranslationTrainer:
    """The run as its last checkpoint left it; with more steps than before, the schedule is that of the longer run."""
    model = model_so_far(so_far, run, listener)
    store = run.ranks.from_first(prepared_for, model, resolved, corpora, run.corpus, listener)
    trainer = make_trainer(model, store, corpora, resolved, run, listener)
    check_same_batches(so_far.state["batches"], trainer)
    check_not_shorter(so_far, trainer, run)
    trainer.restore(so_far.status.last)
    note_budget(trainer, budget)
    trainer.identity["chosen_epochs"] = so_far.now.recipe.training.epochs or so_far.state["chosen_epochs"]
    trainer.identity["parents"] = so_far.state.get("parents", [])
    return trainer


def model_so_far(so_far: SoFar, run: RunFolder, listener: Listener) -> TranslationModel:
    """The last checkpoint's model with the limits that the recipe gives now, and what this machine chooses.

    A run with a budget keeps the steps that it had time for.
    """
    model = run.ranks.from_first(load_model, run.checkpoint(so_far.status.last))
    before, values = model.resolved, leaves(so_far.now.recipe)
    keys = MAY_CHANGE - FITTED if "budget" in so_far.state else MAY_CHANGE
    renewed = changed(before, {key: values[key] for key in keys}, "recipe")
    origins = {change.key: so_far.now.origins[change.key] for change in differences(before, renewed)}
    model.resolved = Resolved(renewed.recipe, {**before.origins, **origins})
    model.resolved = run.ranks.from_first(with_machine_choices, model.resolved)
    for change in differences(before, model.resolved):
        if change.key in OF_THE_MACHINE:
            listener.on_message(f"{change.key} was {change.old}, is {change.new} from here on: sums round differently")
    return model


def check_same_recipe(so_far: SoFar, run: RunFolder) -> None:
    """Refuse to go on with another recipe than the run was given, except to train longer.

    A key that was left open then and is not now must say what weft chose for it.
    """
    given, chosen, now = so_far.given, so_far.chosen, so_far.now
    was_open, is_open = (
        {key for key, value in leaves(r.recipe).items() if r.origins[key] == "default" or value == "auto"}
        for r in (given, now)
    )
    settled = was_open - is_open - MAY_CHANGE
    found = [
        *(d for d in differences(given, now) if d.key not in settled),
        *(d for d in differences(chosen, now) if d.key in settled),
    ]
    changes = [d for d in found if d.key not in MAY_CHANGE]
    if not so_far.status.finished:
        changes += [d for d in found if d.key in LIMITS - FITTED and (d.new or math.inf) < (d.old or math.inf)]
    if changes:
        fits = can_begin_with(chosen.recipe, now.recipe, {d.key for d in changes})
        raise another_recipe(changes, run, so_far.status, from_weights=fits)


def check_not_shorter(so_far: SoFar, trainer: TranslationTrainer, run: RunFolder) -> None:
    """Refuse to go on with a run under way whose epochs and steps, taken together, end it sooner than before."""
    before = so_far.chosen.recipe
    planned = before.training.horizon(trainer.steps_per_epoch, before.model.width).total_steps
    if not so_far.status.finished and trainer.horizon.total_steps < planned:
        changes = [d for d in differences(so_far.chosen, so_far.now) if d.key in FITTED]
        raise another_recipe(changes, run, so_far.status)


def another_recipe(
    changes: Sequence[Difference], run: RunFolder, status: RunStatus, *, from_weights: bool = True
) -> RunError:
    listed = "\n".join(f"  {d.key}: was {d.old!r}, is {d.new!r}" for d in changes)
    return RunError(
        f"{run.path} was begun with another recipe:\n{listed}\nundo the change, or "
        f"{new_run(run, status, from_weights=from_weights)}"
    )


def new_run(run: RunFolder, status: RunStatus, *, from_weights: bool = True) -> str:
    """What who wants the change can do."""
    advice = f"begin a new run: --run {run.path}-2"
    return (
        f"{advice}, from its weights with --set training.init={run.checkpoint(status.last)}" if from_weights else advice
    )


def check_same_data(
    known: Mapping[str, Mapping[str, str]], corpora: Corpora, run: RunFolder, status: RunStatus
) -> None:
    """Refuse to go on with other files than the run began with."""
    before, now = (
        {(part, name): digest for part, files in data.items() for name, digest in files.items()}
        for data in (known, corpora.sha256)
    )
    if before == now:
        return
    changes = {
        "changed since then": [file for file in now if file in before and now[file] != before[file]],
        "new": [file for file in now if file not in before],
        "gone": [file for file in before if file not in now],
    }
    listed = "; ".join(f"{how}: {', '.join(map(' '.join, files))}" for how, files in changes.items() if files)
    raise RunError(f"{run.path} was trained on other data: {listed}; put the old files back, or {new_run(run, status)}")


def check_same_batches(known: str, trainer: TranslationTrainer) -> None:
    """Refuse to go on with other ids or other batches than the run began with, where recipe and files are the same."""
    if known != trainer.identity["batches"]:
        raise other_batches(trainer.run.path)


def what_ended(training: TrainingConfig, state: Mapping[str, Any]) -> Limit:
    """Which limit the finished run of this last checkpoint has come to."""
    progress = state["progress"]
    exhausted = training.exhausted(progress["validations_since_best"], progress["trials_lost"])
    if exhausted is not None:
        return exhausted
    if "budget" in state:
        return "budget"
    return "steps" if training.steps is not None and progress["step"] >= training.steps else "epochs"


def how_to_go_on(limit: Limit) -> str:
    return "its budget is used" if limit == "budget" else f"raise training.{limit} to go on"


def say_finished(run: RunFolder, status: RunStatus, limit: Limit, listener: Listener) -> None:
    listener.on_message(f"{run.path} is finished (step {status.last}); {how_to_go_on(limit)}")


def make_trainer(
    model: TranslationModel,
    store: Store,
    corpora: Corpora,
    given: Resolved[TranslationRecipe],
    run: RunFolder,
    listener: Listener,
) -> TranslationTrainer:
    """`given` is the recipe as the user gave it, before anything was filled in; a later run is compared with it."""
    recipe, ranks = model.recipe, run.ranks
    device = choose_device()
    torch.set_num_threads(recipe.training.threads or choose_threads())
    if recipe.training.precision == "bf16" and not has_native_bf16(device):
        listener.on_message(
            'training.precision = "bf16": weft knows of no bf16 units in this processor, and one without them imitates '
            'them, some twenty times more slowly; "fp32" is what "auto" takes here'
        )
    model.network.to(device)
    model.network.compute_dtype = PRECISIONS[recipe.training.precision]
    model.network.layer_generator = ranks.common
    teachers = ranks.from_first(load_teachers, model, listener)
    batches = replace(training_batches(model, store, listener, teachers), part=ranks.part)
    steps_per_epoch = recipe.training.steps_per_epoch(batches.steps_per_epoch())
    total = recipe.training.horizon(steps_per_epoch, recipe.model.width).total_steps
    if (wanted := recipe.training.steps or 0) > total:
        listener.on_message(
            f"training.epochs = {recipe.training.epochs} ends this run after {total:,} steps, before the {wanted:,} "
            f"of training.steps; {math.ceil(wanted / steps_per_epoch):,} epochs hold as many"
        )
    if recipe.training.warmup >= total and recipe.training.warmup >= 1:
        listener.on_message(
            f"training.warmup = {recipe.training.warmup:,.0f} steps last as long as the whole run of {total:,}: the "
            "rate only rises; below 1 it is a share of the steps"
        )
    listener.on_message(
        f"{len(batches.sources):,} training pairs, {len(corpora.valid):,} validation pairs; "
        f"{steps_per_epoch:,} steps an epoch, {100 * batches.padding_share():.1f} % padding; "
        f"{model.count_parameters():,} parameters, {recipe.training.precision} on {device.type}"
        + (f", {ranks.size} processes" if ranks.size > 1 else "")
    )

    def write_model(folder: Path, progress: Progress) -> None:
        save_model(folder, model, card_of(model, trainer.identity, progress.step, progress, []))

    def describe_batch(batch: Batch) -> dict[str, list[Any]]:
        return {"pairs": [] if batch.pairs is None else describe_pairs(store, batch.pairs.tolist(), model)}

    for teacher in teachers:
        teacher.to(device)
    trainer = Trainer(
        model.network,
        TranslationTask(model, corpora.valid, seed=recipe.seed, ranks=ranks, teachers=teachers),
        batches,
        recipe.training,
        run=run,
        write_model=write_model,
        read_weights=lambda folder: ranks.from_first(read_weights, folder),
        describe_batch=describe_batch,
        listener=listener,
        seed=recipe.seed,
        width=recipe.model.width,
        device=device,
        identity={
            "recipe": render(given),
            "data": corpora.sha256,
            "pairs": len(batches.sources),
            "batches": batches.sha256(),
        },
        ranks=ranks,
    )
    return trainer


def read_weights(folder: Path) -> Weights:
    """The parameters of a model folder by name; raises ModelError where it is no longer what was written."""
    check_manifest(folder)
    return load_file(folder / WEIGHTS)


def training_batches(
    model: TranslationModel, store: Store, listener: Listener, teachers: Sequence[Transformer] = ()
) -> PairBatches:
    """The training pairs as the recipe batches them, for the model and its teachers."""
    recipe = model.recipe
    noise = None
    if recipe.augmentation.is_noisy:
        tokenizers = model.vocabularies["source"], model.vocabularies["target"]
        tags = frozenset(token for part in store.parts for token in tag_ids(model.vocabularies["source"], part.tag))
        positions = [reader.config.longest for reader in (model.network, *teachers)]
        noise = PairNoise(
            recipe.augmentation,
            recipe.seed,
            store.sources,
            store.targets,
            *tokenizers,
            tags,
            longest=min((longest for longest in positions if longest is not None), default=None),
        )
    batches = PairBatches(
        sources=store.sources,
        targets=store.targets,
        padding_id=PADDING_ID,
        seed=recipe.seed,
        batch_tokens=recipe.training.batch_tokens,
        batch_sentences=recipe.training.batch_sentences,
        weights=store.weights,
        noise=noise,
    )
    if not batches.pairs_per_epoch():
        raise RunError("by their weights in data.train, an epoch holds no pair at all; raise a weight")
    if batches.pairs_per_epoch() != len(batches.sources):
        listener.on_message(f"an epoch holds {batches.pairs_per_epoch():,} pairs, by the weights of the corpora")
    return batches


def describe_pairs(store: Store, pairs: Sequence[int], model: TranslationModel) -> list[dict[str, Any]]:
    """What a person needs to find pairs again: their files and lines, and what the model sees of both sides."""
    places = [store.origin(pair) for pair in pairs]
    sources = model.vocabularies["source"].decode([store.sources[pair].tolist() for pair in pairs])
    targets = model.vocabularies["target"].decode([store.targets[pair].tolist() for pair in pairs])
    return [
        {"file": file, "line": line, "source": source, "target": target}
        for (file, line), source, target in zip(places, sources, targets, strict=True)
    ]


def card_of(
    model: TranslationModel,
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


def finish(run: RunFolder, trainer: TranslationTrainer, corpora: Corpora, listener: Listener) -> None:
    """Score the best weights on the valid files as the recipe decodes, and make the run folder itself a model."""
    progress = trainer.progress
    assert progress.best_step is not None  # the last step is always validated
    best = run.checkpoint(progress.best_step)
    model = load_model(best)
    evaluated = evaluate(Translator(model), corpora.valid).with_intervals()
    scores = [evaluated.as_dict()]
    write_atomically(run.path / "scores.json", json.dumps(scores, indent=1, ensure_ascii=False) + "\n")
    card = card_of(model, trainer.identity, progress.best_step, progress, scores)
    try:
        (run.path / MANIFEST).unlink(missing_ok=True)  # written last: the folder is a model only when it is whole
        with tempfile.TemporaryDirectory(prefix=".", dir=run.checkpoints) as staged:  # a wreck in there is swept up
            save_model(Path(staged), model, card)
            for file in Path(staged).iterdir():
                sync(file)
            for name in [*(file.name for file in Path(staged).iterdir() if file.name != MANIFEST), MANIFEST]:
                os.replace(Path(staged) / name, run.path / name)
            sync(run.path)
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise RunError(
            f"the model in {run.path} could not be written: {reason}; the same command tries again"
        ) from error
    record_outcome(trainer)
    run.write_status(RunStatus(last=progress.step, best=progress.best_step, finished=True))
    listener.on_message(f"best weights, of step {progress.best_step}, on the valid files with the recipe's decoding:")
    listener.on_message(evaluated.scores.table())
