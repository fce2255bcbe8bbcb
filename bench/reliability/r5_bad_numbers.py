"""R5: a loss or a gradient is NaN or infinite; is that step left out, and the run gone on with?

`python -m bench.reliability.r5_bad_numbers`. The loss of some steps, or the gradient that comes out of it, is spoiled.
After each step every weight must be a finite number; each spoiled step must be left out, counted, and its pairs named
in skipped.jsonl with the line that they stand in. In a second run every step from one on is spoiled: it must end after
as many as training.most_skipped says, with one clear error and its last checkpoint whole.
"""

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.reliability.faults import spoiled_run, train_on, weights_are_finite
from bench.reliability.place import broken_checkpoints, last_step, place
from bench.reliability.record import options_of, record

from weft.data.batching import Batch
from weft.errors import WeftError
from weft.runs.trial import AnyTrainer
from weft.training.task import Loss

NAME = "R5"
DOES = {
    "en": "NaN and infinity in the loss or in the gradient of {spoiled} steps; then in every step",
    "zh": "{spoiled} 步的损失或梯度为 NaN 或无穷大；然后是每一步",
}
FOUND = {
    "en": "{skipped} left out and counted, {named} pairs named, {wrongly} wrongly; weights finite after every step: "
    "{finite}; ends after {ends_after} in a row, the last checkpoint whole: {whole}",
    "zh": "跳过并计数 {skipped} 步，列出 {named} 个句对，列错 {wrongly} 个；每一步之后权重都是有限数：{finite}；"
    "连续 {ends_after} 步后停止，最后的检查点完好：{whole}",
}


def in_loss(number: float) -> Callable[[Loss], Loss]:
    return lambda loss: dataclasses.replace(loss, total=loss.total * number)


def in_gradient(number: float) -> Callable[[Loss], Loss]:
    def spoil(loss: Loss) -> Loss:
        loss.total.register_hook(lambda gradient: gradient * number)
        return loss

    return spoil


SPOILED = {
    5: in_loss(math.nan),
    9: in_loss(math.inf),
    14: in_gradient(math.nan),
    15: in_gradient(-math.inf),
    40: in_loss(math.nan),
}
"""Step -> what happens to it; an epoch has some thirty."""
FIRST_OF_ALL, MOST = 8, 6
"""In the second run: the first spoiled step, and how many in a row are too many."""


def main() -> None:
    options = options_of(__doc__)
    with place() as folder:
        figures = {**some_steps(folder), **every_step(folder)}
    is_named = figures["skipped"] == figures["spoiled"] and figures["named"] and not figures["wrongly"]
    passed = is_named and figures["finite"] and figures["whole"] and figures["ends_after"] == MOST
    record(options, NAME, figures, passed=bool(passed))


def some_steps(folder: Path) -> dict[str, Any]:
    """Go through a run in which some steps are spoiled."""
    finite = []

    def spoil(trainer: AnyTrainer, batch: Batch, compute: Callable[[], Loss]) -> Loss:
        finite.append(weights_are_finite(trainer))
        loss = compute()
        return SPOILED.get(trainer.progress.step + 1, lambda loss: loss)(loss)

    with spoiled_run(folder, "some", spoil, "training.epochs=2") as trainer:
        progress = train_on(trainer)
        finite.append(weights_are_finite(trainer))
    lines = (folder / "train.tsv").read_text(encoding="utf-8").split("\n")
    rows = [json.loads(row) for row in (folder / "some/skipped.jsonl").read_text(encoding="utf-8").splitlines()]
    pairs = [pair for row in rows for pair in row["pairs"]]
    wrong = [pair for pair in pairs if lines[pair["line"] - 1] != f"{pair['source']}\t{pair['target']}"]
    right_steps = [row["step"] for row in rows] == list(SPOILED)
    return {
        "spoiled": len(SPOILED),
        "skipped": progress.skipped if right_steps else -1,
        "named": len(pairs),
        "wrongly": len(wrong),
        "finite": all(finite),
    }


def every_step(folder: Path) -> dict[str, Any]:
    """Go through a run in which all steps from one on are spoiled."""

    def spoil(trainer: AnyTrainer, batch: Batch, compute: Callable[[], Loss]) -> Loss:
        loss = compute()
        return in_loss(math.nan)(loss) if trainer.progress.step + 1 >= FIRST_OF_ALL else loss

    with spoiled_run(folder, "every", spoil, f"training.most_skipped={MOST}") as trainer:
        try:
            train_on(trainer)
            said = ""
        except WeftError as error:
            said = str(error)
        last = FIRST_OF_ALL + MOST - 1
        is_clear = f"in {MOST} updates in a row, the last at step {last}; the last checkpoint is intact" in said
        return {
            "ends_after": trainer.progress.skipped_in_a_row if is_clear else -1,
            "whole": not broken_checkpoints(folder / "every")
            and last_step(folder / "every") > 0
            and weights_are_finite(trainer),
        }


if __name__ == "__main__":
    main()
