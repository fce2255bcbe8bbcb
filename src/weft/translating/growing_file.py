"""A text file that is written in chunks over hours, and continued after the process is killed.

    .bt.tsv.unfinished   the chunks so far; renamed to bt.tsv when all are written
    bt.tsv.json          what the content depends on, how much is written, and the sha256 of the complete file
    .bt.tsv.lock         held while a process writes

A chunk counts once bt.tsv.json lists its bytes. Bytes after these, written by a killed process, are cut off.
"""

import io
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.errors import RunError, UsageError, WeftError
from weft.files import remove_abandoned, remove_staged, sha256, sync, try_lock, write_atomically
from weft.version import __version__


@dataclass
class GrowingFile:
    """A text file written in chunks.

    `made_of` holds everything that the content depends on; a file made of something else is never changed. `names`
    describes the origin for readers. `state` is the argument of the last `append`, empty before the first. `remedy`
    completes the error for a file made of something else: what to do instead of undoing the change.
    """

    path: Path
    made_of: dict[str, Any]
    names: dict[str, Any] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)
    is_finished: bool = False
    remedy: str = "name another file"

    def __post_init__(self) -> None:
        self.made_of = json.loads(json.dumps(self.made_of))  # as read from JSON, where tuples are lists
        self.manifest = self.path.with_name(f"{self.path.name}.json")
        self.unfinished = self.path.with_name(f".{self.path.name}.unfinished")
        self.lock = self.path.with_name(f".{self.path.name}.lock")

    @contextmanager
    def opened(self, *, anew: bool = False) -> Iterator[None]:
        """Lock the file, and read its `state` and whether it `is_finished`.

        With `anew`, earlier chunks are discarded. Raises UsageError if the file was made of something else or by
        another program, RunError if another process is writing it.
        """
        with self._locked(), self._open(self.unfinished) as self._file:
            try:
                remove_abandoned(self.manifest)
                if anew and self._read_manifest() is not None:  # a file without one is another program's
                    self.manifest.unlink()
                    self.path.unlink(missing_ok=True)
                self._find_state()
                yield
            finally:
                if self.unfinished.exists() and not self.unfinished.stat().st_size:
                    self.unfinished.unlink()

    def append(self, text: str, state: dict[str, Any]) -> None:
        """Write a chunk to disk. After an error the same chunk can be appended again."""
        with self._writing():
            self._file.truncate(self._bytes)
            self._file.seek(self._bytes)
            left = memoryview(text.encode())
            while left:  # an unbuffered file may write only a part
                left = left[self._file.write(left) :]
            os.fsync(self._file.fileno())
        self._bytes, self.state = self._file.tell(), state
        self._write_manifest()

    def finish(self) -> None:
        """Rename the unfinished file to its final name. The manifest stays next to it."""
        with self._writing():
            digest = sha256(self.complete())
        self.is_finished = True
        self._write_manifest(sha256=digest)
        self._put_into_place()

    def complete(self) -> Path:
        """Return the unfinished file, cut to the chunks that count, for a caller that renames it itself."""
        with self._writing():
            self._file.truncate(self._bytes)
            os.fsync(self._file.fileno())
        return self.unfinished

    def give_up(self) -> None:
        """Remove the manifest and the unfinished file."""
        remove_staged(self.manifest)
        remove_staged(self.unfinished)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold a lock on a separate file, since the unfinished one is renamed while the lock is held."""
        with self._open(self.lock) as lock:
            try:
                is_alone = try_lock(lock)
            except OSError as error:
                remove_staged(self.lock)
                raise UsageError(
                    f"{self.path} cannot be written: its file system has no locks ({error.strerror}); name a file on "
                    "another one"
                ) from None
            if not is_alone:  # the other process may also have just finished
                raise RunError(f"another process is writing {self.path}; wait for it, or name another file")
            try:
                yield
            finally:
                remove_staged(self.lock)

    def _open(self, path: Path) -> io.FileIO:
        """Open without a buffer: closing a buffered file would repeat a write that failed on a full disk."""
        try:
            return open(path, "ab", buffering=0)
        except OSError as error:
            raise UsageError(f"{self.path} cannot be written: {error.strerror}") from None

    def _find_state(self) -> None:
        known = self._read_manifest()
        if known is None:
            if self.path.exists():
                raise UsageError(f"{self.path} exists, and nothing says how it was made; name another file")
            known = {"made_of": self.made_of, "state": {}, "bytes": 0, "finished": False}
        self._check_made_of(known["made_of"])
        written = self.unfinished.stat().st_size
        if known["finished"] and written and written == known["bytes"]:
            self._put_into_place()
        if known["finished"] and self.path.exists():
            if sha256(self.path) != known["sha256"]:
                raise UsageError(
                    f"{self.path} was changed since it was made; name another file, or delete it to make it again"
                )
            self.is_finished, self.state = True, known["state"]
            return
        if self.path.exists():
            raise UsageError(f"{self.path} exists and is not what {self.manifest} is about; name another file")
        is_left = not known["finished"] and written >= known["bytes"]
        self._bytes, self.state = (known["bytes"], known["state"]) if is_left else (0, {})

    def _read_manifest(self) -> dict[str, Any] | None:
        try:
            known = json.loads(self.manifest.read_text(encoding="utf-8"))
            kinds = {"made_of": dict, "state": dict, "bytes": int, "finished": bool}
            kinds |= {"sha256": str} if known["finished"] else {}
            if all(isinstance(known[key], kind) for key, kind in kinds.items()):
                return known
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            pass
        raise UsageError(f"{self.manifest} does not say how {self.path} was made; name another file")

    def _check_made_of(self, made_of: dict[str, Any]) -> None:
        changes = [
            f"  {key}: was {made_of.get(key)!r}, is {self.made_of.get(key)!r}"
            for key in {**made_of, **self.made_of}
            if made_of.get(key) != self.made_of.get(key)
        ]
        if changes:
            listed = "\n".join(changes)
            raise UsageError(f"{self.path} was made with other settings:\n{listed}\nundo the change, or {self.remedy}")

    def _write_manifest(self, **more: Any) -> None:
        known = {
            "weft": __version__,
            "names": self.names,
            "made_of": self.made_of,
            "state": self.state,
            "bytes": self._bytes,
            "finished": self.is_finished,
            **more,
        }
        write_atomically(self.manifest, json.dumps(known, indent=1, ensure_ascii=False) + "\n")

    def _put_into_place(self) -> None:
        with self._writing():
            os.replace(self.unfinished, self.path)
            sync(self.path.parent)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            what = f"{self.path} could not be written: {error.strerror}; the same command continues"
            raise WeftError(what) from error
