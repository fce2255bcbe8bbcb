"""From a recipe to a trained model in a run folder. The same call begins a run, goes on with it, or finds it done."""

import json
import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from safetensors import SafetensorError

from weft.config import (
    Difference,
    Resolved,
    changed,
    choose_recipe_model,
    differences,
    parse_rendered,
    read_recipe,
    render,
    resolve,
)
from weft.data.batching import Batch, PairBatches
from weft.data.corpus import ParallelText, read_corpora
from weft.errors import CorpusError, RunError, UsageError
from weft.files import sync, write_atomically
from weft.metrics.translation import sacre_bleu
from weft.models.transformer import Transformer
from weft.runtime import PRECISIONS, choose_device, keep_memory_pages
from weft.tasks.evaluation import evaluate
from weft.tasks.first_model import first_model
from weft.tasks.model_card import model_card
from weft.tasks.model_folder import (
    MANIFEST,
    TranslationModel,
    load_model,
    save_model,
)
from weft.tasks.recipes import RECIPES, TranslationRecipe
from weft.tasks.translation import TranslationTask, Translator, pair_batches
from weft.training.run_folder import RunFolder, RunStatus
from weft.training.trainer import Listener, Progress, Trainer, TrainingConfig, stop_on_signal

TranslationTrainer = Trainer[Transformer, Batch]

MAY_CHANGE = {"training.epochs", "training.patience"}
"""Keys that may be raised when a run goes on: they say how long it trains."""


@dataclass(frozen=True)
class Corpora:
    """The pairs to train on and the pairs to choose by, and what their files were when they were read."""

    train: ParallelText
    valid: ParallelText

    @property
    def sha256(self) -> dict[str, dict[str, str]]:
        return {"train": self.train.sha256, "valid": self.valid.sha256}


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
    listener: Listener | None = None,
) -> Path:
    """Train by a recipe, a TOML file or the same as a dict, and return the run folder, which then is also a model.

    `run` is runs/ and the recipe's name where it is left out (a dict needs it); `data` is the folder that data paths
    are relative to: else the environment's WEFT_DATA, else the recipe's own folder. Each override is "KEY=VALUE".
    """
    model = choose_recipe_model(recipe, RECIPES, overrides)
    if isinstance(recipe, Mapping):
        if run is None:
            raise UsageError("a recipe that is no file needs a run folder: run=...")
        resolved, home, name = resolve(recipe, model, "the recipe", overrides), Path(), ""
    else:
        resolved = read_recipe(recipe, model, overrides)
        home, name = Path(recipe).parent, Path(recipe).stem
    return train_translation(
        cast(Resolved[TranslationRecipe], resolved),
        data_root=Path(data or os.environ.get("WEFT_DATA") or home),
        run_path=Path(run) if run is not None else Path("runs") / name,
        listener=listener or Silent(),
    )


def train_translation(
    resolved: Resolved[TranslationRecipe], *, data_root: Path, run_path: Path, listener: Listener
) -> Path:
    """Train in this run folder until the recipe is fulfilled, and return the folder, which then is also a model.

    Raises Stopped when a signal asks for it, RunError where the folder belongs to another recipe or its data changed.
    """
    keep_memory_pages()
    run = RunFolder(run_path)
    with run.locked(), stop_on_signal() as stop:
        status = run.status()
        corpora = read_all(resolved.recipe, data_root, listener)
        if status is None:
            trainer = begin(resolved, corpora, run, listener)
        else:
            given, state = run_so_far(run, status)
            check_same_data(state["data"], corpora, run)
            check_same_recipe(given, resolved, run, status)
            limit = what_ended(given.recipe.training, state["progress"])
            if status.finished and not is_raised(limit, given.recipe.training, resolved.recipe.training):
                listener.on_message(f"{run_path} is finished (step {status.last}); raise training.{limit} to go on")
                return run_path
            trainer = go_on(resolved, corpora, run, status, listener)
        stop.honor("stopped before the first step of this sitting")
        trainer.train(stop)
        finish(run, trainer, corpora, listener)
    return run_path


def run_so_far(run: RunFolder, status: RunStatus) -> tuple[Resolved[TranslationRecipe], dict[str, Any]]:
    """The recipe as the user gave it when the run was begun or last gone on with, and the last checkpoint's state."""
    _, state = run.load(status.last)
    if missing := {"recipe", "data", "progress"} - state.keys():
        raise RunError(f"{run.checkpoint(status.last)} lacks {', '.join(sorted(missing))}; it was damaged")
    return parse_rendered(state["recipe"], TranslationRecipe, run.checkpoint(status.last)), state


def begin(
    resolved: Resolved[TranslationRecipe], corpora: Corpora, run: RunFolder, listener: Listener
) -> TranslationTrainer:
    """A fresh run: make the vocabularies and the weights, and save all of it as step 0."""
    run.sweep(keep=set())
    for name in ("metrics.jsonl", "samples.jsonl"):
        (run.path / name).unlink(missing_ok=True)
    model = first_model(resolved, corpora.train, listener)
    trainer = make_trainer(model, corpora, resolved, run, listener)
    trainer.checkpoint()
    return trainer


def go_on(
    resolved: Resolved[TranslationRecipe], corpora: Corpora, run: RunFolder, status: RunStatus, listener: Listener
) -> TranslationTrainer:
    """The run as its last checkpoint left it; with more epochs than before, the schedule is that of the longer run."""
    run.sweep(keep={status.last, status.best})
    model = load_model(run.checkpoint(status.last))
    for key in MAY_CHANGE:
        value = getattr(resolved.recipe.training, key.split(".")[1])
        model.resolved = changed(model.resolved, {key: value}, resolved.origins[key])
    trainer = make_trainer(model, corpora, resolved, run, listener)
    trainer.restore(status.last)
    listener.on_message(f"going on from step {status.last} of {trainer.horizon.total_steps}")
    return trainer


def check_same_recipe(
    given: Resolved[TranslationRecipe], now: Resolved[TranslationRecipe], run: RunFolder, status: RunStatus
) -> None:
    """Refuse to go on with another recipe than the run was given, except to train longer."""
    changes = [d for d in differences(given, now) if d.key not in MAY_CHANGE]
    if now.recipe.training.epochs < given.recipe.training.epochs and not status.finished:
        changes.append(Difference("training.epochs", given.recipe.training.epochs, now.recipe.training.epochs))
    if changes:
        listed = "\n".join(f"  {d.key}: was {d.old!r}, is {d.new!r}" for d in changes)
        raise RunError(
            f"{run.path} was begun with another recipe:\n{listed}\n"
            f"undo the change, or begin a new run: --run {run.path}-2"
        )


def check_same_data(known: Mapping[str, Mapping[str, str]], corpora: Corpora, run: RunFolder) -> None:
    """Refuse to go on with other files than the run began with."""
    if known == corpora.sha256:
        return
    names = [
        f"{part} {name}"
        for part, files in corpora.sha256.items()
        for name, digest in files.items()
        if known.get(part, {}).get(name) != digest
    ]
    raise RunError(
        f"{run.path} was trained on other data: changed since then: {', '.join(names) or 'the list of files'}; "
        f"put the old files back, or begin a new run: --run {run.path}-2"
    )


def what_ended(training: TrainingConfig, progress: Mapping[str, Any]) -> Literal["epochs", "patience"]:
    """Which limit a finished run has come to."""
    is_lost = progress["validations_since_best"] >= (training.patience or math.inf)
    return "patience" if is_lost else "epochs"


def is_raised(limit: Literal["epochs", "patience"], old: TrainingConfig, new: TrainingConfig) -> bool:
    """Whether the recipe asks for more than the run was given; a limit that is left out is endless."""
    return (getattr(new, limit) or math.inf) > (getattr(old, limit) or math.inf)


def read_all(recipe: TranslationRecipe, data_root: Path, listener: Listener) -> Corpora:
    """The pairs to train on and to choose by; raises CorpusError with the problems of both.

    Raises UsageError or WeftError where validation could not score the target language: better now than an epoch later.
    """
    sacre_bleu(["."], [["."]], recipe.data.target)
    parts, problems = [], []
    for entries in (recipe.data.train, recipe.data.valid):
        try:
            parts.append(read_corpora(entries, recipe.data, data_root))
        except CorpusError as error:
            problems += error.problems
    if problems:
        raise CorpusError("the corpus", problems)
    train, valid = parts
    dropped = train.dropped_empty + valid.dropped_empty
    if dropped:
        listener.on_message(f"{dropped:,} pairs with an empty side dropped")
    return Corpora(train, valid)


def make_trainer(
    model: TranslationModel,
    corpora: Corpora,
    given: Resolved[TranslationRecipe],
    run: RunFolder,
    listener: Listener,
) -> TranslationTrainer:
    """`given` is the recipe as the user gave it, before anything was filled in; a later run is compared with it."""
    recipe = model.recipe
    device = choose_device()
    model.model.to(device)
    model.model.compute_dtype = PRECISIONS[recipe.training.precision]
    batches = training_batches(model, corpora.train, listener)
    listener.on_message(
        f"{len(batches.sources):,} training pairs, {len(corpora.valid):,} validation pairs; "
        f"{batches.steps_per_epoch():,} steps an epoch, {100 * batches.padding_share():.1f} % padding; "
        f"{model.count_parameters():,} parameters, {recipe.training.precision} on {device.type}"
    )

    def write_model(folder: Path, progress: Progress) -> None:
        save_model(folder, model, card_of(model, corpora.sha256, len(batches.sources), progress.step, progress, []))

    return Trainer(
        model.model,
        TranslationTask(model, corpora.valid, seed=recipe.seed),
        batches,
        recipe.training,
        run=run,
        write_model=write_model,
        listener=listener,
        seed=recipe.seed,
        model_dim=recipe.model.model_dim,
        device=device,
        identity={"recipe": render(given), "data": corpora.sha256, "pairs": len(batches.sources)},
    )


def training_batches(model: TranslationModel, pairs: ParallelText, listener: Listener) -> PairBatches:
    """The training pairs as the recipe batches them, without those that it calls too long."""
    training, max_length = model.recipe.training, model.recipe.data.max_length
    batches = pair_batches(
        pairs,
        model.source_tokenizer,
        model.target_tokenizer,
        seed=model.recipe.seed,
        batch_tokens=training.batch_tokens,
        batch_sentences=training.batch_sentences,
        max_length=max_length,
    )
    too_long = len(pairs) - len(batches.sources)
    if too_long == len(pairs):
        raise RunError(f"every training pair is longer than data.max_length = {max_length} pieces")
    if too_long:
        listener.on_message(f"{too_long:,} training pairs over data.max_length = {max_length} pieces dropped")
    return batches


def card_of(
    model: TranslationModel,
    data: Mapping[str, Mapping[str, str]],
    pairs: int,
    steps: int,
    progress: Progress,
    evaluations: Sequence[dict[str, Any]],
) -> str:
    metric = f"valid_{model.recipe.training.select_by}"
    best = None if progress.best_value is None else (metric, progress.best_value)
    return model_card(model, data=data, pairs=pairs, steps=steps, validation=best, evaluations=list(evaluations))


def finish(run: RunFolder, trainer: TranslationTrainer, corpora: Corpora, listener: Listener) -> None:
    """Score the best weights on the valid files as the recipe decodes, and make the run folder itself a model."""
    progress = trainer.progress
    assert progress.best_step is not None  # the last step is always validated
    best = run.checkpoint(progress.best_step)
    model = load_model(best)
    evaluated = evaluate(Translator(model), corpora.valid)
    scores = [evaluated.as_dict()]
    write_atomically(run.path / "scores.json", json.dumps(scores, indent=1, ensure_ascii=False) + "\n")
    (run.path / MANIFEST).unlink(missing_ok=True)  # written last: the folder is a model only when it is whole
    card = card_of(model, corpora.sha256, trainer.identity["pairs"], progress.best_step, progress, scores)
    try:
        with tempfile.TemporaryDirectory(dir=run.checkpoints) as staged:  # a wreck in there is swept up
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
    run.write_status(RunStatus(last=progress.step, best=progress.best_step, finished=True))
    listener.on_message(f"best weights, of step {progress.best_step}, on the valid files with the recipe's decoding:")
    listener.on_message(evaluated.scores.table())
