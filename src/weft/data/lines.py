"""Text files to read, one text a line: what language models learn from."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from pydantic import Field
from torch import Tensor

from weft.config import Settings
from weft.data.batching import Buckets
from weft.data.sentences import Sentences
from weft.errors import CorpusError, Problem
from weft.files import decode_lines, lines_of, sha256
from weft.text.vocabulary import PADDING_ID


class LinesConfig(Settings):
    language: str = Field(min_length=1)
    """Code of the texts' language, such as en."""
    train: tuple[str, ...] = Field(min_length=1)
    """Text files to train on, one text per line; .gz too."""
    valid: tuple[str, ...] = Field(min_length=1)
    """Text files to validate on, which select the best checkpoint; never trained on."""
    max_length: int = Field(default=512, ge=1)
    """Drop training texts with more than this many pieces. Dropped texts are counted and reported."""


@dataclass(frozen=True)
class Lines:
    """Texts, and the file and line that each comes from."""

    texts: Sequence[str]
    places: Sequence[tuple[str, int]]
    sha256: dict[str, str]
    """sha256 of each file, by its name."""

    def __len__(self) -> int:
        return len(self.texts)

    def every(self, stride: int) -> "Lines":
        """The first text and every one `stride` places after the last."""
        return Lines(self.texts[::stride], self.places[::stride], {})

    def describe(self, index: int) -> dict[str, Any]:
        file, line = self.places[index]
        return {"file": file, "line": line, "text": self.texts[index]}


def read_lines(names: Sequence[str], root: Path) -> Lines:
    """The lines of these files that are not blank; raises CorpusError with the problems of all of them."""
    texts, places, digests = list[str](), list[tuple[str, int]](), dict[str, str]()
    problems: list[Problem] = []
    for name in names:
        try:
            found: list[Problem] = []
            for number, text in decode_lines(lines_of(root / name), found):
                if text.strip():
                    texts.append(text)
                    places.append((name, number))
            problems += [Problem(f"{name}: {problem.where}", problem.what) for problem in found]
            digests[name] = sha256(root / name)
        except CorpusError as error:
            problems += [Problem(f"{name}: {problem.where}", problem.what) for problem in error.problems]
    if not texts and not problems:
        problems = [Problem(", ".join(names), "holds no text")]
    if problems:
        raise CorpusError("the corpus", problems)
    return Lines(texts, places, digests)


@dataclass(frozen=True)
class LineBatch:
    """Texts padded to a rectangle, each between <s> and </s>."""

    tokens: Int[Tensor, "batch time"]
    rows: Int[np.ndarray, " batch"] | None = None
    """The row of the corpus that each one is."""

    def to(self, device: torch.device) -> "LineBatch":
        return LineBatch(self.tokens.to(device), self.rows)

    def chunk(self, parts: int) -> list["LineBatch"]:
        """Its rows in at most `parts` batches."""
        return [LineBatch(tokens) for tokens in self.tokens.chunk(parts)]

    def without_predictions(self) -> "LineBatch":
        """Return these rows without a token to predict."""
        tokens = self.tokens.clone()
        tokens[:, 1:] = PADDING_ID
        return LineBatch(tokens)


def line_buckets(texts: Sentences, **settings: Any) -> Buckets[LineBatch]:
    """Batches of encoded texts; `settings` are those of Buckets."""

    def collate(rows: np.ndarray, epoch: int) -> LineBatch:
        return LineBatch(torch.from_numpy(texts.padded(rows, PADDING_ID)), rows)

    return Buckets((texts,), collate, **settings)
