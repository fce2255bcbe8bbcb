"""Find the model folder for a name that a user gives: a folder, a run, or a model that comes with weft."""

import difflib
import os
import re
import shlex
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from weft.config.toml import read_toml
from weft.errors import ModelError, UsageError, as_path
from weft.folders.manifest import CONFIG, LARGEST_TEXT_FILE, MANIFEST

Found = TypeVar("Found")
PRETRAINED = Path(__file__).parents[1] / "pretrained"
"""The folder of the models that come with weft."""
OPENED = "opened.sha256"
"""In the folder of a study, the files that models of its trials were measured on."""

PICKLED = (".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle", ".npy", ".npz")
"""Suffixes of files written by pickle, PyTorch and NumPy."""
IMPORTED = ("config.json", "config.yaml", "decoder.yml")
"""Files of the folders that `weft import` reads."""
HOW_TO_CONVERT = (
    "a pickle, such as in PyTorch's and NumPy's files, can run code when it is opened, so weft opens none; convert it "
    "where you trust it: safetensors.torch.save_file(torch.load(FILE, weights_only=True), 'model.safetensors')"
)


def find_model(name: str | Path) -> Path:
    """Return the model folder for a name: of a model folder, of a run, or of a model that comes with weft.

    A finished run folder is a model folder itself; for an unfinished run, the checkpoint with its best weights is
    returned. An existing folder takes precedence over a model that comes with weft. Raises UsageError with what to do.
    """
    path = as_path(name, "a model")
    try:
        if (path / "run.json").is_file():
            return model_of_run(path)
        if (path / MANIFEST).is_file():
            return path
        if not path.exists() and str(name) in shipped_models():
            return PRETRAINED / name
        raise UsageError(explain_missing(path))
    except OSError as error:
        raise UsageError(f"the model {name} cannot be read: {error.strerror}") from None


def read_found(name: str | Path, read: Callable[[Path], Found]) -> Found:
    """What `read` makes of the folder that `find_model` finds; of its successor if a running training has replaced its
    best weights meanwhile."""
    folder = find_model(name)
    try:
        return read(folder)
    except (FileNotFoundError, ModelError):
        if (newer := find_model(name)) == folder:
            raise
        return read(newer)


def model_of_run(run: Path) -> Path:
    """Return the folder of a run's best weights. Raises UsageError before the first validation."""
    if (run / "run.json").stat().st_size > LARGEST_TEXT_FILE:
        raise UsageError(f"{run / 'run.json'} is larger than {LARGEST_TEXT_FILE >> 10} KiB; a run's is a few lines")
    from weft.training.run_folder import (  # imports torch, which reporting a wrong name does not need
        RunFolder,
        RunStatus,
    )

    status = RunStatus.read(run / "run.json")
    if status.best is None:
        raise UsageError(f"the run {run} has not been validated yet, so it has no best weights")
    best = RunFolder(run).checkpoint(status.best)
    return run if (status.finished and (run / MANIFEST).is_file()) or not best.is_dir() else best


def task_of(folder: Path) -> str:
    """The task of the model in a folder; empty if the recipe cannot be read, which loading will report."""
    config = folder / CONFIG
    with suppress(OSError, ValueError, RecursionError):
        if config.is_file() and config.stat().st_size <= LARGEST_TEXT_FILE:
            text = config.read_text(encoding="utf-8")
            if rendered := re.match(r'task = "([\w-]+)"', text):  # the first line that weft writes
                return rendered[1]
            return str(read_toml(text).get("task", "translation"))
    return ""


def shipped_models() -> list[str]:
    """The names of the models that come with weft."""
    return sorted(manifest.parent.name for manifest in PRETRAINED.glob(f"*/{MANIFEST}"))


def explain_missing(path: Path) -> str:
    """Return a message that says why a path is not a model and what to give instead."""
    shipped = shipped_models()
    if path.is_symlink() and not path.exists():
        return f"there is no model {path}: it is a link to {os.readlink(path)}, which does not exist"
    if path.is_dir():
        pickled = sorted(file.name for file in path.iterdir() if file.suffix in PICKLED)
        hint = f"; {pickled[0]} may hold a pickle: {HOW_TO_CONVERT}" if pickled else ""
        if any((path / name).is_file() for name in IMPORTED):
            command = f"weft import {shlex.quote(str(path))} --output FOLDER"
            hint = f"; if it is a model of Marian, OPUS-MT or JoeyNMT: {command}"
        hint += f"; to use the model {path} that comes with weft, rename this folder" if str(path) in shipped else ""
        return f"{path} is neither a model folder (no {MANIFEST}) nor a run (no run.json){hint}"
    if path.is_file() and path.suffix == ".zip":
        unpack = f"weft models unpack {shlex.quote(str(path))} FOLDER"
        return f"there is no model {path}: it is an archive; unpack it first: {unpack}"
    if path.is_file():
        pickled = f"it may hold a pickle: {HOW_TO_CONVERT}"
        hint = pickled if path.suffix in PICKLED else "it is a file; give the folder that it belongs to"
        return f"there is no model {path}: {hint}"
    near = difflib.get_close_matches(str(path), shipped, n=3)
    known = f"; weft comes with {', '.join(shipped)}" if shipped else ""
    meant = f"; did you mean {' or '.join(near)}?" if near else ""
    return f"there is no model {path}; give a model folder or a run folder{known}{meant}"


def run_of(recipe: Path) -> Path | None:
    """The run folder that a recipe file belongs to, if weft wrote it into one."""
    written = recipe.parents[:3] if recipe.name == "config.toml" else ()
    return next((folder for folder in written if (folder / "run.json").is_file()), None)
