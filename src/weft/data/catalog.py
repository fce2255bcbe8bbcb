"""Which public corpora weft knows by name, and what it knows of each: where it lies, its digests, its license.

It stands in catalog.toml, beside this file. What the addresses hold was seen by whoever wrote a sha256 there; a file
that was not seen has none, and is only used where the user accepts that. Any corpus of OPUS has a name too, made of its
parts: opus/CORPUS/VERSION/PAIR. Reads no network.
"""

import difflib
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from weft.config import Settings
from weft.data.conversion import Format
from weft.data.download import Expected
from weft.errors import UsageError

CATALOG = Path(__file__).with_name("catalog.toml")
PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
STARTER = "starter"
"""The corpus that comes with weft (weft.data.starter)."""


class PublishedFile(Settings):
    name: str = Field(pattern=PLAIN_NAME.pattern)
    """What it is called here and in a mirror."""
    address: str = Field(pattern="^https://")
    """Where it lies; of a repository, at a commit, so that it cannot change."""
    bytes: int | None = None
    """Its size, where somebody has seen it."""
    sha256: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")
    """Its digest, likewise."""
    git_blob: str | None = Field(default=None, pattern="^[0-9a-f]{40}$")
    """The id of its content in the git repository at that commit, where only that has been seen."""
    at_most: int = Field(default=100_000_000, gt=0)
    """Bytes that it may have where its size is not known."""

    @property
    def expected(self) -> Expected:
        """What a copy of it must be like."""
        at_most = self.at_most if self.bytes is None else self.bytes
        return Expected(at_most, self.bytes, self.sha256, self.git_blob)


class Input(Settings):
    file: str
    """One of the corpus's files ..."""
    member: str
    """... which is a zip, and what is read of it."""


class Part(Settings):
    name: str
    """What --part calls it."""
    file: str = Field(pattern=PLAIN_NAME.pattern)
    """What it is written to."""
    format: Format
    """What the published files are like."""
    inputs: tuple[str | Input, ...] = Field(min_length=1)
    """The published files that it is made of."""
    columns: tuple[str, ...] = ()
    """The header of the TSV; none for a file that stays as it was published."""
    rows: int | None = None
    """Pairs or sentences that come out, where that is known."""

    @property
    def files(self) -> list[str]:
        """The names of the published files that it needs."""
        return [given if isinstance(given, str) else given.file for given in self.inputs]


class Corpus(Settings):
    title: str
    """What it is, in a line."""
    languages: tuple[str, ...]
    """Codes of its languages."""
    license: str
    """Its name, or what is known of the terms."""
    commercial: Literal["yes", "no", "unclear"]
    """Whether the license allows commercial use."""
    terms: str = ""
    """What else there is to know before it is used."""
    citation: str
    """Whom to name."""
    homepage: str
    """Where it is described."""
    note: str = ""
    """How it is published, and what that means for who trains on it."""
    files: tuple[PublishedFile, ...]
    """What is downloaded."""
    parts: tuple[Part, ...]
    """What is made of it."""

    @model_validator(mode="after")
    def _parts_and_files_know_each_other(self) -> "Corpus":
        names = [file.name for file in self.files]
        wanted = {name for part in self.parts for name in part.files}
        if sorted(set(names)) != sorted(names) or wanted != set(names):
            raise ValueError("files must have names of their own and be what the parts are made of")
        return self

    def file(self, name: str) -> PublishedFile:
        """The published file of this name."""
        return next(file for file in self.files if file.name == name)

    @property
    def unit(self) -> str:
        """What its rows are."""
        return "pairs" if self.parts[0].columns else "sentences"

    @property
    def bytes(self) -> int | None:
        """What is downloaded in all; None where that is not known of every file."""
        sizes = [file.bytes for file in self.files if file.bytes is not None]
        return sum(sizes) if len(sizes) == len(self.files) else None

    @property
    def rows(self) -> int | None:
        """Pairs or sentences of all parts; None where that is not known of every part."""
        counts = [part.rows for part in self.parts if part.rows is not None]
        return sum(counts) if len(counts) == len(self.parts) else None


@cache
def catalog() -> dict[str, Corpus]:
    """name -> corpus, in the order of the file."""
    tables = tomllib.loads(CATALOG.read_text(encoding="utf-8"))
    return {name: Corpus.model_validate(table) for name, table in tables.items()}


def find_corpus(name: str) -> Corpus:
    """The corpus of this name, or UsageError with the nearest one."""
    if name.partition("/")[0] == "opus":
        return opus(name)
    known = catalog()
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, [STARTER, *known], n=1)
    hint = f"did you mean `{near[0]}`?" if near else f"known: {', '.join([STARTER, *known])}"
    raise UsageError(f"no corpus is named {name!r}; {hint}")


def opus(name: str) -> Corpus:
    """A corpus of OPUS (https://opus.nlpl.eu), such as opus/Tatoeba/v2023-04-12/de-en, in the packing for Moses.

    OPUS orders the two codes of a pair; here they may stand either way.
    """
    match = re.fullmatch(r"opus/([A-Za-z0-9_-]+)/(v[A-Za-z0-9._-]+)/([A-Za-z_]+)-([A-Za-z_]+)", name)
    if match is None or match[3] == match[4]:
        raise UsageError(f"{name!r} must be opus/CORPUS/VERSION/PAIR, such as opus/Tatoeba/v2023-04-12/de-en")
    corpus, version, *languages = match.groups()
    pair = "-".join(sorted(languages))
    zipped = f"{pair}.txt.zip"
    inputs = [{"file": zipped, "member": f"{corpus}.{pair}.{language}"} for language in languages]
    address = f"https://object.pouta.csc.fi/OPUS-{corpus}/{version}/moses/{zipped}"
    return Corpus.model_validate(
        {
            "title": f"{corpus} {version} of OPUS",
            "languages": languages,
            "license": "that of the corpus; OPUS names it on the corpus's page",
            "commercial": "unclear",
            "citation": 'Jörg Tiedemann: "Parallel Data, Tools and Interfaces in OPUS", LREC 2012; and the corpus',
            "homepage": f"https://opus.nlpl.eu/{corpus}",
            "files": [{"name": zipped, "address": address, "at_most": 20_000_000_000}],
            "parts": [{"name": "all", "file": "pairs.tsv", "format": "lines", "inputs": inputs, "columns": languages}],
        }
    )
