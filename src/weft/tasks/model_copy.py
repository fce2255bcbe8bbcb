"""A model in a folder of its own, without the run it came from, its weights as they are or in half the bytes."""

import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from weft.errors import ModelError, Problem
from weft.files import refuse_existing_folder
from weft.tasks.model_folder import (
    MANIFEST,
    WEIGHTS,
    check_model,
    find_model,
    model_files,
    read_manifest,
    write_manifest,
)
from weft.training.run_folder import commit_folder


def copy_model(name: str | Path, folder: Path, *, half: bool = False) -> Path:
    """Write the files of the model that `name` means into a new folder, and return where they were taken from.

    `half` rounds the weights to fp16: half the bytes, 11 significant bits. They are computed with in fp32 as before.
    Raises UsageError where the folder is there already, ModelError for a model that would not load, or that has
    weights beyond fp16's range.
    """
    refuse_existing_folder(folder)
    source = find_model(name)
    check_model(source)
    listed, _ = read_manifest(source)

    def write(staged: Path) -> None:
        for file in model_files(source):
            shutil.copyfile(source / file, staged / file)
        if half:
            save_file(halved(source), staged / WEIGHTS)
            shutil.copymode(staged / MANIFEST, staged / WEIGHTS)  # safetensors writes for the owner alone
            write_manifest(staged, listed)

    commit_folder(folder, write)
    return source


def halved(folder: Path) -> dict[str, torch.Tensor]:
    """The weights in fp16; raises ModelError for those that would become infinite."""
    weights = {name: tensor.half() for name, tensor in load_file(folder / WEIGHTS).items()}
    too_large = [name for name, tensor in weights.items() if not tensor.isfinite().all()]
    if too_large:
        raise ModelError(folder, [Problem(name, "has numbers that fp16 cannot hold") for name in too_large])
    return weights
