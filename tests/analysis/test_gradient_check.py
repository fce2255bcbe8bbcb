"""`weft check-gradients`: right gradients pass, for every kind of network, and a wrong one is found where it is."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.command_line import Weft
from torch import Tensor

from weft.analysis.gradient_check import TOLERANCE, GradientCheck, check_gradients, check_model
from weft.errors import UsageError
from weft.layers.fast import deferred_product, recurrence, short_attention

HEADER = '[data]\nsource = "zh"\ntarget = "en"\ntrain = ["x"]\nvalid = ["y"]\n[model]\n'
TRANSFORMER = HEADER + "model_dim = 16\nnum_heads = 2\nencoder_layers = 1\ndecoder_layers = 1\nff_dim = 16\n"
RECURRENT = HEADER + 'kind = "recurrent"\nembedding_dim = 8\nhidden_dim = 8\n'
LANGUAGE = 'task = "language-model"\n[data]\nlanguage = "en"\ntrain = ["x"]\nvalid = ["y"]\n[model]\n'
RECIPES = {
    "transformer": TRANSFORMER,
    "gated": TRANSFORMER + 'activation = "swiglu"\nnorm_layer = "rms"\npositions = "rotary"\nnorm = "post"\n',
    "lstm": RECURRENT + "encoder_layers = 2\nconvolution = 2\nweight_drop = 0.3\n",
    "gru": RECURRENT + 'cell = "gru"\nattention = "additive"\ncoverage = 1.0\nconnections = "highway"\n',
    "rnn": RECURRENT + 'cell = "rnn"\ninput_feeding = false\ncopying = true\nattention = "dot"\ntie = "none"\n',
    "language model": LANGUAGE + 'kind = "recurrent"\n',
}


@pytest.mark.parametrize("name", RECIPES)
def test_the_gradients_of_every_network_are_central_differences(weft: Weft, tmp_path: Path, name: str) -> None:
    (tmp_path / "recipe.toml").write_text(RECIPES[name], encoding="utf-8")
    code, out, error = weft("check-gradients", str(tmp_path / "recipe.toml"), "--json", str(tmp_path / "found.json"))
    assert code == 0, error
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert max(check["error"] for check in found["checks"]) <= TOLERANCE
    assert "network" in out and "are right, to 1e-06" in out and found["seconds"] < 60
    parts = {check["part"] for check in found["checks"]}
    assert ("MultiHeadAttention" in parts) == (name in ("transformer", "gated"))
    assert ("Recurrence" in parts) == (name not in ("transformer", "gated"))


def test_a_wrong_sign_in_the_backward_pass_of_a_cell_is_found_and_named(
    weft: Weft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(grad: Tensor, output: Tensor, *, grad_input: Tensor) -> Tensor:
        return right(grad, output, grad_input=grad_input).neg_()

    right = recurrence.sigmoid_backward
    monkeypatch.setattr(recurrence, "sigmoid_backward", wrong)
    (tmp_path / "recipe.toml").write_text(RECURRENT, encoding="utf-8")
    code, _, error = weft("check-gradients", str(tmp_path / "recipe.toml"))
    assert code == 1 and "Recurrence: encoder.layers." in error and "Linear" not in error


def test_a_wrong_sign_in_the_backward_pass_of_attention_is_found_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backward = short_attention.ShortAttention.backward

    def wrong(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        query, key, *others = backward(ctx, *gradients)
        return query, -key, *others

    monkeypatch.setattr(short_attention.ShortAttention, "backward", staticmethod(wrong))
    (tmp_path / "recipe.toml").write_text(RECIPES["transformer"], encoding="utf-8")
    assert {checked.part for checked in check_model(tmp_path / "recipe.toml").wrong[:2]} == {"MultiHeadAttention"}


def test_a_wrong_sign_in_the_backward_pass_of_a_deferred_product_is_found_in_the_attention_to_the_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backward = deferred_product.Step.backward

    def wrong(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        of_rows, *others = backward(ctx, *gradients)
        return -of_rows, *others

    monkeypatch.setattr(deferred_product.Step, "backward", staticmethod(wrong))
    (tmp_path / "recipe.toml").write_text(RECURRENT, encoding="utf-8")
    assert {checked.part for checked in check_model(tmp_path / "recipe.toml").wrong} == {"SourceAttention"}


def test_a_gradient_that_is_not_a_number_is_wrong() -> None:
    layer = torch.nn.Linear(2, 1).double()
    layer.weight.data[0, 0] = math.nan
    checked = GradientCheck("a", list(check_gradients(layer, lambda: layer(torch.ones(2).double()).sum())), 0.0)
    assert {one.error for one in checked.wrong} == {math.inf}


def test_a_trained_model_is_checked_and_fp32_is_refused(tiny_run: Path) -> None:
    assert not check_model(tiny_run / "run").wrong
    layer = torch.nn.Linear(2, 2)
    with pytest.raises(UsageError, match="in float64"):
        list(check_gradients(layer, lambda: layer(torch.ones(2)).sum()))
