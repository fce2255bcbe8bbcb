"""`weft models get`: a published model is downloaded, checked, and imported.

The hub's description of a repository pins its commit and the digest of every file, so what arrives is what is published
there. The files are kept in FOLDER.partial until the import succeeds: a stopped download continues.
"""

import json
import re
import shutil
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from weft.data.corpus_folder import Listener
from weft.data.download import Expected, download
from weft.errors import UsageError, WeftError
from weft.files import megabytes, refuse_existing_folder
from weft.importing.folder import import_model
from weft.importing.opening import LARGEST_SETTINGS, LARGEST_VOCABULARY, LARGEST_WEIGHTS

HUB = "https://huggingface.co"
REPOSITORY = re.compile(r"hf:([A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95})")


CATALOG = {
    "opus-mt-zh-en": ("hf:Helsinki-NLP/opus-mt-zh-en", "zh", "en"),
    "opus-mt-en-zh": ("hf:Helsinki-NLP/opus-mt-en-zh", "en", "zh"),
}
"""Name -> the place and the languages of a model that is known to import; any other of its kind is hf:OWNER/NAME."""

SETTINGS = ("config.json", "generation_config.json", "tokenizer_config.json", "README.md")
VOCABULARIES = ("source.spm", "target.spm", "vocab.json", "target_vocab.json")
WEIGHTS = ("model.safetensors", "pytorch_model.bin")
"""The file formats of the weights, the preferred one first."""


def get_model(name: str, output: Path, listener: Listener, *, hub: str = HUB) -> Path:
    """Download the model with this name, of CATALOG or hf:OWNER/NAME, and import it into a new folder.

    Raises UsageError for an unknown name and an existing folder, WeftError if a file does not arrive or is not the
    published one, or if there is no room, and the errors of `import_model`.
    """
    refuse_existing_folder(output)
    place, source, target = CATALOG.get(name, (name, None, None))
    found = REPOSITORY.fullmatch(place)
    if found is None:
        raise UsageError(
            f"there is no model {name}; there are {', '.join(CATALOG)}, and hf:OWNER/NAME for any Marian model"
        )
    arriving = output.with_name(f"{output.name}.partial") / found[1]  # its owner, and its name
    arriving.mkdir(parents=True, exist_ok=True)
    commit, files = files_of(found[1], arriving, hub, listener)
    remove_others(arriving, files)
    check_room(arriving, files)
    for file, expected in files.items():
        path = arriving / file
        if not path.exists() or expected.difference(path) is not None:
            address = f"{hub}/{found[1]}/resolve/{commit}/{file}"
            download(address, path, expected, partial(listener.on_progress, file), listener.on_message)
    import_model(arriving, output, source=source, target=target, say=listener.on_message)
    shutil.rmtree(arriving)
    for empty in (arriving.parent, arriving.parents[1]):
        if not any(empty.iterdir()):
            empty.rmdir()
    return output


def remove_others(arriving: Path, files: Collection[str]) -> None:
    """Remove what an earlier commit of the repository had and this one has not: an import takes what it finds."""
    kept = {f"{file}{end}" for file in files for end in ("", ".partial", ".partial.json")}
    for path in arriving.iterdir():
        if path.is_file() and path.name not in kept:
            path.unlink()


def files_of(repository: str, folder: Path, hub: str, listener: Listener) -> tuple[str, dict[str, Expected]]:
    """The commit of a repository, and the files of it that an import needs."""
    description = folder / "repository.json"
    address = f"{hub}/api/models/{repository}?blobs=true"
    download(address, description, Expected(LARGEST_SETTINGS), lambda done, total: None, listener.on_message)
    try:
        about: Mapping[str, Any] = json.loads(description.read_text(encoding="utf-8"))
        commit, listed = str(about["sha"]), {str(file["rfilename"]): file for file in about["siblings"]}
    except (ValueError, KeyError, TypeError):
        raise WeftError(
            f"the hub describes {repository} in an unknown form; download its files, and use weft import"
        ) from None
    weights = next((file for file in WEIGHTS if file in listed), None)
    if weights is None or "config.json" not in listed or not re.fullmatch(r"[0-9a-f]{40}", commit):
        raise WeftError(
            f"{repository} has no config.json with {' or '.join(WEIGHTS)}, so it is not a model of transformers"
        )
    limits = {**dict.fromkeys(SETTINGS, LARGEST_SETTINGS), **dict.fromkeys(VOCABULARIES, LARGEST_VOCABULARY)}
    limits |= {weights: LARGEST_WEIGHTS}
    return commit, {file: expected_of(listed[file], most) for file, most in limits.items() if file in listed}


def expected_of(file: Mapping[str, Any], at_most: int) -> Expected:
    """What the hub says about a file: the sha256 of a large one, the git object of any other."""
    stored = file.get("lfs")
    size = stored.get("size") if isinstance(stored, Mapping) else file.get("size")
    digest = stored.get("sha256") if isinstance(stored, Mapping) else None
    blob = None if digest else file.get("blobId")
    if not (isinstance(size, int) and isinstance(digest or blob, str)):
        raise WeftError(f"the hub states no digest of {file.get('rfilename')}; download the files, and use weft import")
    return Expected(at_most, size, digest, blob)


def check_room(folder: Path, files: Mapping[str, Expected]) -> None:
    """Raise WeftError if the files, and the model that is made of them, do not fit on the disk."""
    arrived = sum(path.stat().st_size for path in folder.iterdir())
    needed, free = 2 * sum(expected.size or 0 for expected in files.values()) - arrived, shutil.disk_usage(folder).free
    if needed > free:
        what = f"{megabytes(free)} are free, and the model takes {megabytes(needed)} while it is imported"
        raise WeftError(f"{folder.parents[1]}: {what}; choose another place with --output")
