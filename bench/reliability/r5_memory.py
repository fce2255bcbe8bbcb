"""R5, memory: batches do not fit into memory; does a run go on with smaller ones, to the same end?

`python -m bench.reliability.r5_memory`. The error that torch raises on a GPU is injected for every batch of more than a
given number of pairs, so that the test needs none. A run that meets it must end with the weights of one that does not,
to rounding (without dropout, whose numbers are drawn for other shapes); and stopped and gone on with it must end bit
for bit as it does in one go, also where memory suffices after the break.
"""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from bench.reliability.faults import Spoiler, messages_of, spoiled_run, train_on
from bench.reliability.place import place
from bench.reliability.record import options_of, record
from safetensors.torch import load_file

from weft.data.batching import Batch
from weft.runs.trial import AnyTrainer
from weft.training.task import Loss

NAME = "R5, memory"
DOES = {
    "en": "memory for {most_rows} pairs at a time, in batches of up to {rows}",
    "zh": "内存只够同时处理 {most_rows} 个句对，而一批最多有 {rows} 个",
}
FOUND = {
    "en": "computed in {parts} parts, said {said} times; weights within {difference} of those of whole batches; "
    "resumed bit for bit: {resumes}",
    "zh": "分成 {parts} 份计算，提示 {said} 次；权重与整批计算相差不超过 {difference}；续跑逐位一致：{resumes}",
}

MOST_ROWS, ENOUGH = 10, 1_000_000
TOLERANCE = 1e-4
STEPS = 12
SETTINGS = (
    "training.batch_tokens=600",
    f"training.steps={STEPS}",
    'training.precision="fp32"',
    "training.optimizer=sgd",
    "training.learning_rate=0.1",
)


class Interrupted(Exception):
    """Ends a sitting as a kill does."""


def main() -> None:
    options = options_of(__doc__)
    with place() as folder:
        figures = run_out(folder)
    passed = figures["difference"] < TOLERANCE and figures["resumes"] and figures["parts"] > 1
    record(options, NAME, figures, passed=passed)


def run_out(folder: Path) -> dict[str, Any]:
    rows: list[int] = []
    with spoiled_run(folder, "whole", limited(ENOUGH, rows), *SETTINGS, "model.dropout=0") as whole:
        train_on(whole)
    with spoiled_run(folder, "parts", limited(MOST_ROWS), *SETTINGS, "model.dropout=0") as parts:
        progress = train_on(parts)
        said = sum("memory ran out in step" in message for message in messages_of(parts))
    ours, theirs = (dict(trainer.model.named_parameters()) for trainer in (parts, whole))
    difference = max(float((ours[name] - theirs[name]).detach().abs().max()) for name in ours)
    return {
        "most_rows": MOST_ROWS,
        "rows": max(rows),
        "parts": progress.parts,
        "said": said,
        "difference": float(f"{difference:.1e}"),
        "resumes": resumes(folder),
    }


def resumes(folder: Path) -> bool:
    """With dropout: a run that is killed after the split, and finds memory enough afterwards, is one in one go."""
    with spoiled_run(folder, "straight", limited(MOST_ROWS), *SETTINGS) as straight:
        train_on(straight)
    killed = limited(MOST_ROWS, killed_in=STEPS // 2)
    with contextlib.suppress(Interrupted), spoiled_run(folder, "broken", killed, *SETTINGS) as broken:
        train_on(broken)
    with spoiled_run(folder, "broken", limited(ENOUGH), *SETTINGS) as broken:
        train_on(broken)
    files = [load_file(folder / run / f"checkpoints/step-{STEPS}/model.safetensors") for run in ("straight", "broken")]
    return all(torch.equal(files[0][name], files[1][name]) for name in files[0])


def limited(most_rows: int, seen: list[int] | None = None, *, killed_in: int | None = None) -> Spoiler:
    """Memory for so many rows at a time; `seen` learns how many each batch has, and one step may be the last."""

    def spoil(trainer: AnyTrainer, batch: Batch, compute: Callable[[], Loss]) -> Loss:
        if trainer.progress.step + 1 == killed_in:
            raise Interrupted
        if seen is not None:
            seen.append(len(batch.source))
        if len(batch.source) > most_rows:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")
        return compute()

    return spoil


if __name__ == "__main__":
    main()
