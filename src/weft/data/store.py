"""A corpus as ids on disk: written once, piece by piece, then mapped into memory for training.

A store is a folder. It knows neither tokenizer nor recipe: its writer states what it depends on, and its reader
asks for the same.

    COLUMN.ids        all ids of a column, such as source and target, in a row; uint16 or uint32
    COLUMN.offsets    where each sentence begins, and where the last one ends, int64
    lines             the line of its file that each row comes from, uint32
    others            small files that the writer of the store adds, such as vocabularies
    manifest.json     the columns, the parts, what the store depends on, and the sha256 of each file; written last
"""

import json
import os
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from weft.data.sentences import Sentences
from weft.errors import CorpusError, Problem, WeftError
from weft.files import sha256, sync, write_atomically

FORMAT = 1
MANIFEST = "manifest.json"
PAIR = ("source", "target")
"""The columns of a store whose manifest names none, as older ones do."""


@dataclass(frozen=True)
class StoredPart:
    """So many pairs in a row that come from one entry of a recipe: its file, weight and tag."""

    pairs: int
    file: str
    weight: float = 1.0
    tag: str | None = None


@dataclass(frozen=True)
class Store:
    """The pairs of a store, mapped: pages come from disk when they are touched and can go again."""

    columns: Mapping[str, Sentences]
    lines: np.ndarray
    parts: tuple[StoredPart, ...]

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def weights(self) -> np.ndarray | None:
        """How often an epoch holds each pair; None where that is once for all of them."""
        if all(part.weight == 1 for part in self.parts):
            return None
        return np.repeat([part.weight for part in self.parts], [part.pairs for part in self.parts])

    def origin(self, pair: int) -> tuple[str, int]:
        """The file and the line, counted from 1, that a pair was read from."""
        before = 0
        for part in self.parts:
            if pair < before + part.pairs:
                return part.file, int(self.lines[pair])
            before += part.pairs
        raise IndexError(pair)


class StoreWriter:
    """Writes a store beside its place and puts it there when the block ends without an error.

    with StoreWriter(folder, ("source", "target"), largest_id=7_999, depends_on={...}) as writer:
        writer.begin_part("train.tsv", weight=1.0, tag=None)
        writer.append((sources, targets), lines)
    """

    def __init__(self, folder: Path, columns: Sequence[str], *, largest_id: int, depends_on: Mapping[str, Any]) -> None:
        self.folder, self.columns, self.depends_on = folder, tuple(columns), dict(depends_on)
        self.staged = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
        self.id_type = "<u2" if largest_id < 1 << 16 else "<u4"
        self.parts: list[StoredPart] = []

    def __enter__(self) -> "StoreWriter":
        try:
            shutil.rmtree(self.staged, ignore_errors=True)
            self.staged.mkdir(parents=True)
            self.files = {name: open(self.staged / name, "xb") for name in files_of(self.columns)}  # noqa: SIM115
        except OSError as error:
            raise self._unwritable(error) from error
        self.added: dict[str, bytes] = {}
        self.ends = dict.fromkeys(self.columns, 0)
        for column in self.columns:
            self.files[f"{column}.offsets"].write(np.zeros(1, "<i8").tobytes())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for file in self.files.values():
                file.close()
            if kind is None:
                self._finish()
        except OSError as problem:
            raise self._unwritable(problem) from problem
        finally:
            shutil.rmtree(self.staged, ignore_errors=True)

    def begin_part(self, file: str, *, weight: float = 1.0, tag: str | None = None) -> None:
        self.parts.append(StoredPart(0, file, weight, tag))

    def append(self, rows: Sequence[Sentences], lines: Sequence[int] | np.ndarray) -> None:
        """Append rows, given by column, to the part that was begun last; `lines` are those of its file."""
        assert all(len(sentences) == len(lines) for sentences in rows)
        try:
            for column, sentences in zip(self.columns, rows, strict=True):
                self.files[f"{column}.ids"].write(sentences.ids.astype(self.id_type).tobytes())
                ends = self.ends[column] + sentences.offsets[1:]
                self.files[f"{column}.offsets"].write(ends.astype("<i8").tobytes())
                self.ends[column] += int(sentences.offsets[-1])
            self.files["lines"].write(np.asarray(lines, "<u4").tobytes())
        except OSError as error:
            raise self._unwritable(error) from error
        last = self.parts[-1]
        self.parts[-1] = StoredPart(last.pairs + len(lines), last.file, last.weight, last.tag)

    def add(self, name: str, content: bytes) -> None:
        """A small file beside those of the store."""
        self.added[name] = content

    def _finish(self) -> None:
        for name, content in self.added.items():
            (self.staged / name).write_bytes(content)
        written = {name: self.staged / name for name in (*self.files, *self.added)}
        for path in written.values():
            sync(path)
        manifest = {
            "format": FORMAT,
            "id_type": self.id_type,
            "columns": self.columns,
            "parts": [asdict(part) for part in self.parts],
            "depends_on": self.depends_on,
            "files": {name: {"bytes": path.stat().st_size, "sha256": sha256(path)} for name, path in written.items()},
        }
        write_atomically(self.staged / MANIFEST, json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")
        shutil.rmtree(self.folder, ignore_errors=True)
        os.replace(self.staged, self.folder)
        sync(self.folder.parent)

    def _unwritable(self, error: OSError) -> WeftError:
        return WeftError(f"the prepared corpus {self.folder} could not be written: {error.strerror or error}")


def is_prepared(folder: Path, depends_on: Mapping[str, Any], *, ignoring: Collection[str] = ()) -> bool:
    """Whether a whole store of just this, apart from the keys that are ignored, lies there."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        return False
    known = manifest.get("depends_on")
    return isinstance(known, dict) and all(
        known.get(key) == depends_on.get(key) for key in {*known, *depends_on} - {*ignoring}
    )


def open_store(folder: Path) -> Store:
    """Map a store; raises CorpusError where it is no longer what was written."""
    manifest = read_manifest(folder)
    names = manifest.get("columns", PAIR)
    mapped = {name: map_file(folder / name, type_of(name, manifest["id_type"])) for name in files_of(names)}
    columns = {name: Sentences.stored(mapped[f"{name}.ids"], mapped[f"{name}.offsets"]) for name in names}
    return Store(columns, mapped["lines"], tuple(StoredPart(**part) for part in manifest["parts"]))


def read_manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        files, parts = manifest["files"], [StoredPart(**part) for part in manifest["parts"]]
        np.dtype(manifest["id_type"])
        problems = [
            Problem(name, "is missing or changed; prepare the corpus again")
            for name in {**dict.fromkeys(files_of(manifest.get("columns", PAIR))), **files}
            if digest_of(folder / name) != files[name]["sha256"]
        ]
        pairs = sum(part.pairs for part in parts)
        if not problems and files["lines"]["bytes"] != 4 * pairs:
            problems = [Problem(MANIFEST, f"counts {pairs:,} pairs, the files hold another number")]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        problems = [Problem(MANIFEST, f"is missing or damaged ({error!r}); prepare the corpus again")]
        manifest = {}
    if problems:
        raise CorpusError(f"the prepared corpus {folder}", problems)
    return manifest


def digest_of(path: Path) -> str | None:
    try:
        return sha256(path) if path.is_file() else None
    except OSError:
        return None


def type_of(name: str, id_type: str) -> str:
    return {"ids": id_type, "offsets": "<i8", "lines": "<u4"}[name.rpartition(".")[2]]


def map_file(path: Path, dtype: str) -> np.ndarray:
    """An array over the file's bytes; an empty file, which cannot be mapped, is an empty array."""
    return np.memmap(path, dtype, mode="r") if path.stat().st_size else np.zeros(0, dtype)


def files_of(columns: Sequence[str]) -> list[str]:
    return [*(f"{column}.{what}" for column in columns for what in ("ids", "offsets")), "lines"]
