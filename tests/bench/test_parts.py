"""The plain forms that bench/parts.py times make the same step as the fast ones."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from bench.parts import PLAIN

from weft.config import Resolved, changed, read_recipe
from weft.folders.recipes import TranslationRecipe
from weft.preparing.corpora import read_all
from weft.preparing.first_model import first_model
from weft.preparing.preparation import prepare
from weft.runs.making import trainer_for_a_trial
from weft.runs.train import Silent


@pytest.fixture(scope="module")
def corpus(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """The files of the tiny run, and what is prepared of them."""
    resolved = cast(Resolved[TranslationRecipe], read_recipe(tiny_run / "tiny.toml", TranslationRecipe))
    files = read_all(resolved.recipe, tiny_run, Silent())
    return files, prepare(resolved, files, tmp_path_factory.mktemp("parts") / "corpus", Silent())


def after_a_step(corpus: tuple[Any, Any], plain: str, dropout: float) -> list[torch.Tensor]:
    """The matrices of a model of rotary positions after one step of Muon, some parts in their plain form.

    Not the biases: that of the keys has no gradient but errors of rounding, and its step is as long as any.
    """
    files, prepared = corpus
    settings = {"model.positions": "rotary", "training.optimizer": "muon", "model.dropout": dropout}
    prepared = replace(prepared, resolved=changed(prepared.resolved, settings, "test"))
    with PLAIN[plain](), trainer_for_a_trial(first_model(prepared), prepared.store, files, Silent()) as trainer:
        trainer.update(next(iter(cast(Any, trainer.batches).epoch(0))))
        return [parameter for parameter in trainer.model.parameters() if parameter.dim() > 1]


@pytest.fixture(scope="module")
def fast(corpus: tuple[Any, Any]) -> list[torch.Tensor]:
    return after_a_step(corpus, "none", dropout=0)


@pytest.mark.parametrize("plain", [name for name in PLAIN if name != "none"])
def test_without_dropout_a_step_by_plain_forms_is_the_fast_step(
    corpus: tuple[Any, Any], fast: list[torch.Tensor], plain: str
) -> None:
    for ours, theirs in zip(after_a_step(corpus, plain, dropout=0), fast, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("plain", PLAIN)
def test_with_dropout_every_plain_form_makes_a_step(corpus: tuple[Any, Any], plain: str) -> None:
    assert all(p.isfinite().all() for p in after_a_step(corpus, plain, dropout=0.2))
