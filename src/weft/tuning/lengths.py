"""How long the trials of a study train, and its recipe with everything chosen once."""

import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate, count, islice
from pathlib import Path
from typing import Any

from weft.config import Resolved, changed
from weft.data.batching import Buckets
from weft.errors import CorpusError, Problem, RecipeError, UsageError
from weft.files import as_utf_8, decode_lines, read_bytes, split_lines, write_atomically
from weft.preparing.first_model import first_model, with_machine_choices
from weft.runs.train import Silent
from weft.runtime import choose_threads
from weft.tasks import TASKS
from weft.training.distributed import ALONE
from weft.training.task import Listener
from weft.tuning.settings import StudyConfig

CHECKPOINT_EVERY = "5m"
"""Where a recipe does not say: a killed worker loses at most so much, and no validation depends on it."""
SHUFFLE = 1
"""Seed of the order from which the first pairs are taken; a smaller corpus is part of every larger one."""
OF_BATCHES = (
    *("data.", "tokenizer.", "cleaning", "augmentation.", "training.batch_", "training.accumulate"),
    *("training.init", "training.teachers"),  # which bring their vocabularies
)
"""How keys begin on which the batches depend, and so the steps of a budget of tokens or epochs."""


@dataclass(frozen=True)
class Length:
    """How long a trial trains."""

    steps: int
    every: int
    """Steps between validations."""
    target_tokens: int
    """In all steps."""
    rungs: tuple[tuple[int, int], ...]
    """(step, target tokens up to it) of each rung of halving."""
    epochs: float | None = None
    """Passes over the data, where neither the study nor the recipe counts steps or tokens."""

    @property
    def keys(self) -> dict[str, Any]:
        """The keys of the recipe that say so."""
        return {
            "training.steps": self.steps,
            "training.epochs": None,
            "training.validate_every": f"{self.every} steps",
        }


def freeze(
    given: Resolved[Any], config: StudyConfig, root: Path, place: Path, workers: int, listener: Listener
) -> tuple[Resolved[Any], Any, Length]:
    """Choose every open key of a recipe, prepare its corpus in `place`, and find the length of the trials. Returns the
    resolved recipe, its files and the length."""
    kind = TASKS[given.recipe.task]
    if config.pairs is not None:
        given = changed(
            given, {"data.train": [str(first_pairs(given.recipe.data, root, config.pairs, place))]}, "study"
        )
    if config.metric is not None:
        with suppress(RecipeError):  # not every figure is measured by validations
            given = changed(given, {"training.select_by": config.metric}, "study")
    files = kind.read(given.recipe, root, listener)
    resolved = given
    while True:  # again: the corpus is then that of the recipe in which the sizes of its vocabularies stand
        prepared = kind.prepare(resolved, files, place / "corpus", listener)
        if prepared.resolved.recipe == resolved.recipe:
            break
        resolved, listener = prepared.resolved, Silent()
    if resolved.recipe.training.threads is None:
        resolved = changed(resolved, {"training.threads": max(1, choose_threads() // workers)}, "measured")
    if resolved.recipe.training.checkpoint_every is None:
        resolved = changed(resolved, {"training.checkpoint_every": CHECKPOINT_EVERY}, "study")
    resolved = with_machine_choices(resolved)
    length = length_of(resolved, config, files, place / "corpus", place / "corpus")
    return changed(resolved, length.keys, "study"), files, length


def length_of(
    resolved: Resolved[Any], config: StudyConfig, files: Any, folder: Path, kept_in: Path, epochs: float | None = None
) -> Length:
    """The length of a trial by this recipe, by the batches that it will see. What is not prepared in `kept_in` is
    prepared in the folder. `epochs` are those of the base, for a study without a budget."""
    kind = TASKS[resolved.recipe.task]
    prepared = kind.prepare(resolved, files, folder, Silent(), kept_in=kept_in)
    model = first_model(replace(prepared, resolved=resolved))
    batches = kind.learn(model, prepared.store, files, Silent(), ALONE).batches
    training = resolved.recipe.training
    per_epoch = training.steps_per_epoch(batches.steps_per_epoch())
    budget, passes = config.budget, config.budget.epochs or epochs
    if budget.target_tokens is not None:
        seen = enumerate(accumulate(tokens_by_step(batches, training.accumulate)), start=1)
        steps = next(step for step, tokens in seen if tokens >= budget.target_tokens)
    elif budget.steps is not None:
        steps = budget.steps
    elif passes is not None:
        steps = max(1, round(passes * per_epoch))
    else:
        steps = training.horizon(per_epoch, resolved.recipe.model.width).total_steps
        passes = None if training.steps == steps else steps / per_epoch
    every, rungs = validated_rungs(steps, config)
    seen_by = [*accumulate(islice(tokens_by_step(batches, training.accumulate), steps))]
    return Length(steps, every, seen_by[-1], tuple((step, seen_by[step - 1]) for step in rungs), passes)


def tokens_by_step(batches: Buckets[Any], at_once: int) -> Iterator[int]:
    """Target tokens of each step, </s> counted, padding not, without end."""
    lengths = batches.columns[-1].lengths - 1  # <s> is not predicted
    for epoch in count():
        order = iter(batches.order(epoch))
        while some := [*islice(order, at_once)]:
            yield sum(int(lengths[indices].sum()) for indices in some)


def validated_rungs(steps: int, config: StudyConfig) -> tuple[int, list[int]]:
    """(steps between validations, steps of the rungs). Rungs are at validations, so that a trial that pauses there and
    goes on is the same as one that does not."""
    shares = config.halving.rungs if config.halving else ()
    most = range(config.validations, config.validations + 33)
    fitting = (n for n in most if all(abs(share * n - round(share * n)) < 0.02 for share in shares))
    every = -(-steps // next(fitting, most[-1]))
    rungs = [every * max(1, round(share * steps / every)) for share in shares]
    if not all(a < b for a, b in zip((0, *rungs), (*rungs, steps), strict=True)):
        raise UsageError(f"{steps:,} steps are too few for rungs at {', '.join(map(str, shares))} of them")
    return every, rungs


def first_pairs(data: Any, root: Path, pairs: int, place: Path) -> Path:
    """A file of the first pairs of the shuffled training file."""
    (name, *others) = data.train
    suffixes = [suffix for suffix in Path(str(name)).suffixes if suffix != ".gz"] if isinstance(name, str) else []
    if others or not suffixes or suffixes[-1] not in (".tsv", ".jsonl", ".txt"):
        raise UsageError("pairs = ... takes the first pairs of one TSV or JSONL file, and data.train is not one")
    problems: list[Problem] = []
    lines = decode_lines(split_lines(as_utf_8(read_bytes(root / name))), problems)
    rows = [row for _, row in lines if row]
    if not rows:
        problems.append(Problem("the file", "is empty"))
    if problems:
        raise CorpusError(name, problems)
    header = [rows.pop(0)] if suffixes[-1] == ".tsv" and getattr(data, "header", hasattr(data, "column")) else []
    random.Random(SHUFFLE).shuffle(rows)
    if len(rows) < pairs:
        raise UsageError(f"pairs = {pairs:,}, but {name} has {len(rows):,}")
    part = (place / f"train{suffixes[-1]}").resolve()
    write_atomically(part, "".join(f"{row}\n" for row in [*header, *rows[:pairs]]))
    return part
