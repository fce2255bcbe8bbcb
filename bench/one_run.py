"""One run of a grid in a process of its own: a request as JSON on stdin, what came of it as JSON on stdout.

`python -m bench.one_run < request.json`; choices.py makes the requests. The run reads the train and valid files of its
recipe, no other. It lives in runs/grids/ until it is finished: one that was interrupted goes on where it was.
"""

import hashlib
import json
import math
import random
import shutil
import statistics
import sys
import tempfile
import tomllib
from itertools import count, islice
from pathlib import Path
from typing import cast

from bench.machine import ROOT, Line, read_lines
from bench.peers.meter import CpuWatch

from weft.config import Resolved, read_recipe
from weft.data.batching import Batch, Buckets
from weft.errors import WeftError
from weft.files import sha256
from weft.folders.recipes import TranslationRecipe
from weft.preparing.corpora import read_all
from weft.preparing.first_model import first_model
from weft.preparing.preparation import prepare
from weft.runs.train import Silent, train
from weft.tasks.translation import training_batches

CHECKPOINT_EVERY = "5m"
SHUFFLE = 1
"""Seed of the order from which the first pairs are taken: a smaller corpus is part of every larger one."""


def main() -> None:
    request = json.load(sys.stdin)
    folder = folder_of(request)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        line = run_once(request, folder)
    except WeftError as error:
        raise SystemExit(f"{error}\n(what the run has come to lies in {folder})") from None
    print(json.dumps(line, ensure_ascii=False), flush=True)
    shutil.rmtree(folder)


def folder_of(request: Line) -> Path:
    """Where this run and no other lives, whoever asks for it again."""
    asked = json.dumps(request, sort_keys=True) + sha256(Path(request["recipe"]))
    return ROOT / "runs" / "grids" / hashlib.sha256(asked.encode()).hexdigest()[:16]


def run_once(request: Line, folder: Path) -> Line:
    """Train for the budget, and tell how good the model is, how long it took, and how undisturbed it was.

    Of a run that goes on from an earlier sitting, nobody knows the last two.
    """
    recipe, data_root, overrides = Path(request["recipe"]), Path(request["data"]), list(request["overrides"])
    if request["pairs"] is not None:
        part = first_pairs(recipe, data_root, request["pairs"], folder / "train.tsv")
        overrides.append(f'data.train=["{part}"]')
    overrides.append(f"seed={request['seed']}")
    batches, parameters = look_ahead(recipe, overrides, data_root)
    steps, target_tokens = spend(request["budget"], batches)
    overrides = [
        f"training.checkpoint_every={CHECKPOINT_EVERY}",
        f"training.validate_every={math.ceil(steps / request['validations'])} steps",  # unless the variant says another
        *overrides,
        f"training.steps={steps}",
        "training.epochs=100000",  # the steps end it
    ]
    run = folder / "run"
    goes_on = run.exists()
    watch = CpuWatch()
    train(recipe, run=run, data=data_root, overrides=overrides, listener=Silent())
    return {
        "steps": steps,
        "target_tokens": target_tokens,
        "parameters": parameters,
        **outcome(run),
        "seconds": None if goes_on else round(watch.seconds(), 1),
        "others_cpu": None if goes_on else watch.others(),
    }


def first_pairs(recipe: Path, data_root: Path, pairs: int, part: Path) -> Path:
    """A TSV of the first pairs of the training file, shuffled."""
    resolved = cast(Resolved[TranslationRecipe], read_recipe(recipe, TranslationRecipe, ()))
    header, *rows = (data_root / str(resolved.recipe.data.train[0])).read_text(encoding="utf-8").split("\n")
    rows = [row for row in rows if row]
    random.Random(SHUFFLE).shuffle(rows)
    if len(rows) < pairs:
        raise SystemExit(f"the corpus has {len(rows):,} pairs, fewer than {pairs:,}")
    part.write_text("".join(f"{row}\n" for row in [header, *rows[:pairs]]), encoding="utf-8")
    return part


def look_ahead(recipe: Path, overrides: list[str], data_root: Path) -> tuple[Buckets[Batch], int]:
    """The batches that the run will take, and the parameters of its model."""
    resolved = cast(Resolved[TranslationRecipe], read_recipe(recipe, TranslationRecipe, overrides))
    corpora = read_all(resolved.recipe, data_root, Silent())
    with tempfile.TemporaryDirectory() as folder:
        prepared = prepare(resolved, corpora, Path(folder) / "corpus", Silent())
    model = first_model(prepared)
    return training_batches(model, prepared.store, Silent()), model.count_parameters()


def spend(budget: Line, batches: Buckets[Batch]) -> tuple[int, int]:
    """(steps, target tokens) of a budget: so many `steps`, or as few as see so many `target_tokens`, </s> counted."""
    lengths = batches.columns[1].lengths - 1  # <s> is not predicted
    tokens_of_steps = (int(lengths[indices].sum()) for epoch in count() for indices in batches.order(epoch))
    if "steps" in budget:
        return budget["steps"], sum(islice(tokens_of_steps, budget["steps"]))
    seen = 0
    for step, tokens in enumerate(tokens_of_steps, start=1):
        seen += tokens
        if seen >= budget["target_tokens"]:
            return step, seen
    raise AssertionError("epochs never end")


def outcome(run: Path) -> Line:
    """What the run folder tells: the best validation, the scores of the recipe's decoding, the speed and the curve."""
    best_step = int(json.loads((run / "run.json").read_text(encoding="utf-8"))["best"].rpartition("-")[2])
    lines = read_lines(run / "metrics.jsonl")
    trained = [line for line in lines if "nll" in line]
    measured = [line for line in lines if "valid_loss" in line and line["step"] == best_step]
    best = max(measured, key=lambda line: line["valid_bleu"])  # two, where a mean of checkpoints was tried as well
    (scored,) = json.loads((run / "scores.json").read_text(encoding="utf-8"))
    recipe = tomllib.loads((run / "config.toml").read_text(encoding="utf-8"))
    return {
        "precision": recipe["training"]["precision"],
        "best_step": best_step,
        "mean_of": best.get("mean_of"),
        "valid_loss": best["valid_loss"],
        "valid_accuracy": best["valid_accuracy"],
        "greedy_sacrebleu": best["valid_bleu"],
        "scores": {name: score["value"] for name, score in scored["scores"].items()},
        "signatures": {name: score["signature"] for name, score in scored["scores"].items()},
        "decoding": scored["decoding"],
        "target_tokens_per_second": statistics.median(line["target_tokens_per_second"] for line in trained),
        "curve": [[line["step"], round(line["nll"], 4)] for line in trained],
    }


if __name__ == "__main__":
    main()
