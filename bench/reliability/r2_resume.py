"""R2: N steps in one go against some steps, a break and the rest: are loss, weights and optimizer the same bit for bit?

`python -m bench.reliability.r2_resume`. For each way to train, one run is left alone and another is stopped by a signal
at several steps, some of them within an epoch, and gone on with by the same call.
"""

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.reliability.place import differences, place
from bench.reliability.record import options_of, record

from weft.errors import Stopped
from weft.runs.train import Silent, train

NAME = "R2"
DOES = {
    "en": "one go against {breaks} breaks, within epochs too: fp32, bf16, accumulation, a moving average of the "
    "weights, plateau with trials, Muon with layer dropout",
    "zh": "一次跑完，对比中断 {breaks} 次再继续（也在一轮中间）：fp32、bf16、梯度累积、权重滑动平均、plateau-trials、"
    "Muon 加层 dropout",
}
FOUND = {
    "en": "{equal} of {cases} equal bit for bit in weights, optimizer and metrics",
    "zh": "{cases} 种里有 {equal} 种的权重、优化器和指标逐位相同",
}

BREAKS = (1, 14, 38)
"""Steps after which a run is stopped; an epoch of the plain recipe has 23."""

CASES: dict[str, list[str]] = {
    "fp32": ['training.precision="fp32"'],
    "bf16": ['training.precision="bf16"'],
    "accumulation": ["training.accumulate=3", "training.epochs=9"],
    "a mean of the weights": ["training.ema_decay=0.9"],
    "plateau with trials": ['training.schedule="plateau-trials"', "training.patience=1", "training.learning_rate=0.02"],
    "Muon with layer dropout": ['training.optimizer="muon"', "model.layer_dropout=0.2"],
}


class StopsAfter(Silent):
    """Sends this process a signal when a step is logged, as a person does who presses Ctrl-C."""

    def __init__(self, step: int | None) -> None:
        self.step = step

    def on_log(self, row: dict[str, Any], total_steps: int) -> None:
        if row["step"] == self.step:
            os.kill(os.getpid(), signal.SIGINT)


def main() -> None:
    options = options_of(__doc__)
    with place() as folder:
        different = {name: found for name in CASES if (found := resume(folder, name, BREAKS))}
    figures = {
        "cases": len(CASES),
        "breaks": len(BREAKS),
        "equal": len(CASES) - len(different),
        "different": different,
    }
    record(options, NAME, figures, passed=not different)


def resume(folder: Path, name: str, breaks: Sequence[int]) -> list[str]:
    """The files in which a run with these breaks differs from one without any."""
    straight, broken = folder / f"{name} straight", folder / f"{name} broken"
    train(folder / "tiny.toml", run=straight, overrides=CASES[name])
    for step in (*breaks, None):
        try:
            train(folder / "tiny.toml", run=broken, overrides=CASES[name], listener=StopsAfter(step))
        except Stopped:
            continue
        if step is not None:
            return [f"the run ended before step {step}"]
    return differences(broken, straight)


if __name__ == "__main__":
    main()
