"""The public corpora that weft knows by name: addresses, digests and licenses, read from catalog.toml.

A file has a sha256 if its content was checked when the entry was written; a file without one is used only if the user
accepts it. Every corpus of OPUS also has a name: opus/CORPUS/VERSION/PAIR. Does not use the network.
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
    """File name, also in a mirror."""
    address: str = Field(pattern="^https://")
    """URL; for a repository at a commit, so that the content cannot change."""
    bytes: int | None = None
    """Size in bytes, if known."""
    sha256: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")
    """SHA-256 of the content, if known."""
    git_blob: str | None = Field(default=None, pattern="^[0-9a-f]{40}$")
    """Git object id of the content at that commit, if only this is known."""
    at_most: int = Field(default=100_000_000, gt=0)
    """Largest size in bytes if the size is not known."""

    @property
    def expected(self) -> Expected:
        """What a copy is checked against."""
        at_most = self.at_most if self.bytes is None else self.bytes
        return Expected(at_most, self.bytes, self.sha256, self.git_blob)


class Input(Settings):
    file: str
    """A zip among the files of the corpus."""
    member: str
    """The member of the zip that is read."""


class Part(Settings):
    name: str
    """Name of the part, as in --part."""
    file: str = Field(pattern=PLAIN_NAME.pattern)
    """Name of the file that is written."""
    format: Format
    """Format of the published files."""
    inputs: tuple[str | Input, ...] = Field(min_length=1)
    """The published files that the part is made of."""
    columns: tuple[str, ...] = ()
    """Header of the TSV; empty for a file that is copied as published."""
    rows: int | None = None
    """Number of pairs or sentences, if known."""

    @property
    def files(self) -> list[str]:
        """Names of the published files that the part needs."""
        return [given if isinstance(given, str) else given.file for given in self.inputs]


class Corpus(Settings):
    title: str
    """Description in one line."""
    languages: tuple[str, ...]
    """Codes of its languages."""
    license: str
    """Name of the license, or what is known of the terms."""
    commercial: Literal["yes", "no", "unclear"]
    """Whether the license allows commercial use."""
    terms: str = ""
    """Further terms of use."""
    citation: str
    """The publication to cite."""
    homepage: str
    """Web page of the corpus."""
    note: str = ""
    """Remarks about the published files that matter for training."""
    files: tuple[PublishedFile, ...]
    """The files to download."""
    parts: tuple[Part, ...]
    """The files that are made of them."""

    @model_validator(mode="after")
    def _parts_and_files_know_each_other(self) -> "Corpus":
        names = [file.name for file in self.files]
        wanted = {name for part in self.parts for name in part.files}
        if sorted(set(names)) != sorted(names) or wanted != set(names):
            raise ValueError("file names must be distinct, and each file must be used by a part")
        return self

    def file(self, name: str) -> PublishedFile:
        """Return the published file of this name."""
        return next(file for file in self.files if file.name == name)

    @property
    def unit(self) -> str:
        """What a row is: pairs or sentences."""
        return "pairs" if self.parts[0].columns else "sentences"

    @property
    def bytes(self) -> int | None:
        """Total size of the download in bytes; None if a size is not known."""
        sizes = [file.bytes for file in self.files if file.bytes is not None]
        return sum(sizes) if len(sizes) == len(self.files) else None

    @property
    def rows(self) -> int | None:
        """Number of rows of all parts; None if a number is not known."""
        counts = [part.rows for part in self.parts if part.rows is not None]
        return sum(counts) if len(counts) == len(self.parts) else None


@cache
def catalog() -> dict[str, Corpus]:
    """Return name -> corpus, in the order of the file."""
    tables = tomllib.loads(CATALOG.read_text(encoding="utf-8"))
    return {name: Corpus.model_validate(table) for name, table in tables.items()}


def find_corpus(name: str) -> Corpus:
    """Return the corpus of this name; raises UsageError that suggests a similar name."""
    if name.partition("/")[0] == "opus":
        return opus(name)
    known = catalog()
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, [STARTER, *known], n=1)
    hint = f"did you mean `{near[0]}`?" if near else f"known: {', '.join([STARTER, *known])}"
    raise UsageError(f"no corpus is named {name!r}; {hint}")


def opus(name: str) -> Corpus:
    """Return a corpus of OPUS (https://opus.nlpl.eu), such as opus/Tatoeba/v2023-04-12/de-en, in Moses format.

    OPUS sorts the two codes of a pair; here they may be in either order.
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
