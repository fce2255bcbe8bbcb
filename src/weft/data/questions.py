"""Files of documents, one a line, and of questions with answers, one pair a line with a tab between them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from weft.config import Settings
from weft.data.lines import read_lines
from weft.data.pair_files import suffix_of
from weft.errors import CorpusError, Problem


class KnowledgeDataConfig(Settings):
    language: str = Field(min_length=1)
    """Code of the texts' language, such as en."""
    train: tuple[str, ...] = Field(min_length=1)
    """Files to train on: documents, one per line; and .tsv files of questions, one per line with a tab and its answer.
    .gz too."""
    valid: tuple[str, ...] = Field(min_length=1)
    """Files of questions to validate on, which select the best checkpoint; never trained on."""
    context: int = Field(default=128, ge=28, le=8192, multiple_of=4)
    """Most tokens of a row. Documents are cut to a random length of at most 7/8 of it; longer questions are dropped,
    counted and reported."""
    salient: float = Field(default=0.0, ge=0, le=1)
    """Share of documents in which the hidden span is one of capitalized words, such as a name, and the text ends after
    it. In the others both are drawn at random."""


@dataclass(frozen=True)
class Questions:
    """Questions with their answers, and the file and line that each pair comes from."""

    questions: Sequence[str]
    answers: Sequence[str]
    """Empty texts if the files give none."""
    places: Sequence[tuple[str, int]]
    sha256: dict[str, str]
    """sha256 of each file, by its name."""

    def __len__(self) -> int:
        return len(self.questions)

    def every(self, stride: int, start: int = 0) -> "Questions":
        """Every `stride`-th item, beginning with number `start`."""
        return Questions(
            self.questions[start::stride], self.answers[start::stride], self.places[start::stride], self.sha256
        )


def read_questions(names: Sequence[str], root: Path, *, answered: bool = True) -> Questions:
    """The questions of these files; without `answered` a line may be a question alone.

    Raises CorpusError with the problems of all files.
    """
    lines = read_lines(names, root)
    parts = [text.split("\t") for text in lines.texts]
    problems = [
        Problem(f"{file}: line {number}", "is not a question and its answer with a tab between them")
        for (file, number), part in zip(lines.places, parts, strict=True)
        if not all(map(str.strip, part)) or len(part) not in ((2,) if answered else (1, 2))
    ]
    if problems:
        raise CorpusError("the questions", problems)
    return Questions(
        [part[0] for part in parts], [part[1] if part[1:] else "" for part in parts], lines.places, lines.sha256
    )


def has_questions(name: str) -> bool:
    """Whether a file of this name holds questions, and not documents."""
    return suffix_of(name) == ".tsv"
