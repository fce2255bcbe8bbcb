"""Text files to read, one text a line: what language models learn from."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from pydantic import Field
from torch import Tensor

from weft.config import FieldProblem, Settings
from weft.data.batching import Buckets, count_padding
from weft.data.pair_files import TABLES, Reading, collecting, suffix_of, texts_of
from weft.data.sentences import Sentences
from weft.errors import CorpusError, Problem, UsageError, counted
from weft.files import sha256
from weft.text.vocabulary import PADDING_ID


class LinesConfig(Settings):
    language: str = Field(min_length=1)
    """Code of the texts' language, such as en."""
    train: tuple[str, ...] = Field(min_length=1)
    """Text files to train on, one text per line; .gz too."""
    valid: tuple[str, ...] = ()
    """Text files to validate on, which select the best checkpoint; never trained on."""
    valid_share: float | None = Field(default=None, gt=0, lt=1)
    """Instead of `valid`: hold out this share of the characters of `train`, the last lines, for validation."""
    column: str | None = Field(default=None, min_length=1)
    """Read this column of tables (.tsv, .csv, .jsonl; .gz too), in place of whole lines."""
    running: bool = False
    """Read the lines as one running text, in which a line goes on from the lines before it. Blank lines stay."""
    max_length: int = Field(default=512, ge=1)
    """Drop training texts with more than this many pieces (not in a running text). They are counted and reported."""
    context: int | None = Field(default=None, ge=1, le=1_048_576)
    """Pieces that a Transformer sees at once, and the length of the rows in the batches of a running text, after which
    the gradient through time is cut off. If not set: 256, or max_length + 1 for a text per line."""
    overlap: int | None = Field(default=None, ge=0)
    """Pieces by which the windows of an evaluation overlap: each piece is predicted once, from at least this many
    before it (fewer at the beginning of a text). If not set: half of context."""

    def misfits(self) -> Iterator[FieldProblem]:
        if self.valid and self.valid_share is not None:
            yield FieldProblem("valid", "conflicts with valid_share; give one of them")
        if not self.valid and self.valid_share is None:
            yield FieldProblem("valid", "is missing; name files, or set valid_share (one of the two)")
        if self.overlap is not None and self.overlap >= self.seen_at_once:
            yield FieldProblem("overlap", f"must be below context = {self.seen_at_once}")

    @property
    def seen_at_once(self) -> int:
        """`context` or its default."""
        return self.context or (256 if self.running else self.max_length + 1)

    @property
    def longest_row(self) -> int:
        """The most tokens that a network reads at once, in training or in an evaluation."""
        return self.seen_at_once if self.running else max(self.seen_at_once, self.max_length + 1)

    @property
    def seen_at_least(self) -> int:
        """`overlap` or its default."""
        return self.seen_at_once // 2 if self.overlap is None else self.overlap


@dataclass(frozen=True)
class Lines:
    """Texts, and the file and line that each comes from."""

    texts: Sequence[str]
    places: Sequence[tuple[str, int]]
    sha256: dict[str, str]
    """sha256 of each file, by its name."""
    running: bool = False
    """Whether they are one text."""

    def __len__(self) -> int:
        return len(self.texts)

    def every(self, stride: int, start: int = 0) -> "Lines":
        """Every `stride`-th item, beginning with number `start`; of a running text the part of that number, counted
        from 0, of `stride` equal ones."""
        part = slice(start, None, stride)
        if self.running:
            part = slice(start * len(self) // stride, (start + 1) * len(self) // stride)
        return replace(self, texts=self.texts[part], places=self.places[part])


def refuse_tables(names: Iterable[str], column: str | None) -> None:
    """Raise UsageError for a table of which no column is named: a model would read its tabs and all its columns."""
    for name in names:
        if column is None and suffix_of(name) in TABLES:
            raise UsageError(f"{name} is a table: name the column of its text by data.column, or give a text file")


def read_lines(names: Sequence[str], root: Path, *, keeps_blank: bool = False, column: str | None = None) -> Lines:
    """The lines of these files, without blank ones by default; of tables the column. Raises CorpusError with the
    problems of all files, UsageError for a file of another kind."""
    texts, places, digests = list[str](), list[tuple[str, int]](), dict[str, str]()
    problems: list[Problem] = []
    for name in names:
        with collecting(problems, name):
            reading = Reading(name, "name one of them in data.column")
            for number, text in texts_of(root / name, column, reading):
                if keeps_blank or text.strip():
                    texts.append(text)
                    places.append((name, number))
            reading.raise_problems()
            digests[name] = sha256(root / name)
    if not texts and not problems:
        problems = [Problem(", ".join(names), "holds no text")]
    if problems:
        raise CorpusError("the corpus", problems)
    return Lines(texts, places, digests)


def without_end(lines: Lines, share: float) -> tuple[Lines, Lines]:
    """The lines without the last ones, and the last ones, which hold this share of the characters (line ends count)."""
    ends = np.cumsum([len(text) + 1 for text in lines.texts])
    first = int(np.searchsorted(ends, (1 - share) * ends[-1], side="right"))
    if not 0 < first < len(lines):
        has = f"the text has {counted(len(lines), 'line')}; break it into shorter ones, or name a file for validation"
        what = f"{share} leaves no line to train or to validate on: {has}"
        raise CorpusError("the corpus", [Problem("data.valid_share", what)])
    train, valid = (
        Lines(lines.texts[part], lines.places[part], lines.sha256) for part in (slice(first), slice(first, None))
    )
    return train, valid


@dataclass(frozen=True)
class LineBatch:
    """Texts padded to a rectangle, each between <s> and </s>, or pieces of a running text."""

    tokens: Int[Tensor, "batch time"]
    rows: Int[np.ndarray, " batch"] | None = None
    """The row of the corpus that each one is."""
    place: tuple[int, int] | None = None
    """The epoch and the number of the batch in it, if each row goes on where it ended in the batch before."""
    first: int = 0
    """The number of its first row, in a part of a batch."""

    def to(self, device: torch.device) -> "LineBatch":
        return replace(self, tokens=self.tokens.to(device))

    def padding(self) -> tuple[int, int]:
        return count_padding(self.tokens)

    def chunk(self, parts: int) -> list["LineBatch"]:
        """Its rows in at most `parts` batches."""
        chunks = self.tokens.chunk(parts)
        firsts = np.cumsum([0, *map(len, chunks)]).tolist()
        return [LineBatch(tokens, None, self.place, first) for tokens, first in zip(chunks, firsts, strict=False)]

    def without_predictions(self) -> "LineBatch":
        """Return these rows without a token to predict."""
        tokens = self.tokens.clone()
        tokens[:, 1:] = PADDING_ID
        return LineBatch(tokens, None, self.place)


def line_buckets(texts: Sentences, **settings: Any) -> Buckets[LineBatch]:
    """Batches of encoded texts; `settings` are those of Buckets."""

    def collate(rows: np.ndarray, epoch: int) -> LineBatch:
        return LineBatch(torch.from_numpy(texts.padded(rows)), rows)

    return Buckets((texts,), collate, **settings)
