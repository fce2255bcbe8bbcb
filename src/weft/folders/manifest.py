"""The manifest of a model folder: the format version, and the sha256 of each file that is the model.

It is written last and read first. The contents of a folder are not trusted: sizes are checked before files are read.
"""

import json
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from weft.errors import ModelError, Problem
from weft.files import sha256

FORMAT_VERSION = 1
CONFIG, WEIGHTS, CARD, MANIFEST = "config.toml", "model.safetensors", "README.md", "manifest.json"
EXPORT = "export.json"
"""Describes a model exported for another engine, whose files replace the weights (export.py)."""

LARGEST_TEXT_FILE, LARGEST_OTHER_FILE = 128 << 10, 64 << 20
"""Most bytes of config.toml and manifest.json, and of any other file except the weights and the card."""
LARGEST_CARD = 4 << 20
"""Most bytes of the card, which has a line for each file that config.toml names."""
MOST_FILES = 200
PLAIN_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")
"""Allowed file names: those that are not a path on any system."""


def write_manifest(folder: Path, names: Iterable[str]) -> None:
    """Write a manifest with the current digests of these files."""
    manifest = {"format": FORMAT_VERSION, "files": {name: sha256(folder / name) for name in names}}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


def check_manifest(folder: Path, weights: Sequence[str] = (WEIGHTS,)) -> set[str]:
    """Check that every listed file is a regular file with the digest in the manifest, and return the names.

    `weights` are the files that hold the weights, whose number of bytes is not limited. Raises ModelError with every
    problem. A folder that contains a link is rejected, since the target is not part of the model.
    """
    digests, problems = read_manifest(folder, weights)
    sound = digests.keys() - {problem.where for problem in problems}
    problems += [problem for name in sorted(sound) for problem in check_digest(folder, name, digests[name])]
    if problems:
        raise ModelError(folder, problems)
    return set(digests)


def read_manifest(folder: Path, weights: Sequence[str] = (WEIGHTS,)) -> tuple[dict[str, object], list[Problem]]:
    """Return the digest in the manifest of each listed file, and the problems found without comparing digests.

    Raises ModelError where there is no manifest that this version can read.
    """
    path = folder / MANIFEST
    try:
        links = sorted(entry.name for entry in folder.iterdir() if entry.is_symlink())
    except OSError as error:
        raise ModelError(folder, [Problem("the folder", f"cannot be read: {error.strerror}")]) from None
    if links:
        raise ModelError(folder, [Problem(name, "is a link or not a regular file") for name in links])
    if not path.is_file():
        what = (
            "is missing; a model folder holds config.toml, model.safetensors, tokenizers, README.md and manifest.json"
        )
        raise ModelError(folder, [Problem(MANIFEST, what)])
    if path.stat().st_size > LARGEST_TEXT_FILE:
        raise ModelError(folder, [Problem(MANIFEST, f"is larger than {LARGEST_TEXT_FILE >> 10} KiB")])
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        version, digests = manifest["format"], manifest["files"]
        if not isinstance(digests, dict) or len(digests) > MOST_FILES:
            raise ValueError("files is not a table, or is endless")
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise ModelError(folder, [Problem(MANIFEST, "is not a manifest of a weft model")]) from None
    if version != FORMAT_VERSION:
        what = f"has format {version}; this weft reads format {FORMAT_VERSION}; use the weft that wrote it"
        raise ModelError(folder, [Problem(MANIFEST, what)])
    hint = "; the model was exported for another engine: weft translate runs it" if EXPORT in digests else ""
    problems = [Problem(name, f"is not in the manifest{hint}") for name in (CONFIG, *weights) if name not in digests]
    return digests, problems + [problem for name in digests for problem in check_file(folder, name, weights)]


def check_file(folder: Path, name: str, weights: Sequence[str]) -> list[Problem]:
    """Return the problems of a listed file that are visible without opening it."""
    path = folder / name
    if not PLAIN_NAME.fullmatch(name):
        return [Problem(name, "leads out of the folder or is not a plain name")]
    if not path.is_file():
        return [Problem(name, "is a link or not a regular file" if path.exists() else "is missing")]
    largest = LARGEST_TEXT_FILE if name == CONFIG else LARGEST_OTHER_FILE
    if name not in weights and path.stat().st_size > largest:
        return [Problem(name, f"is larger than {largest >> 10} KiB")]
    return []


def check_digest(folder: Path, name: str, digest: object) -> list[Problem]:
    try:
        found = sha256(folder / name)
    except OSError as error:
        return [Problem(name, f"cannot be read: {error.strerror}")]
    return [] if found == digest else [Problem(name, "was changed or damaged: its sha256 is not the manifest's")]


def model_files(folder: Path) -> list[str]:
    """The sorted names of the model's files; a folder may hold other files too."""
    listed, _ = read_manifest(folder)
    return sorted({*listed, MANIFEST, *([CARD] if (folder / CARD).is_file() else [])})


def parts_of(folder: Path) -> set[str]:
    """The names of the files in a model or run folder that weft writes and reads."""
    names: set[str] = set()
    if (folder / "run.json").is_file():
        from weft.training.run_folder import (
            DETAILS,
            DIAGNOSIS,
            LOGS,
        )  # imports torch, which finding a model does not need

        names |= {"run.json", "lock", "scores.json", CONFIG, DETAILS, DIAGNOSIS, *LOGS}
    with suppress(ModelError):  # an unfinished run has no manifest; a manifest may be that of another program
        names |= {*read_manifest(folder)[0], MANIFEST, CARD}
    return names
