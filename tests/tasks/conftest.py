"""What the tests of the tasks share: a model that was never trained, and who watches a training."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from weft.config import resolve
from weft.tasks.model_folder import TranslationModel, build_transformer, find_model, load_model
from weft.tasks.recipes import TranslationRecipe
from weft.tasks.training import Silent
from weft.text.kinds import pieces_of
from weft.text.word_ranges import BYTE


class Watcher(Silent):
    """Remembers what it is told; sends this process a signal at a step."""

    def __init__(self, signal_at: int | None = None) -> None:
        self.messages: list[str] = []
        self.signal_at = signal_at

    def on_message(self, text: str) -> None:
        self.messages.append(text)

    def on_log(self, row: dict[str, Any], total_steps: int) -> None:
        if row["step"] == self.signal_at:
            os.kill(os.getpid(), signal.SIGTERM)


def losses(run: Path) -> list[float]:
    """Of each step that was logged."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [row["loss"] for row in rows if "loss" in row]


@pytest.fixture
def random_model(tiny_run: Path) -> TranslationModel:
    """2+2 layers, 64 wide, random weights, the vocabularies of tiny_run."""
    trained = load_model(find_model(tiny_run / "run"))
    recipe = {
        "data": {"source": "zh", "target": "en", "train": ["train.tsv"], "valid": ["valid.tsv"]},
        "tokenizer": {"source_script": "simplified", "target_script": "keep"},
        "model": {
            "model_dim": 64,
            "num_heads": 4,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "ff_dim": 128,
            "tie": "none",  # random weights that are tied write the token again that they have just read
        },
        "decoding": {"max_length_ratio": 1.0, "max_length_extra": 2},
    }
    resolved = resolve(recipe, TranslationRecipe, "a random model")
    sizes = trained.source_tokenizer.vocab_size, trained.target_tokenizer.vocab_size
    model = build_transformer(resolved.recipe, *sizes).eval()
    with torch.no_grad():
        model.output.weight.mul_(3)  # sharper than at its start, so that no two answers are near a tie
    return TranslationModel(resolved, model, trained.source_tokenizer, trained.target_tokenizer)


@pytest.fixture
def wordy_model(random_model: TranslationModel) -> TranslationModel:
    """The same, writing words: most pieces of its small vocabulary are bytes, and those are improbable here."""
    pieces = pieces_of(random_model.target_tokenizer, "bpe")
    with torch.no_grad():
        random_model.model.output.weight[[bool(BYTE.fullmatch(piece)) for piece in pieces]] = 0.0
    return random_model
