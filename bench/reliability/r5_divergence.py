"""R5, divergence: a learning rate far too high lets a run diverge; does it find back by itself, and only then?

`python -m bench.reliability.r5_divergence`. The same recipe twice, SGD at a rate a hundred times too high: as it
stands, and with training.divergence = inf, which leaves a run to its fate. And healthy recipes, with warm-ups of
several kinds, which must never fall back nor even be validated out of turn.
"""

import json
from pathlib import Path
from typing import Any

from bench.reliability.faults import Messages
from bench.reliability.place import last_step, place
from bench.reliability.record import options_of, record

from weft.runs.train import train

NAME = "R5, divergence"
DOES = {
    "en": "SGD at a rate 100 times too high; and {healthy} healthy recipes, each with another warm-up",
    "zh": "SGD，学习率高出 100 倍；以及 {healthy} 个正常配方，预热各不相同",
}
FOUND = {
    "en": "{fallbacks} fall-backs to the best weights, best validation loss {with_it} (left to its fate {without_it}); "
    "false alarms in the healthy runs: {false_alarms}",
    "zh": "退回最佳权重 {fallbacks} 次，最好的验证损失 {with_it}（放任不管时 {without_it}）；正常运行里的误报："
    "{false_alarms} 次",
}

EVERY = 40
COMMON = (
    f'training.validate_every="{EVERY} steps"',
    f'training.checkpoint_every="{EVERY} steps"',
    "training.select_by=loss",
    'training.precision="fp32"',
)
TOO_HIGH = ("training.optimizer=sgd", "training.learning_rate=10", "training.warmup=0.5", "training.epochs=20")
HEALTHY: dict[str, tuple[str, ...]] = {
    "one-cycle": ("training.learning_rate=0.005",),
    "Noam": ("training.schedule=noam", "training.learning_rate=1", "training.warmup=100"),
    "post-norm": ("model.norm=post", "training.learning_rate=0.003", "training.warmup=0.3"),
    "constant": ("training.schedule=constant", "training.learning_rate=0.005", "training.warmup=30"),
    "no smoothing, learned by heart": (
        "training.label_smoothing=0",
        "training.learning_rate=0.01",
        "training.epochs=40",
        "model.dropout=0",
    ),
}


def main() -> None:
    options = options_of(__doc__)
    with place() as folder:
        figures = {**too_high(folder), **healthy(folder, 12)}
    passed = figures["fallbacks"] > 0 and figures["with_it"] < figures["without_it"] and not figures["false_alarms"]
    record(options, NAME, figures, passed=passed)


def too_high(folder: Path) -> dict[str, Any]:
    """The best validation loss of a run that diverges, with and without what helps it."""
    best, fallbacks = [], []
    for divergence in ("1.0", "inf"):
        run, listener = folder / f"divergence {divergence}", Messages()
        overrides = (*COMMON, *TOO_HIGH, f"training.divergence={divergence}")
        train(folder / "tiny.toml", run=run, overrides=overrides, listener=listener)
        best.append(min(row["valid_loss"] for row in validations(run)))
        fallbacks.append(sum("has diverged" in message for message in listener.said))
    assert fallbacks[1] == 0
    return {"fallbacks": fallbacks[0], "with_it": round(best[0], 2), "without_it": round(best[1], 2)}


def healthy(folder: Path, epochs: int) -> dict[str, Any]:
    """Validations of healthy runs that found a divergence, or that were brought forward since one was suspected."""
    alarms = 0
    for name, overrides in HEALTHY.items():
        run = folder / name
        train(folder / "tiny.toml", run=run, overrides=(*COMMON, f"training.epochs={epochs}", *overrides))
        regular = {*range(0, last_step(run), EVERY), last_step(run)}
        alarms += sum("back_to" in row or row["step"] not in regular for row in validations(run))
    return {"healthy": len(HEALTHY), "false_alarms": alarms}


def validations(run: Path) -> list[dict[str, Any]]:
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [row for line in lines if "valid_loss" in (row := json.loads(line))]


if __name__ == "__main__":
    main()
