"""Layers that torch compiles compute what the plain ones do; what torch makes of them is torch's own affair."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from tests.watching import losses
from torch import Tensor, fx, nn

import weft
from weft.errors import UsageError
from weft.layers.recurrence import Recurrence
from weft.models.transformer import Transformer, TransformerConfig
from weft.models.transformer_session import TransformerSession
from weft.training import compilation
from weft.training.compilation import check_compiler, compile_layers

CPU = torch.device("cpu")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """One for each call of what was compiled: by a compiler that leaves everything as it is, so takes no minute."""
    found: list[str] = []

    def compiler(graph: fx.GraphModule, inputs: list[Tensor]) -> Callable[..., object]:
        def compiled(*given: Tensor) -> object:
            found.append(type(graph).__name__)
            return graph.forward(*given)

        return compiled

    monkeypatch.setattr(compilation, "BACKEND", compiler)
    yield found
    torch.compiler.reset()


class Stack(nn.Module):
    """Layers one after the other. The tests' own, since torch cannot look through the checks of shapes on weft's."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8)) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def test_recurrent_layers_are_not_compiled_and_a_model_of_them_alone_is_refused(calls: list[str]) -> None:
    model = nn.Module()
    model.layers = nn.ModuleList([Recurrence(8, 8), nn.Linear(8, 8), nn.Identity()])
    with pytest.raises(UsageError, match="no stack of layers that can be"):
        compile_layers(model, CPU)


def outputs_and_gradients(model: nn.Module, x: Tensor) -> list[Tensor]:
    model.zero_grad()
    outputs = model(x)
    outputs.square().mean().backward()
    return [outputs, *(parameter.grad for parameter in model.parameters() if parameter.grad is not None)]


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # which torch's compiler asks for
def test_outputs_and_gradients_are_those_of_the_plain_layers_at_any_length(calls: list[str]) -> None:
    plain, compiled = Stack(), Stack()
    compile_layers(compiled, CPU)
    calls.clear()
    for length in (5, 9, 12):
        x = torch.randn(3, length, 8)
        for one, other in zip(*(outputs_and_gradients(model, x) for model in (plain, compiled)), strict=True):
            torch.testing.assert_close(one, other)
    assert len(calls) == 3 * 3  # three layers, three lengths


def test_what_validates_and_translates_is_not_compiled(calls: list[str]) -> None:
    compiled = Stack().eval()
    compile_layers(compiled, CPU)
    calls.clear()
    with torch.inference_mode():
        compiled(torch.randn(2, 5, 8))
    assert not calls


def test_a_compiled_model_has_the_names_of_a_plain_one(calls: list[str]) -> None:
    compiled = Stack()
    compile_layers(compiled, CPU)
    assert compiled.state_dict().keys() == Stack().state_dict().keys()


def test_a_compiled_transformer_is_searched_in_its_fast_form(calls: list[str]) -> None:
    config = TransformerConfig(model_dim=8, num_heads=1, encoder_layers=1, decoder_layers=1, ff_dim=8)
    model = Transformer(config, source_vocab_size=5, target_vocab_size=5, padding_id=0)
    compile_layers(model, CPU)
    assert all(isinstance(layer.forward, compilation.InTraining) for layer in compilation.layers_of(model))
    calls.clear()
    state = model.eval().start(torch.tensor([[3, 4, 2]]))
    state.step(torch.tensor([1]))
    assert not calls and isinstance(state, TransformerSession)


def test_a_recipe_that_asks_for_it_compiles_the_layers(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    monkeypatch.setattr("weft.training.recording.compile_layers", lambda model, device: seen.append(device.type))
    weft.train(tiny_run / "tiny.toml", run=tmp_path / "run", data=tiny_run, overrides=["training.compile=true"])
    assert seen == ["cpu"]


def test_a_compiler_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(graph: fx.GraphModule, inputs: list[Tensor]) -> Callable[..., object]:
        raise RuntimeError("No working C++ compiler found")

    monkeypatch.setattr(compilation, "BACKEND", broken)
    with pytest.raises(UsageError, match=r"needs a C\+\+ compiler that works here, .*No working C\+\+ compiler found"):
        check_compiler(CPU)


@pytest.mark.slow
def test_a_run_with_torchs_own_kernels_learns_what_one_without_does(tmp_path: Path, tiny_run: Path) -> None:
    def losses_with(name: str, *settings: str) -> list[float]:
        changes = [part for setting in ("model.dropout=0", *settings) for part in ("--set", setting)]
        run = tmp_path / name
        command = [sys.executable, "-m", "weft", "train", "tiny.toml", "--run", str(run), *changes]
        subprocess.run(command, check=True, capture_output=True, cwd=tiny_run)
        return losses(run)

    assert losses_with("compiled", "training.compile=true") == pytest.approx(losses_with("plain"), rel=1e-5)
