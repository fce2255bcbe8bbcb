"""The end of a run: the best weights are scored, and the run folder becomes a model folder."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from weft.config import Resolved, from_defaults
from weft.config.toml import write_value
from weft.files import sync, write_atomically
from weft.folders.manifest import MANIFEST
from weft.folders.model_folder import load_model, save_model
from weft.preparing.prepared import Files
from weft.runs.budget import record_outcome
from weft.runs.making import card_of
from weft.runs.trial import AnyTrainer
from weft.tasks import TASKS
from weft.training.run_folder import DETAILS, RunFolder, RunStatus, reporting_write_errors
from weft.training.task import Listener


def finish(run: RunFolder, trainer: AnyTrainer, files: Files, listener: Listener) -> None:
    """Score the best weights on the validation files, and write the model to the run folder."""
    progress = trainer.progress
    assert progress.best_step is not None  # the last step is always validated
    best = run.checkpoint(progress.best_step)
    model = load_model(best)
    scored = TASKS[model.recipe.task].score(model, files.valid)
    scores = scored.sets
    write_atomically(run.path / "scores.json", json.dumps(scores, indent=1, ensure_ascii=False) + "\n")
    details = {**scored.details, "recipe": differences_from_defaults(model.resolved)}
    write_atomically(run.path / DETAILS, json.dumps(details, ensure_ascii=False) + "\n")
    card = card_of(model, trainer.identity, progress.best_step, progress, scores)
    with reporting_write_errors(run.path):
        (run.path / MANIFEST).unlink(missing_ok=True)  # written last, so that the folder is a model only when complete
        with tempfile.TemporaryDirectory(prefix=".", dir=run.checkpoints) as staged:  # leftovers in there are swept up
            save_model(Path(staged), model, card)
            for file in Path(staged).iterdir():
                sync(file)
            for name in [*(file.name for file in Path(staged).iterdir() if file.name != MANIFEST), MANIFEST]:
                os.replace(Path(staged) / name, run.path / name)
            sync(run.path)
    record_outcome(trainer)
    run.write_status(RunStatus(last=progress.step, best=progress.best_step, finished=True))
    listener.on_message(f"best weights, of step {progress.best_step}, on the valid files with the recipe's decoding:")
    listener.on_message(scored.table)


def differences_from_defaults(resolved: Resolved[Any]) -> list[dict[str, str]]:
    """The keys with another value than their default, as text, for the report."""

    def written(value: Any) -> str:
        return "–" if value is None else write_value(value)

    return [
        {
            "key": one.key,
            "value": written(one.new),
            "default": written(one.old),
            "origin": resolved.origins[one.key],
        }
        for one in from_defaults(resolved.recipe)
    ]
