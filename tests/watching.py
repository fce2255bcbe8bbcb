"""What tests of training share: a listener that remembers and interrupts, and the losses of a run."""

import json
import os
import signal
from pathlib import Path
from typing import Any

from weft.runs.train import Silent


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
