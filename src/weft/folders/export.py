"""Read and check the folders of models exported for another engine.

An exported folder is a model folder with the engine's files in place of model.safetensors, and export.json:

    {"engine": "ctranslate2", "precision": "int8", "longest": 2048}
"""

import json
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from weft.config import Settings
from weft.engines import ctranslate2, onnx
from weft.errors import ModelError, Problem
from weft.folders.manifest import EXPORT, LARGEST_TEXT_FILE, check_manifest
from weft.folders.model_folder import TranslationModel, check_model, without_weights

Engine = Literal["ctranslate2", "onnx"]
Precision = Literal["fp32", "int8"]

ENGINE_FILES: dict[str, tuple[str, ...]] = {"ctranslate2": ctranslate2.FILES, "onnx": onnx.FILES}
"""Engine -> the files that replace model.safetensors."""


class Export(Settings):
    engine: Engine
    """The engine that the folder was made for."""
    precision: Precision
    """The type that the weights are stored in."""
    longest: int = Field(ge=2, le=1 << 24)
    """Most tokens of a sentence on either side, including <s> or </s>."""


def engine_of(folder: Path) -> Literal["native"] | Engine:
    """The engine that a model folder was made for; "native" is weft itself."""
    return read_export(folder).engine if (folder / EXPORT).exists() else "native"


def check_exported(folder: Path) -> tuple[Export, TranslationModel]:
    """Check an exported folder, except the contents of the engine's files, and return its description and model.

    The model's network is on torch's meta device. Raises ModelError with every file that is missing, altered or
    inconsistent.
    """
    export = read_export(folder)
    listed = check_manifest(folder, ENGINE_FILES[export.engine])
    return export, without_weights(folder, listed, EXPORT)


def check_any(folder: Path) -> None:
    """Raise ModelError if a folder is not a complete model for weft or for another engine."""
    if engine_of(folder) == "native":
        check_model(folder)
    else:
        check_exported(folder)


def read_export(folder: Path) -> Export:
    """Read export.json. Raises ModelError if it is missing or invalid."""
    path = folder / EXPORT
    try:
        if path.is_symlink() or not path.is_file():
            raise ValueError("it is a link or not a regular file")
        if path.stat().st_size > LARGEST_TEXT_FILE:
            raise ValueError("it is too large")
        return Export(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, RecursionError, ValidationError) as error:
        reason = "its keys or values are not those of an export" if isinstance(error, ValidationError) else error
        raise ModelError(folder, [Problem(EXPORT, f"cannot be read: {reason}")]) from None
