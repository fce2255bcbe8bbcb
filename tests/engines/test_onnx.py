"""ONNX Runtime answers every step as the model does, so every search finds the same."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch

from weft.decoding.search import DecodingConfig
from weft.decoding.step import Hypothesis
from weft.engines.onnx import ENCODER, STEP, OnnxEngine, run
from weft.errors import MissingExtraError, ModelError, WeftError
from weft.export.folder import GRAPHS
from weft.export.onnx import write_onnx
from weft.models.transformer import Transformer

Lively = Callable[..., Transformer]
Find = Callable[..., list[Hypothesis]]


def engine_of(model: Transformer, folder: Path, precision: str = "fp32") -> OnnxEngine:
    write_onnx(model, folder, precision, 32, GRAPHS["transformer"])
    return OnnxEngine(folder, threads=1)


def test_greedy_and_beam_search_find_what_weft_finds(
    form: dict[str, Any], lively: Lively, find: Find, tmp_path: Path, sources: list[list[int]]
) -> None:
    model = lively(**form)
    engine = engine_of(model, tmp_path)
    for method in ("greedy", "beam"):
        config = DecodingConfig(method=method, max_length_ratio=0, max_length_extra=20)
        found, expected = (find(start, sources, config) for start in (engine.start, model.start))
        assert [hypothesis.tokens for hypothesis in found] == [hypothesis.tokens for hypothesis in expected]
        for ours, theirs in zip(expected, found, strict=True):
            assert theirs.score == pytest.approx(ours.score, abs=1e-4)


def test_every_layer_may_have_heads_of_its_own_number(
    lively: Lively, find: Find, tmp_path: Path, sources: list[list[int]]
) -> None:
    uneven = {"encoder_heads": (2, 1), "decoder_heads": (1, 2), "cross_heads": (2, 1)}
    test_greedy_and_beam_search_find_what_weft_finds({**uneven, "positions": "rotary"}, lively, find, tmp_path, sources)


def test_every_activation_is_the_model_s(lively: Lively, tmp_path: Path) -> None:
    model = lively(activation="elu")  # the others stand in the forms above
    source, tokens = torch.tensor([[5, 6, 3], [7, 3, 0]]), torch.tensor([2, 2])
    step, expected = engine_of(model, tmp_path).start(source), model.start(source)
    with torch.inference_mode():
        torch.testing.assert_close(step.step(tokens), expected.step(tokens))


def test_a_graph_that_claims_endless_keys_is_refused_before_they_are_made(lively: Lively, tmp_path: Path) -> None:
    engine_of(lively(), tmp_path)
    graph = onnx.load(tmp_path / STEP)
    (key,) = [given for given in graph.graph.input if given.name == "key_0"]
    key.type.tensor_type.shape.dim[2].dim_value = 1 << 40
    onnx.save(graph, tmp_path / STEP)
    with pytest.raises(ModelError, match=STEP):
        OnnxEngine(tmp_path, threads=1)


def test_a_graph_that_does_not_say_how_many_tokens_it_knows_is_refused(lively: Lively, tmp_path: Path) -> None:
    engine_of(lively(), tmp_path)
    graph = onnx.load(tmp_path / STEP)
    onnx.helper.set_model_props(graph, {"vocab_size": "abc"})
    onnx.save(graph, tmp_path / STEP)
    with pytest.raises(ModelError, match="has no size of the vocabulary"):
        OnnxEngine(tmp_path, threads=1)


def test_memory_that_runs_out_is_no_damage() -> None:
    class Session:
        def run(self, names: list[str], given: dict[str, Any]) -> None:
            raise Exception("Non-zero status code: BFCArena::AllocateRawInternal Failed to allocate memory")

    with pytest.raises(MemoryError):
        run(Session(), [], {})


def test_rows_are_followed_and_sentences_left_out(lively: Lively, tmp_path: Path) -> None:
    model = lively()
    source = torch.tensor([[5, 6, 7, 3], [8, 9, 3, 0], [10, 3, 0, 0]])
    with torch.inference_mode():
        states = engine_of(model, tmp_path).start(source, 2), model.start(source, 2)
        for tokens, rows in (
            ([2, 2, 2, 2, 2, 2], [1, 1, 2, 3, 5, 4]),
            ([11, 12, 13, 14, 15, 16], [0, 1, 5, 5]),
            ([17, 18, 19, 20], [2, 3]),
            ([21, 22], [0, 1]),
        ):
            torch.testing.assert_close(*(state.step(torch.tensor(tokens)) for state in states), rtol=1e-4, atol=1e-4)
            for state in states:
                state.reorder(torch.tensor(rows))


def test_int8_is_near_fp32_in_a_quarter_of_the_bytes(lively: Lively, tmp_path: Path) -> None:
    model = lively(model_dim=64, ff_dim=256, tie="all")
    source, tokens = torch.tensor([[5, 6, 7, 3], [8, 9, 3, 0]]), torch.tensor([2, 2])
    answers, sizes = {}, {}
    for precision in ("fp32", "int8"):
        (tmp_path / precision).mkdir()
        answers[precision] = engine_of(model, tmp_path / precision, precision).start(source).step(tokens).exp()
        sizes[precision] = sum((tmp_path / precision / name).stat().st_size for name in (ENCODER, STEP))
    assert sizes["int8"] < 0.45 * sizes["fp32"]
    assert 0 < (answers["int8"] - answers["fp32"]).abs().max() < 0.05


def test_in_int8_a_sentence_is_answered_alone_as_in_company(lively: Lively, tmp_path: Path) -> None:
    source, tokens = torch.tensor([[5, 6, 7, 3], [8, 9, 3, 0]]), torch.tensor([2, 2])
    engine = engine_of(lively(), tmp_path, "int8")
    together = engine.start(source).step(tokens)
    alone = engine.start(source[1:, :3]).step(tokens[1:])
    torch.testing.assert_close(alone[0], together[1], rtol=1e-5, atol=1e-5)


def test_a_graph_that_is_damaged_or_another_s_is_refused_by_name(lively: Lively, tmp_path: Path) -> None:
    engine_of(lively(), tmp_path)
    whole = {name: (tmp_path / name).read_bytes() for name in (ENCODER, STEP)}
    (tmp_path / STEP).write_bytes(whole[STEP][:1000])
    with pytest.raises(ModelError, match=r"step\.onnx +cannot be read by ONNX Runtime"):
        OnnxEngine(tmp_path, threads=1)
    (tmp_path / STEP).write_bytes(whole[ENCODER])
    with pytest.raises(ModelError, match=r"step\.onnx +is not the step that belongs to encoder\.onnx"):
        OnnxEngine(tmp_path, threads=1)


def test_a_token_that_the_graph_does_not_know_is_an_error_that_says_where(lively: Lively, tmp_path: Path) -> None:
    engine = engine_of(lively(), tmp_path)
    with pytest.raises(WeftError, match=r"ONNX Runtime failed: (?s:.*)the exported graphs may be damaged"):
        engine.start(torch.tensor([[5, 4000, 3]]))


@pytest.mark.parametrize("library", ["onnx", "onnxruntime"])
def test_a_missing_library_is_named_with_its_extra(
    library: str, lively: Lively, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ENCODER).write_bytes(b"")
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=r"ONNX.* is needed for this.*pip install '\.\[export\]'"):
        if library == "onnx":
            write_onnx(lively(), tmp_path, "fp32", 32, GRAPHS["transformer"])
        else:
            OnnxEngine(tmp_path, threads=1)
