"""Trains JoeyNMT by a recipe for a while, reports its speed: drive_joeynmt.py RECIPE PRECISION WARMUP SECONDS OUTPUT.

Runs in JoeyNMT's environment; the recipe's paths are relative to the working folder. On a CPU JoeyNMT turns fp16 off by
itself and knows no bf16, so there its only precision is fp32.
"""

import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import yaml  # pyright: ignore[reportMissingModuleSource]
from joeynmt.__main__ import main  # pyright: ignore[reportMissingImports]
from joeynmt.training import TrainManager  # pyright: ignore[reportMissingImports]
from meter import Meter

PRECISIONS = {"fp32": {"fp16": False}, "fp16": {"fp16": True}}

recipe, precision, warmup, seconds, output = sys.argv[1:]
meter = Meter(warmup=float(warmup), seconds=float(seconds), output=Path(output), system={"version": version("joeynmt")})
train_step = TrainManager._train_step


def counted_step(manager: Any, batch: Any) -> Any:
    meter.step_begins(batch.ntokens)  # its targets without <s>, with </s>, without padding
    return train_step(manager, batch)


TrainManager._train_step = counted_step
settings = yaml.safe_load(Path(recipe).read_text(encoding="utf-8"))
settings |= PRECISIONS[precision] | {"use_cuda": torch.cuda.is_available()}
Path("joeynmt-here.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
sys.argv = ["joeynmt", "train", "joeynmt-here.yaml", "--skip-test"]
main()
