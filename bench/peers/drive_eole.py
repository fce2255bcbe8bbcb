"""Trains eole by a recipe for a while and reports its speed: drive_eole.py RECIPE PRECISION WARMUP SECONDS OUTPUT.

Runs in eole's environment; the recipe's paths are relative to the working folder.
"""

import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import yaml  # pyright: ignore[reportMissingModuleSource]
from eole.bin.main import main  # pyright: ignore[reportMissingImports]
from eole.trainer import Trainer  # pyright: ignore[reportMissingImports]
from meter import Meter

PRECISIONS = {
    "fp32": {"compute_dtype": "fp32"},
    "bf16": {"compute_dtype": "bf16", "use_amp": True},
}
ON_GPU = {"world_size": 1, "gpu_ranks": [0]}

recipe, precision, warmup, seconds, output = sys.argv[1:]
meter = Meter(warmup=float(warmup), seconds=float(seconds), output=Path(output), system={"version": version("eole")})
train_step = Trainer._train_step


def counted_step(trainer: Any, batches: list[dict[str, Any]], *rest: Any, **named: Any) -> Any:
    padding = trainer.train_loss.padding_idx
    meter.step_begins(sum(int((batch["tgt"][:, 1:] != padding).sum()) for batch in batches))  # without <s>
    return train_step(trainer, batches, *rest, **named)


Trainer._train_step = counted_step
settings = yaml.safe_load(Path(recipe).read_text(encoding="utf-8"))
torch.set_autocast_dtype("cuda", torch.bfloat16)  # else its autocast on a GPU is one of fp16, whatever compute_dtype is
settings["training"] |= PRECISIONS[precision] | (ON_GPU if torch.cuda.is_available() else {})
Path("eole-here.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
sys.argv = ["eole", "train", "-c", "eole-here.yaml"]
main()
