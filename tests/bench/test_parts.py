"""The plain forms that bench/parts.py times make the same step as the fast ones."""

from pathlib import Path
from typing import Any, cast

import pytest
import torch
from bench.parts import PLAIN

from weft.config import Resolved, read_recipe
from weft.folders.recipes import TranslationRecipe
from weft.preparing.corpora import read_all
from weft.preparing.first_model import first_model
from weft.preparing.preparation import prepare
from weft.runs.making import trainer_for_a_trial
from weft.runs.train import Silent


def after_a_step(folder: Path, work: Path, plain: str, dropout: float) -> list[torch.Tensor]:
    """The matrices of a model of rotary positions after one step of Muon, some parts in their plain form.

    Not the biases: that of the keys has no gradient but errors of rounding, and its step is as long as any.
    """
    changes = ["model.positions=rotary", "training.optimizer=muon", f"model.dropout={dropout}"]
    resolved = cast(Resolved[TranslationRecipe], read_recipe(folder / "tiny.toml", TranslationRecipe, changes))
    corpora = read_all(resolved.recipe, folder, Silent())
    prepared = prepare(resolved, corpora, work, Silent())
    with PLAIN[plain](), trainer_for_a_trial(first_model(prepared), prepared.store, corpora, Silent()) as trainer:
        trainer.update(next(iter(cast(Any, trainer.batches).epoch(0))))
        return [parameter for parameter in trainer.model.parameters() if parameter.dim() > 1]


@pytest.fixture(scope="module")
def fast(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> list[torch.Tensor]:
    return after_a_step(tiny_run, tmp_path_factory.mktemp("fast") / "corpus", "none", dropout=0)


@pytest.mark.parametrize("plain", PLAIN)
def test_without_dropout_a_step_by_plain_forms_is_the_fast_step(
    tiny_run: Path, tmp_path: Path, fast: list[torch.Tensor], plain: str
) -> None:
    for ours, theirs in zip(after_a_step(tiny_run, tmp_path / "corpus", plain, dropout=0), fast, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("plain", PLAIN)
def test_with_dropout_every_plain_form_makes_a_step(tiny_run: Path, tmp_path: Path, plain: str) -> None:
    assert all(p.isfinite().all() for p in after_a_step(tiny_run, tmp_path / "corpus", plain, dropout=0.2))
