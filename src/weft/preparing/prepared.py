"""A prepared corpus of any task: ids in a store, vocabularies, and an account of how they were made."""

import hashlib
import json
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Generic, TypeVar

import weft
from weft.config import Resolved, Settings
from weft.data.store import Store, is_prepared, open_store
from weft.errors import CorpusError, shown
from weft.text.tokenizer import Tokenizer
from weft.training.task import Listener

R = TypeVar("R", bound=Settings)

ACCOUNT = "account.json"


@dataclass(frozen=True)
class Files:
    """The files of a run, with their digests."""

    root: Path
    """The folder that the recipe's paths are relative to."""
    train: Mapping[str, str]
    """Name -> sha256 of each file to train on."""
    valid: Any
    """What the model is validated on: the `HeldOut` of the task (tasks/kind.py)."""
    others: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Part, such as teacher -> name -> sha256 of what the run depends on besides; of a model its manifest's."""
    lines: Any = None
    """The `Lines` to train on, if the task learns from text."""
    vocabularies: Mapping[str, bytes] = field(default_factory=dict)
    """Name -> content of each vocabulary file."""

    @property
    def sha256(self) -> dict[str, dict[str, str]]:
        """Part (train, valid, ...) -> name -> sha256 of every file."""
        others = {part: dict(digests) for part, digests in self.others.items() if digests}
        return {"train": dict(self.train), "valid": self.valid.sha256, **others}


@dataclass(frozen=True)
class Account:
    """What happened to the rows of the files."""

    read: int
    """Pairs without an empty side."""
    dropped_empty: int
    removed: Mapping[str, int]
    """By rule of [cleaning]."""
    examples: Mapping[str, Sequence[Mapping[str, Any]]]
    """The first pairs that each rule removed: file, line, source, target."""
    clean: int
    too_long: int
    joined: int
    stored: int
    settings: Mapping[str, Sequence[Any]]
    """Settings that making the vocabularies decided: recipe key -> (value, origin)."""
    messages: Sequence[str]
    """Messages about the rows."""
    diagnosis: Mapping[str, Any]
    """Results of the quick checks of the clean pairs."""

    @classmethod
    def read_from(cls, folder: Path) -> "Account":
        """The account in a folder of a prepared corpus."""
        return cls(**json.loads((folder / ACCOUNT).read_text(encoding="utf-8")))

    def as_json(self) -> bytes:
        return f"{json.dumps(asdict(self), ensure_ascii=False, indent=1)}\n".encode()

    def table(self, examples: int = 3) -> str:
        """A table for a terminal, with the first pairs that each rule removed."""
        rows = [("read", self.read + self.dropped_empty, "")]
        rows += [("empty side", self.dropped_empty, "dropped, by data.empty_sides")] if self.dropped_empty else []
        rows += [(rule, count, "removed, by [cleaning]") for rule, count in self.removed.items()]
        rows += [("too long", self.too_long, "dropped")] if self.too_long else []
        rows.append(("kept", self.stored - self.joined, ""))
        rows += [("joined", self.joined, "added, by augmentation.joining")] if self.joined else []
        lines = [
            f"{name:<14}{count:>12,}  {100 * count / max(1, rows[0][1]):6.2f} %  {why}" for name, count, why in rows
        ]
        for rule, pairs in self.examples.items():
            lines += ["", f"removed by {rule}, such as"] if examples else []
            for pair in pairs[:examples]:
                lines += [f"{pair['file']}:{pair['line']}"]
                lines += [f"    {shown(pair[side], 200)}" for side in ("source", "target")]
        return "\n".join(line.rstrip() for line in lines)


@dataclass(frozen=True)
class Prepared(Generic[R]):
    """The rows to train on, as ids, and the recipe with the settings chosen from them."""

    resolved: Resolved[R]
    vocabularies: Mapping[str, Tokenizer]
    store: Store
    account: Account


@cache
def code_digest() -> str:
    """Digest of the code that reads, cleans and tokenizes, because other code may prepare files differently."""
    package = Path(weft.__file__).parent
    modules = [package / "files.py", *package.glob("data/**/*.py"), *package.glob("text/**/*.py")]
    modules += [*package.glob("preparing/*.py"), *package.glob("folders/*.py")]
    digest = hashlib.sha256(f"Unicode {unicodedata.unidata_version}".encode())
    for path in sorted(modules):
        digest.update(path.read_bytes())
    for library in ("sentencepiece", "opencc", "rjieba", "tokenizers"):
        with suppress(PackageNotFoundError):
            digest.update(f"{library} {version(library)}".encode())
    return digest.hexdigest()


def find_prepared(
    folder: Path,
    kept_in: Path | None,
    depends_on: Mapping[str, Any],
    listener: Listener,
    *,
    ignoring: Collection[str] = (),
) -> tuple[Path, Store] | None:
    """Find a corpus that was prepared from exactly `depends_on`, in `kept_in` or in the folder."""
    for place in dict.fromkeys((kept_in or folder, folder)):
        if is_prepared(place, depends_on, ignoring=ignoring):
            try:
                return place, open_store(place)
            except CorpusError as error:
                listener.on_message(f"{error}\nmaking a new one")
        elif (place / ACCOUNT).exists():
            listener.on_message(
                f"the prepared corpus in {place} was made from other files, by another recipe or by another "
                "version of weft; making a new one"
            )
    return None
