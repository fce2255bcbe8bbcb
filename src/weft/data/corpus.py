"""Files of sentence pairs to lists of strings. Knows no tokenizer and no tensor.

A corpus entry is one file of pairs (TSV or JSONL) or two files of sentences, one for each language; any of them may be
gzipped. Monolingual text is a file of sentences or one column of a file of pairs. Lines end at "\\n" and nowhere else
(see files.py).
"""

import json
import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from weft.config import FieldProblem, Settings
from weft.errors import CorpusError, Problem, UsageError, shown
from weft.files import decode_lines, lines_of, reporting_read_errors, sha256
from weft.text.detokenization import detokenize
from weft.text.normalization import is_blank
from weft.text.vocabulary import SPECIAL_PIECES

LONE_SURROGATE = re.compile("[\ud800-\udfff]")
TAG = re.compile("<[A-Za-z][A-Za-z0-9_-]*>")
COLUMN_NUMBER = re.compile("[1-9][0-9]{0,5}")
MOST_PROBLEMS = 1000
"""Lines that are wrong, with which reading gives up: a file of another kind need not be read to its end."""
LINES_AT_ONCE = 10_000
BYTES_AT_ONCE = 2**23
"""Lines of a piece, and the bytes at which it ends before."""


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
    detokenize: bool = False
    """Undo spaced words and punctuation, as in "do n't ." or "你 好 ！", of both sides and of all files."""
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
class Layout:
    """Which languages files hold, in which columns, and whether with spaced words: what DataConfig says of it, for
    files that no recipe names."""

    source: str
    target: str
    columns: Columns | None = None
    header: bool = True
    detokenize: bool = False

    @property
    def languages(self) -> tuple[str, str]:
        return self.source, self.target


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

    def describe(self, pair: int) -> dict[str, Any]:
        """What a person needs to find a pair again: its file and line, counted from 1, and its two sides."""
        sides = {"source": self.sources[pair], "target": self.references[pair][0]}
        before = 0
        for part in self.parts:
            if part.lines and before <= pair < before + part.pairs:
                return {"file": part.file, "line": part.lines[pair - before], **sides}
            before += part.pairs
        return sides


def read_corpora(entries: Sequence[str | CorpusEntry], config: DataConfig, root: Path) -> ParallelText:
    """All pairs of these entries, in order; raises CorpusError naming every file and line that is wrong."""
    texts, problems = [], []
    given = as_entries(entries)
    for entry, name in zip(given, different_names(given), strict=True):
        try:
            texts.append(read_entry(entry, name, config, root))
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


def common_reading(configs: Sequence[tuple[str, DataConfig]], name: str) -> DataConfig:
    """How all of these, by whose names they are, read the file of pairs of this name; raises UsageError with every key
    in which they differ: they would be judged by different sentences."""
    ways = [
        {
            "columns": [(columns := named_columns(name, config)).source, *target_names(columns)],
            "header": is_jsonl(name) or config.header,
            "empty_sides": config.empty_sides,
            "detokenize": config.detokenize,
        }
        for _, config in configs
    ]
    found, keys = [], []
    for key in ways[0]:
        values = [json.dumps(way[key], ensure_ascii=False) for way in ways]
        if len(set(values)) > 1:
            whose = [f"{value} for {model}" for value, (model, _) in zip(values, configs, strict=True)]
            found.append(f"data.{key} is {', '.join(whose)}")
            keys.append(f"--set data.{key}=...")
    if found:
        raise UsageError(
            f"the models read pairs in different ways: {'; '.join(found)}; choose one for all by {' '.join(keys)}"
        )
    return configs[0][1]


def read_monolingual(path: Path, column: str) -> list[str]:
    """The sentences of a text file, one a line, or those under `column` in a TSV with a header or a JSONL; .gz too.

    Raises CorpusError naming every line that is wrong, UsageError for a file of another kind.
    """
    refuse_other_kinds(str(path))
    reading = Reading(path.name, "name one of them by --column")
    columns = Columns(source=column, target=column)
    if is_jsonl(path.name) or suffix_of(path.name) == ".tsv":
        parse, pieces = open_pairs(path, columns, True, reading)
        texts = [text for piece in pieces for _, text, _ in parse(piece, reading)]
    else:
        texts = [text for _, text in decode_lines(lines_of(path), reading.problems)]
    reading.raise_problems()
    return texts


def as_entries(entries: Sequence[str | CorpusEntry]) -> tuple[CorpusEntry, ...]:
    return tuple(CorpusEntry(path=entry) if isinstance(entry, str) else entry for entry in entries)


def read_entry(entry: CorpusEntry, name: str, config: DataConfig, root: Path) -> ParallelText:
    """The pairs of one entry, which is called by this name; paths are relative to `root`."""
    reading = Reading(name)
    parse, pieces = open_entry(entry, config, root, reading)
    sources, references = [], []
    lines = array("I")
    dropped = 0
    for piece in pieces:
        for number, source, targets in parse(piece, reading):
            if not (is_blank(source) or is_blank(targets[0])):
                sources.append(source)
                references.append(targets)
                lines.append(number)
            elif config.empty_sides == "drop":
                dropped += 1
            else:
                reading.add_empty(number, source)
        if reading.has_enough:
            break
    reading.raise_problems()
    if not sources:
        raise CorpusError(name, [Problem("the whole file", "holds no sentence pair")])
    part = Part(len(sources), *weight_and_tag(entry), name, lines)
    with reporting_read_errors(root / file_names(entry)[0]):
        digests = {file: sha256(root / file) for file in file_names(entry)}
    return ParallelText(sources, references, digests, dropped, (part,))


def weight_and_tag(entry: CorpusEntry) -> tuple[float, str | None]:
    return (entry.weight, entry.tag) if isinstance(entry, TrainingCorpus) else (1.0, None)


def group_files(names: Sequence[str]) -> list[CorpusEntry]:
    """Names as a command line gives them: files of pairs, or text files two by two, source then target."""
    entries: list[CorpusEntry] = []
    texts: list[str] = []
    for name in names:
        if suffix_of(name) in (".tsv", ".jsonl", ".json"):
            entries.append(CorpusEntry(path=name))
        else:
            texts.append(name)
    for name in texts:
        refuse_other_kinds(name)
    if len(texts) % 2:
        raise UsageError(
            f"{texts[-1]} has no partner: files of pairs end with .tsv, .jsonl or .json (.gz too); any other name is a "
            "text file, of which two belong together, source then target"
        )
    pairs = zip(texts[::2], texts[1::2], strict=True)
    return entries + [CorpusEntry(source=source, target=target) for source, target in pairs]


def refuse_other_kinds(name: str) -> None:
    """What would be read as text, one sentence a line, though its name says that it is none."""
    if reason := OTHER_KINDS.get(suffix_of(name)):
        raise UsageError(f"{name}: {reason}")


def file_names(entry: CorpusEntry) -> list[str]:
    return [name for name in (entry.path, entry.source, entry.target) if name is not None]


def different_names(entries: Sequence[CorpusEntry]) -> list[str]:
    """How each is called: by its file, or its files where another has the same one; by a number where that too is
    another's."""
    short = [file_names(entry)[0] for entry in entries]
    names = [
        name if short.count(name) == 1 else " + ".join(file_names(entry))
        for name, entry in zip(short, entries, strict=True)
    ]
    return [
        f"{name} ({names[:place].count(name) + 1})" if name in names[:place] else name
        for place, name in enumerate(names)
    ]


@dataclass
class Reading:
    """What was found wrong while reading one file, and what to do where a column is not found in it."""

    subject: str
    column_hint: str = (
        "name the columns in data.columns (--columns), or set data.header = false (--no-header) where the first line "
        "is a pair"
    )
    problems: list[Problem] = field(default_factory=list)

    def add(self, number: int, what: str) -> None:
        self.problems.append(Problem(f"line {number}", what))

    def add_empty(self, number: int, source: str) -> None:
        side = "source" if is_blank(source) else "target"
        self.add(number, f'the {side} side is empty; fill it, remove it, or in a recipe set data.empty_sides = "drop"')

    @property
    def has_enough(self) -> bool:
        """Whether so much was wrong that reading on would tell nothing new."""
        return len(self.problems) >= MOST_PROBLEMS

    def raise_problems(self) -> None:
        if self.problems:
            raise CorpusError(self.subject, self.problems)


Row = tuple[int, str, tuple[str, ...]]
"""The number of a line, its source, and one or more targets."""


@dataclass(frozen=True)
class Piece:
    """Some lines of an entry as they lie in its file, or in its two files, the first of them numbered from 1."""

    first: int
    lines: list[bytes]
    targets: list[bytes] | None = None


Parse = Callable[[Piece, Reading], Iterator[Row]]
"""Makes the pairs of a piece, and notes what is wrong with its lines. Any process can parse any piece of a file."""


def open_entry(entry: CorpusEntry, config: DataConfig, root: Path, reading: Reading) -> tuple[Parse, Iterator[Piece]]:
    """How to parse the pieces of an entry, and the pieces, read as they are asked for."""
    parse, pieces = open_files(entry, config, root, reading)
    if config.detokenize:
        parse = partial(detokenized, parse=parse, languages=(config.source, config.target))
    return parse, pieces


def detokenized(piece: Piece, reading: Reading, *, parse: Parse, languages: tuple[str, str]) -> Iterator[Row]:
    for number, source, targets in parse(piece, reading):
        yield number, detokenize(source, languages[0]), tuple(detokenize(target, languages[1]) for target in targets)


def open_files(
    entry: CorpusEntry, layout: DataConfig | Layout, root: Path, reading: Reading
) -> tuple[Parse, Iterator[Piece]]:
    """The same of the texts as they stand in the files."""
    if entry.path is None:
        assert entry.source is not None and entry.target is not None  # CorpusEntry's validator holds this
        source, target = root / entry.source, root / entry.target
        pieces = pieces_of_texts(source, target, reading)
        return partial(pairs_of_texts, target_name=target.name), as_far_as_readable(pieces, reading)
    return open_pairs(root / entry.path, columns_of(entry.path, layout, reading), layout.header, reading)


def columns_of(name: str, layout: DataConfig | Layout, reading: Reading) -> Columns:
    """Those of a file of pairs; raises CorpusError where source and target are the same one."""
    columns = named_columns(name, layout)
    if columns.source in target_names(columns):
        reading.add(1, f"source and target are one column, `{columns.source}`; {reading.column_hint}")
        reading.raise_problems()
    return columns


def named_columns(name: str, layout: DataConfig | Layout) -> Columns:
    if layout.columns is not None:
        return layout.columns
    if layout.header or is_jsonl(name):
        return Columns(source=layout.source, target=layout.target)
    return Columns(source="1", target="2")


def open_pairs(path: Path, columns: Columns, has_header: bool, reading: Reading) -> tuple[Parse, Iterator[Piece]]:
    """The same for a TSV or a JSONL file."""
    lines = lines_of(path)
    if is_jsonl(path.name):
        parse_json = partial(pairs_of_jsonl, names=(columns.source, *target_names(columns)))
        return parse_json, as_far_as_readable(pieces_of(lines, first=1), reading)
    header = read_header(lines, reading) if has_header else None
    places = number_columns(columns, reading) if header is None else find_columns(columns, header, reading)
    reading.raise_problems()
    assert places is not None  # what keeps them from being found has just been raised
    parse = partial(pairs_of_tsv, places=places, columns=len(header) if header else None)
    return parse, as_far_as_readable(pieces_of(lines, first=2 if header else 1), reading)


def as_far_as_readable(pieces: Iterator[Piece], reading: Reading) -> Iterator[Piece]:
    """The same pieces; where a file turns out to be damaged that is noted, beside what is wrong in the lines before."""
    try:
        yield from pieces
    except CorpusError as error:
        reading.problems += error.problems


def pieces_of(lines: Iterator[bytes], first: int) -> Iterator[Piece]:
    for (some,) in lines_together(lines):
        yield Piece(first, some)
        first += len(some)


def lines_together(*files: Iterator[bytes]) -> Iterator[list[list[bytes]]]:
    """The lines of the files, as many at a time as make a piece; at last one may have fewer than another."""
    taken: list[list[bytes]] = [[] for _ in files]
    size = 0
    while True:
        try:
            rows = [next(file, None) for file in files]
        except CorpusError:
            if any(taken):
                yield taken
            raise
        for lines, line in zip(taken, rows, strict=True):
            if line is not None:
                lines.append(line)
                size += len(line)
        is_end = None in rows
        if is_end or size >= BYTES_AT_ONCE or len(taken[0]) == LINES_AT_ONCE:
            if any(taken):
                yield taken
            taken, size = [[] for _ in files], 0
        if is_end:
            return


def pieces_of_texts(source: Path, target: Path, reading: Reading) -> Iterator[Piece]:
    """Of two files with one sentence a line; notes where one has more lines than the other."""
    left, right = lines_of(source), lines_of(target)
    first = 1
    for sources, targets in lines_together(left, right):
        if len(sources) != len(targets):
            counts = [first - 1 + len(lines) for lines in (sources, targets)]
            counts = [count + sum(1 for _ in rest) for count, rest in zip(counts, (left, right), strict=True)]
            what = f"{source.name} has {counts[0]:,} lines, {target.name} has {counts[1]:,}"
            reading.problems.insert(
                0, Problem("the two files", f"{what}; line N of one must translate line N of the other")
            )
        yield Piece(first, sources, targets)
        first += len(sources)


def read_header(lines: Iterator[bytes], reading: Reading) -> list[str]:
    """The names in the first line of a TSV; raises CorpusError where it is missing or not UTF-8."""
    found = list(decode_lines(islice(lines, 1), reading.problems))
    if not found and not reading.problems:
        reading.add(1, "is missing: the file is empty")
    if found and "\0" in found[0][1]:
        reading.add(1, "holds zero bytes, as UTF-16 does; convert the file to UTF-8")
    reading.raise_problems()
    return [name.strip() for name in found[0][1].split("\t")]


NOT_BY_COMMAS = "weft reads cells divided by tabs, not by commas; save the table as tab-separated text (.tsv)"
OTHER_KINDS = {
    ".csv": NOT_BY_COMMAS,
    ".tmx": "weft reads TMX as a translation memory alone (--memory); save the sentences as text, one a line, or .tsv",
}


def find_columns(columns: Columns, header: list[str], reading: Reading) -> list[int] | None:
    """Places of the source and target columns in the header, or None with a problem noted."""
    names = [columns.source, *target_names(columns)]
    missing = [name for name in dict.fromkeys(names) if name not in header]
    if missing:
        if len(names) > len(header) == 1 and ("," in header[0] or ";" in header[0]):
            reading.add(1, f"has no tab: {header[0][:100]}; {NOT_BY_COMMAS}")
            return None
        found = ", ".join(header)[:100]
        wanted = " and ".join(f"`{name}`" for name in missing)
        reading.add(1, f"no column {wanted}; the header names: {found}; {reading.column_hint}")
        return None
    if several := [name for name in dict.fromkeys(names) if header.count(name) > 1]:
        reading.add(1, f"it cannot be told which column is meant by `{several[0]}`; name each column differently")
        return None
    return [header.index(name) for name in names]


def number_columns(columns: Columns, reading: Reading) -> list[int] | None:
    """Places of columns given by number from 1, or None with a problem noted."""
    names = [columns.source, *target_names(columns)]
    if not all(COLUMN_NUMBER.fullmatch(name) for name in names):
        found = shown(", ".join(names), 100)
        reading.add(1, f"without a header data.columns must hold numbers from 1, found {found}")
        return None
    return [int(name) - 1 for name in names]


def target_names(columns: Columns) -> tuple[str, ...]:
    return (columns.target,) if isinstance(columns.target, str) else columns.target


def is_jsonl(name: str) -> bool:
    return suffix_of(name) in (".jsonl", ".json")


def suffix_of(name: str) -> str:
    """What the name ends with behind its last dot, zipped or not, in lower case."""
    return Path(name.removesuffix(".gz")).suffix.lower()


def pairs_of_tsv(piece: Piece, reading: Reading, *, places: Sequence[int], columns: int | None) -> Iterator[Row]:
    """Of tab-separated values, in which nothing is quoted; `columns` is how many the header has."""
    for number, line in decode_lines(piece.lines, reading.problems, piece.first):
        cells = line.split("\t")
        if columns is not None and len(cells) != columns:
            reading.add(number, f"has {len(cells)} columns where the header has {columns}")
        elif len(cells) <= max(places):
            reading.add(number, f"has {len(cells)} columns where at least {max(places) + 1}")
        else:
            yield number, cells[places[0]], tuple(cells[place] for place in places[1:])


def pairs_of_jsonl(piece: Piece, reading: Reading, *, names: Sequence[str]) -> Iterator[Row]:
    """Of JSON objects, one a line, with a string under each of these names."""
    for number, line in decode_lines(piece.lines, reading.problems, piece.first):
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


def pairs_of_texts(piece: Piece, reading: Reading, *, target_name: str) -> Iterator[Row]:
    """Of sentences, one a line, each with its translation in the same line of another file."""
    assert piece.targets is not None
    problems: list[Problem] = []
    sources = dict(decode_lines(piece.lines, reading.problems, piece.first))
    for number, target in decode_lines(piece.targets, problems, piece.first):
        if number in sources:
            yield number, sources[number], (target,)
    reading.problems += [Problem(f"{target_name}, {problem.where}", problem.what) for problem in problems]
