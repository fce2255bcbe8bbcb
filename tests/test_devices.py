"""On a device that is no CPU: without one here, that all tensors of a pass lie on it; with a GPU, that it computes what
a CPU computes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.watching import losses
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from weft.folders.finding import find_model
from weft.folders.model_folder import load_model
from weft.layers.attention import attend_explicit, attend_fused
from weft.layers.dropout import Dropout
from weft.layers.fast.blocked_loss import BlockedCrossEntropy, Teaching
from weft.models.transformer import Transformer, TransformerConfig
from weft.preparing import first_model
from weft.runs import making
from weft.runs.train import train
from weft.tasks import translation as task
from weft.training.losses import (
    blocked_cross_entropy,
    blocked_guided_cross_entropy,
    cross_entropy,
)
from weft.translating import translator as translation
from weft.translating.translator import Translator

VOCAB = 30
SHAPES: dict[str, dict[str, Any]] = {
    "the default": {},
    "post-norm": {"norm": "post"},
    "learned positions": {"positions": "learned", "max_positions": 20},
    "rotary positions": {"positions": "rotary"},
    "scaled sinusoids": {"positions": "scaled-sinusoidal"},
    "gated, RMS": {"activation": "swiglu", "norm_layer": "rms"},
}


@pytest.fixture
def elsewhere() -> Iterator[torch.device]:
    """A device of which there are only the shapes: what mixes it with the CPU fails, and nothing is computed."""
    with FakeTensorMode():
        yield torch.device("lazy")


def small(**changes: Any) -> Transformer:
    config = TransformerConfig(
        **{"model_dim": 16, "num_heads": 2, "encoder_layers": 2, "decoder_layers": 2, "ff_dim": 32, **changes}
    )
    return Transformer(config, source_vocab_size=VOCAB, target_vocab_size=VOCAB, padding_id=0)


def moved(model: Transformer, device: torch.device) -> Transformer:
    """What `model.to(device)` does, which torch cannot do to parameters that have only a shape."""
    parts: dict[int, nn.Parameter] = {}
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False, remove_duplicate=False):
            parts.setdefault(id(parameter), nn.Parameter(parameter.detach().to(device)))
            module._parameters[name] = parts[id(parameter)]
        for name, buffer in module.named_buffers(recurse=False):
            module._buffers[name] = buffer.to(device)
    return model


def tokens(device: torch.device, batch: int = 3, time: int = 7) -> Tensor:
    return torch.ones(batch, time, dtype=torch.long).to(device)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_training_pass_stays_on_the_models_device(elsewhere: torch.device, shape: str, dtype: torch.dtype) -> None:
    model = moved(small(**SHAPES[shape]), elsewhere)
    model.compute_dtype = dtype
    model(tokens(elsewhere), tokens(elsewhere)).float().sum().backward()
    assert {p.grad.device.type for p in model.parameters() if p.grad is not None} == {"lazy"}


def test_the_loss_and_its_gradients_stay_on_the_models_device(elsewhere: torch.device) -> None:
    def shaped(*size: int) -> Tensor:
        return torch.ones(*size).to(elsewhere).requires_grad_()

    hidden, weight, labels = shaped(2, 5, 8), shaped(VOCAB, 8), torch.ones(5, dtype=torch.long).to(elsewhere)
    blocked_cross_entropy(hidden[0], weight, labels, 0.1, 1e-4).total.backward()
    teaching = Teaching((shaped(5, 4),), (shaped(VOCAB, 4),), share=0.5, temperature=2.0)
    blocked_guided_cross_entropy(hidden, weight, labels, 0.1, 1e-4, r_drop=1.0, teaching=teaching).total.backward()
    assert hidden.grad is not None and weight.grad is not None
    assert (hidden.grad.device.type, weight.grad.device.type) == ("lazy", "lazy")


# With a GPU

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
GPU = torch.device("cuda")

SENTENCES = ["我昨天买了三本书。", "谢谢。", "你想喝什么？", "她比我高。", "我不知道他们为什么还没有回家。"]
SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"method": "greedy"},
    "beam": {"method": "beam", "beam_size": 5},
    "diverse beam": {"method": "beam", "beam_size": 4, "diverse_groups": 2},
    "samples": {"method": "sample", "top_k": 5},
    "minimum risk": {"method": "mbr", "beam_size": 4},
    "a phrase": {"method": "beam", "beam_size": 4, "phrases": [["book"], [], [], [], []]},
}


@needs_gpu
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 0.05)])
def test_on_a_gpu_fused_attention_is_explicit_attention(dtype: torch.dtype, tolerance: float) -> None:
    query, key, value = (torch.randn(2, 3, time, 8, device=GPU, dtype=dtype, requires_grad=True) for time in (5, 7, 7))
    allowed = torch.rand(2, 1, 5, 7, device=GPU) < 0.5
    allowed[0, 0, 1] = False  # a query that may see nothing
    forms = [attend(query, key, value, allowed) for attend in (attend_explicit, attend_fused)]
    torch.testing.assert_close(*forms, rtol=tolerance, atol=tolerance)
    direction = torch.randn_like(forms[0])
    slopes = [torch.autograd.grad((form * direction).sum(), (query, key, value)) for form in forms]
    torch.testing.assert_close(*slopes, rtol=tolerance, atol=tolerance)


@needs_gpu
def test_on_a_gpu_dropout_keeps_the_mean_and_drops_its_share() -> None:
    x = torch.ones(1000, 1000, device=GPU)
    dropped = Dropout(0.3)(x)
    assert float((dropped == 0).float().mean()) == pytest.approx(0.3, abs=0.005)
    assert float(dropped.mean()) == pytest.approx(1.0, abs=0.01)


@needs_gpu
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.bfloat16, 0.03)])
def test_on_a_gpu_the_loss_in_blocks_is_its_definition(dtype: torch.dtype, tolerance: float) -> None:
    count = BlockedCrossEntropy.gpu_block + 77
    hidden = torch.randn(count, 16, device=GPU, dtype=dtype, requires_grad=True)
    weight = torch.randn(VOCAB, 16, device=GPU, requires_grad=True)
    labels = torch.randint(VOCAB, (count,), device=GPU)
    whole = cross_entropy(hidden @ weight.to(dtype).T, labels, 0.1, 1e-3)
    blocked = blocked_cross_entropy(hidden, weight, labels, 0.1, 1e-3)
    torch.testing.assert_close(blocked.total, whole.total, rtol=tolerance, atol=0)
    slopes = [torch.autograd.grad(loss.total / count, (hidden, weight)) for loss in (whole, blocked)]
    torch.testing.assert_close(*slopes, rtol=tolerance, atol=tolerance)


@needs_gpu
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_gpu_trains_as_a_cpu_does(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, optimizer: str
) -> None:
    # Without dropout, whose bits are the device's own.
    overrides = ["model.dropout=0", f"training.optimizer={optimizer}", "training.log_every=1", "training.epochs=5"]
    found = {}
    for device in (GPU, torch.device("cpu")):
        for module in (making, task, translation, first_model):
            monkeypatch.setattr(module, "choose_device", lambda device=device: device)
        run = train(tiny_run / "tiny.toml", run=tmp_path / device.type, overrides=overrides)
        found[device.type] = losses(run)
    assert len(found["cuda"]) == 10
    assert found["cuda"] == pytest.approx(found["cpu"], rel=1e-3)


@needs_gpu
@pytest.mark.parametrize("dropout", [0.0, 0.2])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_recorded_passes_train_as_those_that_are_not(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: str, dropout: float
) -> None:
    overrides = [f"model.dropout={dropout}", f"training.precision={precision}", "training.log_every=1"]
    overrides += ["training.optimizer=muon", "training.epochs=20", "training.accumulate=2"]
    found, replays, replay = {}, [], torch.cuda.CUDAGraph.replay
    monkeypatch.setattr(torch.cuda.CUDAGraph, "replay", lambda graph: (replays.append(graph), replay(graph)))
    for graphs in ("true", "false"):
        run = train(tiny_run / "tiny.toml", run=tmp_path / graphs, overrides=[*overrides, f"training.graphs={graphs}"])
        found[graphs] = losses(run)
    assert len(replays) == 40 - 2 + 19  # all but the first batch of both shapes, all steps but the first
    assert len(found["true"]) == 20
    # Other masks, since a batch that is filled up takes more random numbers: in the mean they lead as far.
    tolerance = 1e-4 if not dropout and precision == "fp32" else 0.05
    assert found["true"] == pytest.approx(found["false"], rel=tolerance)


@needs_gpu
def test_a_run_of_recorded_passes_goes_on_as_if_it_had_not_stopped(tiny_run: Path, tmp_path: Path) -> None:
    overrides = ["model.dropout=0.2", "training.log_every=1", "training.schedule=constant", "training.warmup=0"]
    whole = train(tiny_run / "tiny.toml", run=tmp_path / "whole", overrides=[*overrides, "training.epochs=10"])
    for epochs in (4, 10):  # in its second sitting it computes first what the whole run replays there
        train(tiny_run / "tiny.toml", run=tmp_path / "parts", overrides=[*overrides, f"training.epochs={epochs}"])
    assert losses(whole) == pytest.approx(losses(tmp_path / "parts"), rel=1e-3)


@needs_gpu
def test_two_passes_of_r_drop_can_be_recorded(tiny_run: Path, tmp_path: Path) -> None:
    overrides = ["training.r_drop=1", "training.log_every=1", "training.epochs=20", "model.dropout=0.1"]
    run = train(tiny_run / "tiny.toml", run=tmp_path / "run", overrides=overrides)
    found = losses(run)
    assert found[-1] < 0.8 * found[0]


@needs_gpu
@pytest.mark.parametrize("search", SEARCHES)
def test_a_gpu_translates_as_a_cpu_does(search: str) -> None:
    texts = []
    for device in (GPU, torch.device("cpu")):
        translator = Translator(load_model(find_model("zh-en")), device)
        texts.append([found.text for found in translator.translate(SENTENCES, precision="fp32", **SEARCHES[search])])
    assert texts[0] == texts[1] and len(set(texts[0])) == len(SENTENCES)
