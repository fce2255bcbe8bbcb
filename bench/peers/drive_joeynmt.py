"""Trains JoeyNMT by a recipe for a while, reports its speed: drive_joeynmt.py RECIPE PRECISION WARMUP SECONDS OUTPUT.

Runs in JoeyNMT's environment; the recipe's paths are relative to the working folder. On a CPU JoeyNMT turns fp16 off by
itself and knows no bf16, so there its only precision is fp32. In "fp32, by length" its batches are made as weft's are:
its own, of sentences as they come, are mostly padding, and hide how fast its modules are.
"""

import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import yaml  # pyright: ignore[reportMissingModuleSource]
from joeynmt.__main__ import main  # pyright: ignore[reportMissingImports]
from joeynmt.datasets import TokenBatchSampler  # pyright: ignore[reportMissingImports]
from joeynmt.training import TrainManager  # pyright: ignore[reportMissingImports]
from meter import Meter

PRECISIONS = {"fp32": {"fp16": False}, "fp32, by length": {"fp16": False}, "fp16": {"fp16": True}}

recipe, precision, warmup, seconds, output = sys.argv[1:]
meter = Meter(warmup=float(warmup), seconds=float(seconds), output=Path(output), system={"version": version("joeynmt")})
train_step = TrainManager._train_step


def counted_step(manager: Any, batch: Any) -> Any:
    meter.step_begins(batch.ntokens)  # its targets without <s>, with </s>, without padding
    return train_step(manager, batch)


def batches_by_length(sampler: Any) -> Iterator[list[int]]:
    """Batches of sentences about as long as each other, in a random order."""
    pairs = {number: sampler.sampler.data_source[number][1:] for number in sampler.sampler}
    lengths = {number: (len(target), len(source)) for number, (source, target) in pairs.items() if source is not None}
    batches, longest = [[]], 0
    for number in sorted(lengths, key=lengths.__getitem__):
        longest = max(longest, *(length + 1 for length in lengths[number]))
        if longest * (len(batches[-1]) + 1) > sampler.batch_size:
            batches.append([])
            longest = max(lengths[number]) + 1
        batches[-1].append(number)
    for number in torch.randperm(len(batches)).tolist():
        yield batches[number]


TrainManager._train_step = counted_step
if precision.endswith("by length"):
    TokenBatchSampler.__iter__ = batches_by_length
settings = yaml.safe_load(Path(recipe).read_text(encoding="utf-8"))
settings |= PRECISIONS[precision] | {"use_cuda": torch.cuda.is_available()}
Path("joeynmt-here.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
sys.argv = ["joeynmt", "train", "joeynmt-here.yaml", "--skip-test"]
main()
