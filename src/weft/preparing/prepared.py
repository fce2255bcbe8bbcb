"""What comes of preparing a corpus, for any task: ids in a store, vocabularies, and an account of the way there."""

import hashlib
import json
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
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
class Account:
    """What became of the pairs of the files."""

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
    """What making the vocabularies settled: key of the recipe -> value, origin."""
    messages: Sequence[str]
    """What was said of the pairs."""
    diagnosis: Mapping[str, Any]
    """What the quick checks found in the clean pairs."""

    @classmethod
    def read_from(cls, folder: Path) -> "Account":
        """The account in a folder of a prepared corpus."""
        return cls(**json.loads((folder / ACCOUNT).read_text(encoding="utf-8")))

    def as_json(self) -> bytes:
        return f"{json.dumps(asdict(self), ensure_ascii=False, indent=1)}\n".encode()

    def table(self, examples: int = 3) -> str:
        """What became of the pairs, with the first that each rule removed."""
        rows = [("read", self.read + self.dropped_empty, "")]
        rows += [("empty side", self.dropped_empty, "dropped, by data.empty_sides")] if self.dropped_empty else []
        rows += [(rule, count, "removed, by [cleaning]") for rule, count in self.removed.items()]
        rows += [("too long", self.too_long, "dropped, by data.max_length")] if self.too_long else []
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
    """The rows to train on, as ids, and the recipe with everything that it leaves to them."""

    resolved: Resolved[R]
    vocabularies: Mapping[str, Tokenizer]
    store: Store
    account: Account


@cache
def code_digest() -> str:
    """Digest of the code that reads, cleans and tokenizes: another version may prepare the same files differently."""
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


def opened(
    folder: Path, depends_on: Mapping[str, Any], listener: Listener, *, ignoring: Collection[str] = ()
) -> Store | None:
    """The store of just this in the folder, if there is one."""
    if not is_prepared(folder, depends_on, ignoring=ignoring):
        if (folder / ACCOUNT).exists():
            listener.on_message(
                f"the prepared corpus in {folder} was made from other files, by another recipe or by another "
                "version of weft; making a new one"
            )
        return None
    try:
        return open_store(folder)
    except CorpusError as error:
        listener.on_message(f"{error}\nmaking a new one")
        return None
