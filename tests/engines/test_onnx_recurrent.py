"""A recurrent model in ONNX: its steps are those of the model, whatever its cell, its connections and its attention."""

from pathlib import Path
from typing import Any

import pytest
import torch

from weft.engines.onnx import OnnxEngine
from weft.export.folder import GRAPHS
from weft.export.onnx import write_onnx
from weft.export.onnx_recurrent import refusals
from weft.models.recurrent import RecurrentConfig, RecurrentSeq2Seq
from weft.text.vocabulary import BEGIN_ID, END_ID, PADDING_ID

SOURCE = torch.tensor([[5, 6, 7, 8, END_ID], [9, 5, END_ID, PADDING_ID, PADDING_ID]])
TARGET = torch.tensor([[BEGIN_ID, 4, 5, 6], [BEGIN_ID, 7, 4, 9]])


def network(**settings: Any) -> RecurrentSeq2Seq:
    sizes = {"embedding_dim": 8, "hidden_dim": 12, "encoder_layers": 2, "decoder_layers": 2}
    config = RecurrentConfig(**{**sizes, **settings})
    model = RecurrentSeq2Seq(config, source_vocab_size=12, target_vocab_size=10, padding_id=PADDING_ID).eval()
    for parameter in model.parameters():
        if parameter.dim() == 1:  # biases begin with 0
            torch.nn.init.normal_(parameter, std=0.5)
    return model


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"input_feeding": False, "convolution": 2, "tie": "none"},
        {"cell": "gru", "connections": "highway"},
        {"cell": "rnn", "attention": "additive", "convolution": 3},
        {"attention": "dot", "connections": "dense"},
        {"attention": "scaled", "connections": "residual"},
        {"attention": "none"},
        {"encoder_layers": 3, "encoder_dim": 5},
        {"encoder_layers": 1, "cell": "gru"},
    ],
    ids=str,
)
def test_steps_are_those_of_the_model_also_after_rows_were_reordered_and_sentences_left(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    model = network(**settings)
    write_onnx(model, tmp_path, "fp32", 64, GRAPHS["recurrent"])
    rows = TARGET.repeat_interleave(2, 0)
    with torch.inference_mode():
        ours, theirs = model.start(SOURCE, 2), OnnxEngine(tmp_path, threads=1).start(SOURCE, 2)
        for place, order in enumerate(([1, 0, 3, 2], [0, 1, 2, 3], [3, 2])):
            torch.testing.assert_close(theirs.step(rows[:, place]), ours.step(rows[:, place]), rtol=1e-4, atol=1e-5)
            for state in (ours, theirs):
                state.reorder(torch.tensor(order))
        torch.testing.assert_close(theirs.step(rows[2:, 3]), ours.step(rows[2:, 3]), rtol=1e-4, atol=1e-5)


def test_what_is_not_written_is_named() -> None:
    named = [problem.where for problem in refusals(network(coverage=1.0, copying=True), "int8")]
    assert named == ["--precision", "model.coverage", "model.copying"]
