"""A run whose task goes wrong on purpose: the loss of a batch passes through a function that may spoil it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from weft.data.batching import Batch
from weft.models.transformer import Transformer
from weft.preparing.corpora import find_recipe, read_all
from weft.runs.resume import run_so_far
from weft.runs.train import Silent, begin, resume_run
from weft.runs.trial import AnyTrainer
from weft.training.progress import Progress
from weft.training.run_folder import RunFolder
from weft.training.signals import StopRequest
from weft.training.task import Loss

Spoiler = Callable[[AnyTrainer, Batch, Callable[[], Loss]], Loss]
"""Is given the trainer, a batch, and what computes the loss of it."""


class Messages(Silent):
    def __init__(self) -> None:
        self.said: list[str] = []

    def on_message(self, text: str) -> None:
        self.said.append(text)


@contextmanager
def spoiled_run(folder: Path, run: str, spoil: Spoiler, *overrides: str) -> Iterator[AnyTrainer]:
    """A trainer of the recipe in the folder, begun or resumed, whose losses go through `spoil`."""
    recipe = folder / "tiny.toml"
    resolved, data_root, path = find_recipe(recipe, run=folder / run, data=None, overrides=overrides)
    run_folder, listener = RunFolder(path), Messages()
    with run_folder.locked():
        files, status = read_all(resolved.recipe, data_root, listener), run_folder.status()
        if status is None:
            trainer = begin(resolved, files, run_folder, None, listener)
        else:
            so_far = run_so_far(run_folder, status, resolved, files)
            trainer = resume_run(resolved, so_far, files, run_folder, None, listener)
        usual = trainer.task.loss

        def loss(model: Transformer, batch: Batch) -> Loss:
            return spoil(trainer, batch, lambda: usual(model, batch))

        trainer.task.loss = loss
        yield trainer


def train_on(trainer: AnyTrainer) -> Progress:
    return trainer.train(StopRequest())


def messages_of(trainer: AnyTrainer) -> list[str]:
    assert isinstance(trainer.listener, Messages)
    return trainer.listener.said


def weights_are_finite(trainer: AnyTrainer) -> bool:
    return all(bool(torch.isfinite(parameter).all()) for parameter in trainer.model.parameters())
