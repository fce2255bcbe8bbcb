"""Files of sentence pairs to lists of strings. Knows no tokenizer and no tensor.

A corpus entry is one file of pairs (TSV or JSONL) or two files of sentences, one for each language; any of them may be
gzipped. Monolingual text is a file of sentences or one column of a file of pairs. Lines end at "\\n" and nowhere else
(see files.py).
"""

import json
import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from weft.config import FieldProblem, Settings
from weft.errors import CorpusError, Problem
from weft.files import decode_lines, read_bytes, sha256, split_lines
from weft.text.vocabulary import SPECIAL_PIECES

LONE_SURROGATE = re.compile("[\ud800-\udfff]")
TAG = re.compile("<[A-Za-z][A-Za-z0-9_-]*>")


class Columns(Settings):
    source: str = Field(min_length=1)
    """Name of the source column (a TSV's header, a JSONL's key), or its number from 1 where there is no header."""
    target: str | tuple[str, ...] = Field(min_length=1)
    """Name of the target column, or of several: the first is trained on, all are references in evaluation."""


class CorpusEntry(Settings):
    path: str | None = None
    """A TSV or JSONL file of pairs."""
    source: str | None = None
    """A text file of source sentences, one a line ..."""
    target: str | None = None
    """... and the text file of their translations."""

    @model_validator(mode="after")
    def _one_file_or_two(self) -> "CorpusEntry":
        if (self.path is None) == (self.source is None and self.target is None):
            raise ValueError("give either `path`, or `source` and `target`")
        if self.path is None and (self.source is None or self.target is None):
            raise ValueError("a pair of text files needs both `source` and `target`")
        return self


class TrainingCorpus(CorpusEntry):
    weight: float = Field(default=1.0, gt=0, le=1000)
    """How often an epoch holds each pair: 2 is twice, 0.5 half of the pairs, others in every epoch."""
    tag: str | None = None
    """A word such as "<bt>" that stands before every source of this corpus as a piece of its own."""

    @field_validator("tag")
    @classmethod
    def _is_a_word_in_angle_brackets(cls, tag: str | None) -> str | None:
        if tag is not None and (not TAG.fullmatch(tag) or tag in SPECIAL_PIECES):
            raise ValueError(
                f'expected a word in angle brackets, such as "<bt>", and none of {", ".join(SPECIAL_PIECES)}'
            )
        return tag


class DataConfig(Settings):
    source: str = Field(min_length=1)
    """Code of the language to translate from, such as zh."""
    target: str = Field(min_length=1)
    """Code of the language to translate into, such as en."""
    train: tuple[str | TrainingCorpus, ...] = Field(min_length=1)
    """Files to train on: TSV or JSONL paths, or { source = "a.zh", target = "a.en" }; .gz too."""
    valid: tuple[str | CorpusEntry, ...] = Field(min_length=1)
    """Files to choose the best weights on; never trained on."""
    columns: Columns | None = None
    """Which columns hold the pair; left out: those named as the languages, or without a header the first two."""
    header: bool = True
    """Whether the first line of a TSV names its columns."""
    empty_sides: Literal["error", "drop"] = "error"
    """What to do with a pair of which one side is empty."""
    max_length: int = Field(default=256, ge=1)
    """Training pairs with more pieces than this on a side are dropped, counted and reported."""
    tag: str | None = None
    """One of the training corpora's tags, to stand before what is validated and translated; left out: none."""

    @model_validator(mode="after")
    def _two_languages(self) -> "DataConfig":
        if self.source == self.target and self.columns is None:
            raise FieldProblem("target", "is the source language too; name the two columns in data.columns")
        return self

    @model_validator(mode="after")
    def _a_tag_that_is_trained(self) -> "DataConfig":
        if self.tag is not None and self.tag not in self.tags:
            known = f"known: {', '.join(self.tags)}" if self.tags else "none of them has a tag"
            raise FieldProblem("tag", f"must be the tag of a corpus in data.train; {known}")
        return self

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of the training corpora, each once, in order."""
        tags = [entry.tag for entry in self.train if not isinstance(entry, str) and entry.tag is not None]
        return tuple(dict.fromkeys(tags))


@dataclass(frozen=True)
class Part:
    """So many pairs in a row that come from one corpus: its weight and tag, and the file and lines they stand in."""

    pairs: int
    weight: float = 1.0
    tag: str | None = None
    file: str = ""
    lines: Sequence[int] = ()


@dataclass(frozen=True)
class ParallelText:
    """Sentence pairs as read: `references[i]` holds one or more translations of `sources[i]`.

    The pairs of `parts` add up to them; without parts no pair has a tag, and all have the weight 1.
    """

    sources: list[str]
    references: list[tuple[str, ...]]
    sha256: dict[str, str]
    dropped_empty: int = 0
    parts: tuple[Part, ...] = ()

    def __len__(self) -> int:
        return len(self.sources)

    @property
    def targets(self) -> list[str]:
        """The first reference of each pair."""
        return [reference[0] for reference in self.references]

    @property
    def weights(self) -> list[float]:
        """The weight of each pair."""
        return [part.weight for part in self._parts() for _ in range(part.pairs)]

    @property
    def tags(self) -> list[str | None]:
        """The tag of each pair."""
        return [part.tag for part in self._parts() for _ in range(part.pairs)]

    def describe(self, pair: int) -> dict[str, Any]:
        """What a person needs to find a pair again: its file and line, counted from 1, and its two sides."""
        sides = {"source": self.sources[pair], "target": self.references[pair][0]}
        before = 0
        for part in self.parts:
            if part.lines and before <= pair < before + part.pairs:
                return {"file": part.file, "line": part.lines[pair - before], **sides}
            before += part.pairs
        return sides

    def _parts(self) -> tuple[Part, ...]:
        return self.parts or (Part(len(self)),)


def read_corpora(entries: Sequence[str | CorpusEntry], config: DataConfig, root: Path) -> ParallelText:
    """All pairs of these entries, in order; raises CorpusError naming every file and line that is wrong."""
    texts, problems = [], []
    for entry in entries:
        entry = CorpusEntry(path=entry) if isinstance(entry, str) else entry
        try:
            texts.append(read_entry(entry, config, root))
        except CorpusError as error:
            problems += [Problem(f"{error.subject}: {problem.where}", problem.what) for problem in error.problems]
    if problems:
        raise CorpusError("the corpus", problems)
    return ParallelText(
        sources=[source for text in texts for source in text.sources],
        references=[reference for text in texts for reference in text.references],
        sha256={name: digest for text in texts for name, digest in text.sha256.items()},
        dropped_empty=sum(text.dropped_empty for text in texts),
        parts=tuple(part for text in texts for part in text.parts),
    )


def read_monolingual(path: Path, column: str) -> list[str]:
    """The sentences of a text file, one a line, or those under `column` in a TSV with a header or a JSONL; .gz too.

    Raises CorpusError naming every line that is wrong.
    """
    reading = Reading(path.name, "name one of them by --column")
    columns = Columns(source=column, target=column)
    if is_jsonl(path.name):
        texts = [text for _, text, _ in read_jsonl(path, columns, reading)]
    elif path.name.removesuffix(".gz").endswith(".tsv"):
        texts = [text for _, text, _ in read_tsv(path, columns, True, reading)]
    else:
        texts = [text for _, text in read_lines(path, reading.problems)]
    reading.raise_problems()
    return texts


def read_entry(entry: CorpusEntry, config: DataConfig, root: Path) -> ParallelText:
    """The pairs of one entry; paths are relative to `root`."""
    if entry.path is None:
        assert entry.source is not None and entry.target is not None  # CorpusEntry's validator holds this
        names = [entry.source, entry.target]
        reading = Reading(entry.source)
        rows = read_text_pair(root / entry.source, root / entry.target, reading)
    else:
        names = [entry.path]
        reading = Reading(entry.path)
        by_language = Columns(source=config.source, target=config.target)
        if is_jsonl(entry.path):
            rows = read_jsonl(root / entry.path, config.columns or by_language, reading)
        else:
            columns = config.columns or (by_language if config.header else Columns(source="1", target="2"))
            rows = read_tsv(root / entry.path, columns, config.header, reading)
    sources, references = [], []
    lines = array("I")
    dropped = 0
    for number, source, targets in rows:
        if source.strip() and targets[0].strip():
            sources.append(source)
            references.append(targets)
            lines.append(number)
        elif config.empty_sides == "drop":
            dropped += 1
        else:
            side = "source" if not source.strip() else "target"
            reading.add(number, f'the {side} side is empty; fill it, remove it or set data.empty_sides = "drop"')
    reading.raise_problems()
    if not sources:
        raise CorpusError(names[0], [Problem("the whole file", "holds no sentence pair")])
    weight, tag = (entry.weight, entry.tag) if isinstance(entry, TrainingCorpus) else (1.0, None)
    part = Part(len(sources), weight, tag, names[0], lines)
    return ParallelText(sources, references, {name: sha256(root / name) for name in names}, dropped, (part,))


@dataclass
class Reading:
    """What was found wrong while reading one file, and what to do where a column is not found in it."""

    subject: str
    column_hint: str = "name the columns in data.columns, or set data.header = false where the first line is a pair"
    problems: list[Problem] = field(default_factory=list)

    def add(self, number: int, what: str) -> None:
        self.problems.append(Problem(f"line {number}", what))

    def raise_problems(self) -> None:
        if self.problems:
            raise CorpusError(self.subject, self.problems)


Row = tuple[int, str, tuple[str, ...]]


def read_tsv(path: Path, columns: Columns, has_header: bool, reading: Reading) -> Iterator[Row]:
    """(line number, source, targets) of each line of tab-separated values; nothing is quoted."""
    lines = read_lines(path, reading.problems)
    if has_header:
        number, first = next(lines, (0, ""))
        if number != 1:  # it is not there or not UTF-8, and the next one must not be taken for it
            if not reading.problems:
                reading.add(1, "is missing: the file is empty")
            reading.raise_problems()
        header = [name.strip() for name in first.split("\t")]
        places = find_columns(columns, header, reading)
    else:
        header = None
        places = number_columns(columns, reading)
    if places is None:
        reading.raise_problems()
        return
    for number, line in lines:
        cells = line.split("\t")
        expected = len(header) if header else max(places) + 1
        if len(cells) != expected if header else len(cells) < expected:
            reading.add(
                number, f"has {len(cells)} columns where {'the header has' if header else 'at least'} {expected}"
            )
            continue
        yield number, cells[places[0]], tuple(cells[place] for place in places[1:])


def find_columns(columns: Columns, header: list[str], reading: Reading) -> list[int] | None:
    """Places of the source and target columns in the header, or None with a problem noted."""
    names = [columns.source, *target_names(columns)]
    missing = [name for name in dict.fromkeys(names) if name not in header]
    if missing:
        found = ", ".join(header)[:100]
        wanted = " and ".join(f"`{name}`" for name in missing)
        reading.add(1, f"no column {wanted}; the header names: {found}; {reading.column_hint}")
        return None
    return [header.index(name) for name in names]


def number_columns(columns: Columns, reading: Reading) -> list[int] | None:
    """Places of columns given by number from 1, or None with a problem noted."""
    names = [columns.source, *target_names(columns)]
    if not all(name.isdecimal() and int(name) > 0 for name in names):
        reading.add(1, f"without a header data.columns must hold numbers from 1, found {', '.join(names)}")
        return None
    return [int(name) - 1 for name in names]


def target_names(columns: Columns) -> tuple[str, ...]:
    return (columns.target,) if isinstance(columns.target, str) else columns.target


def is_jsonl(name: str) -> bool:
    return name.removesuffix(".gz").endswith((".jsonl", ".json"))


def read_jsonl(path: Path, columns: Columns, reading: Reading) -> Iterator[Row]:
    """(line number, source, targets) of each line, a JSON object with a string under each column's name."""
    names = [columns.source, *target_names(columns)]
    for number, line in read_lines(path, reading.problems):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            reading.add(number, "is no JSON object")
            continue
        values = [row.get(name) for name in names] if isinstance(row, dict) else [None]
        texts = [value for value in values if isinstance(value, str)]
        if any(LONE_SURROGATE.search(text) for text in texts):
            reading.add(number, "holds half of a character: an escape from \\ud800 to \\udfff without its other half")
        elif len(texts) == len(names):
            yield number, texts[0], tuple(texts[1:])
        else:
            reading.add(number, f"must be an object with strings under {' and '.join(dict.fromkeys(names))}")


def read_text_pair(source: Path, target: Path, reading: Reading) -> Iterator[Row]:
    """(line number, source, (target,)) of two files with one sentence a line."""
    source_bytes, target_bytes = split_lines(read_bytes(source)), split_lines(read_bytes(target))
    if len(source_bytes) != len(target_bytes):
        counts = f"{source.name} has {len(source_bytes):,} lines, {target.name} has {len(target_bytes):,}"
        reading.problems.append(Problem("the two files", f"{counts}; line N of one must translate line N of the other"))
    target_problems: list[Problem] = []
    source_lines = [line for _, line in decode_lines(source_bytes, reading.problems)]
    target_lines = [line for _, line in decode_lines(target_bytes, target_problems)]
    reading.problems += [Problem(f"{target.name}, {p.where}", p.what) for p in target_problems]
    reading.raise_problems()
    for number, (left, right) in enumerate(zip(source_lines, target_lines, strict=True), start=1):
        yield number, left, (right,)


def read_lines(path: Path, problems: list[Problem]) -> Iterator[tuple[int, str]]:
    """(number from 1, line) of a UTF-8 file; lines that are not UTF-8 are noted and left out."""
    return decode_lines(split_lines(read_bytes(path)), problems)
