"""Shared by tests of training: a small recipe, a listener that remembers and interrupts, and what a run has logged."""

import json
import os
import signal
from pathlib import Path
from typing import Any

from weft.runs.train import Silent
from weft.training.run_folder import RunStatus


def tiny_recipe(**tables: dict[str, Any]) -> dict[str, Any]:
    """A recipe for the corpus of tiny_run, two steps per epoch, with the keys of `tables` changed."""
    tiny: dict[str, dict[str, Any]] = {
        "data": {"source": "zh", "target": "en", "train": ["train.tsv"], "valid": ["valid.tsv"]},
        "tokenizer": {"source_size": 300, "target_size": 300},
        "model": {"model_dim": 16, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1, "ff_dim": 16},
        "training": {"batch_sentences": 30, "precision": "fp32", "log_every": 1},
        "decoding": {"max_length_ratio": 1.0, "max_length_extra": 2},
    }
    return {name: {**tiny.get(name, {}), **tables.get(name, {})} for name in {**tiny, **tables}}


class Watcher(Silent):
    """Remembers what it is told; sends this process a signal at a step."""

    def __init__(self, signal_at: int | None = None) -> None:
        self.messages: list[str] = []
        self.validated: list[int] = []
        self.best: list[int] = []
        self.signal_at = signal_at

    def on_message(self, text: str) -> None:
        self.messages.append(text)

    def on_log(self, row: dict[str, Any], total_steps: int) -> None:
        if row["step"] == self.signal_at:
            os.kill(os.getpid(), signal.SIGTERM)

    def on_validation(self, row: dict[str, Any], samples: list[dict[str, str]], is_best: bool) -> None:
        self.validated.append(row["step"])
        self.best += [row["step"]] if is_best else []


def rows(run: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl."""
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def values(run: Path, name: str) -> list[float]:
    """The values of a key, from the lines that have it."""
    return [row[name] for row in rows(run) if name in row]


def losses(run: Path) -> list[float]:
    """Of each step that was logged."""
    return values(run, "loss")


def status(run: Path) -> RunStatus:
    return RunStatus.read(run / "run.json")
