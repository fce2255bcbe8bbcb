"""Copy a model into a new folder, without its run, with the same weights or compressed ones."""

import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from weft.errors import ModelError, Problem
from weft.files import refuse_existing_folder, write_atomically
from weft.folders.finding import read_found
from weft.folders.manifest import CARD, MANIFEST, WEIGHTS, model_files, read_manifest, write_manifest
from weft.folders.model_folder import check_model
from weft.folders.summary import read_card
from weft.folders.weight_storage import SCALE, Storage, restored, stored
from weft.training.run_folder import committed_folder


def copy_model(name: str | Path, folder: Path, *, storage: Storage | None = None) -> Path:
    """Write the files of the model that `name` means into a new folder, and return the source folder.

    `storage` rounds the weights to fp16 or int8 (weight_storage.py), which take half or a quarter of the bytes; models
    compute in fp32 all the same. Raises UsageError if the folder exists, ModelError for a model that does not load or
    has weights outside the range of `storage`.
    """
    refuse_existing_folder(folder)
    _, source = read_found(name, lambda source: (check_model(source), source))
    listed, _ = read_manifest(source)
    with committed_folder(folder) as staged:
        for file in model_files(source):
            shutil.copyfile(source / file, staged / file)
        if storage is not None:
            save_file(rounded(source, storage), staged / WEIGHTS)
            shutil.copymode(staged / MANIFEST, staged / WEIGHTS)  # safetensors makes files that only the owner can read
            write_manifest(staged, listed)
            about = f"## Scores\n\nMeasured before the weights were rounded to {storage}.\n"
            if card := read_card(staged):
                write_atomically(staged / CARD, card.replace("## Scores\n", about, 1))
    return source


def rounded(folder: Path, storage: Storage) -> dict[str, torch.Tensor]:
    """Round the weights in a folder to `storage`. Raises ModelError for weights that would become infinite."""
    weights = stored(restored(load_file(folder / WEIGHTS)), storage)
    too_large = [name for name, tensor in weights.items() if not tensor.isfinite().all()]
    if too_large:
        what = f"has numbers that {storage} cannot hold"
        raise ModelError(folder, [Problem(name.removesuffix(SCALE), what) for name in too_large])
    return weights
