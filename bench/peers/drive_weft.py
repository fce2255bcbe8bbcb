"""Trains weft by a recipe for a while and reports its speed: drive_weft.py RECIPE PRECISION WARMUP SECONDS OUTPUT.

Everything behind OUTPUT is an override of the recipe, KEY=VALUE. Validation and checkpoints are put off, as in the
recipes of the others. Data paths are relative to WEFT_DATA; the run is written beside OUTPUT.
"""

import sys
from pathlib import Path
from typing import Any

from meter import Meter

import weft
from weft.data.batching import Batch
from weft.runs.train import Silent, train
from weft.text.vocabulary import PADDING_ID
from weft.training.trainer import Trainer

recipe, precision, warmup, seconds, output, *overrides = sys.argv[1:]
meter = Meter(warmup=float(warmup), seconds=float(seconds), output=Path(output), system={"version": weft.__version__})
update = Trainer.update


def counted_update(trainer: Trainer, *batches: Batch) -> Any:
    meter.step_begins(sum(int((batch.target[:, 1:] != PADDING_ID).sum()) for batch in batches))  # without <s>
    return update(trainer, *batches)


Trainer.update = counted_update  # pyright: ignore[reportAttributeAccessIssue]
endless = ["training.epochs=100000", "training.validate_every=1000000 steps"]
overrides = [f"training.precision={precision}", *overrides, *endless]
train(recipe, run=meter.output.with_name("run"), overrides=overrides, listener=Silent())
