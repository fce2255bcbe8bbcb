"""Parse files of sentence pairs: TSV, CSV, JSONL, or two text files whose lines translate each other. Knows no recipe.

A file is read in pieces of some thousand lines, which any process can parse. Lines end at "\\n" and nowhere else (see
files.py). Any file may be gzipped.
"""

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice, takewhile
from pathlib import Path
from typing import NoReturn

from weft.errors import CorpusError, Problem, UsageError, counted, shown
from weft.files import decode_lines, lines_of
from weft.text.normalization import is_blank

LONE_SURROGATE = re.compile("[\ud800-\udfff]")
COLUMN_NUMBER = re.compile("[1-9][0-9]{0,5}")
MOST_PROBLEMS = 1000
"""Number of problems after which reading stops: a file of another kind need not be read to its end."""
LINES_AT_ONCE = 10_000
"""Most lines of a piece."""
BYTES_AT_ONCE = 2**23
"""A piece ends once it has this many bytes."""
TABLES = (".tsv", ".csv", ".jsonl", ".json")
"""Suffixes of files with named columns."""
XML = (".tmx", ".tbx")
"""Suffixes of translation memories and term bases, in which texts have languages instead of columns (tmx.py)."""
OTHER_KINDS = {
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "weft reads no spreadsheets; save the table as .csv or .tsv"),
    **dict.fromkeys((".docx", ".doc", ".pdf"), "weft reads no documents here; save sentences as text, one per line"),
}


BY_COMMAS = "cells of such a file are separated by tabs, not commas; let the name of a table with commas end with .csv"
ONE_TABLE = "give one file with a column for each language, not text files"


@dataclass
class Reading:
    """Collects the problems found while reading one file; `column_hint` says what to do if a column is missing, and
    `texts_hint` what to do with text files."""

    subject: str
    column_hint: str = (
        "name the columns in data.columns, or set data.header = false if the first line is a pair (in a recipe, or by "
        "--set; without a recipe: --columns, --no-header)"
    )
    texts_hint: str = (
        "give text files two by two, source then target: --data a.zh a.en, or in a recipe "
        "{ source = ..., target = ... }"
    )
    problems: list[Problem] = field(default_factory=list)

    def add(self, number: int, what: str) -> None:
        self.problems.append(Problem(f"line {number}", what))

    def add_empty(self, number: int, source: str) -> None:
        side = "source" if is_blank(source) else "target"
        self.add(number, f'the {side} side is empty; fill it, remove it, or set data.empty_sides = "drop" in a recipe')

    @property
    def has_enough(self) -> bool:
        """Whether there are enough problems to stop reading."""
        return len(self.problems) >= MOST_PROBLEMS

    def raise_problems(self) -> None:
        if self.problems:
            raise CorpusError(self.subject, self.problems)

    def refuse(self, number: int, what: str) -> NoReturn:
        """Add a problem after which nothing can be read, and raise all of them."""
        self.add(number, what)
        raise CorpusError(self.subject, self.problems)


@contextmanager
def collecting(problems: list[Problem], name: str | None = None) -> Iterator[None]:
    """Add the problems of the file that the block reads to those of other files; `name` as in `in_file`."""
    try:
        yield
    except CorpusError as error:
        problems += in_file(error, name)


def in_file(error: CorpusError, name: str | None = None) -> list[Problem]:
    """Return the problems of a file with its name before each place; without a `name` that is the error's subject."""
    return [Problem(f"{name or error.subject}: {problem.where}", problem.what) for problem in error.problems]


Row = tuple[int, str, tuple[str, ...]]
"""The number of a line, its source, and one or more targets."""


@dataclass(frozen=True)
class Piece:
    """Consecutive lines of a file of pairs, or of two files of sentences; `first` is the number of the first line."""

    first: int
    lines: list[bytes]
    targets: list[bytes] | None = None


Parse = Callable[[Piece, Reading], Iterator[Row]]
"""Yields the pairs of a piece, and adds a problem for each line that is wrong."""


def open_pairs(path: Path, names: Sequence[str], has_header: bool, reading: Reading) -> tuple[Parse, Iterator[Piece]]:
    """Return the parser and the pieces of a TSV, CSV or JSONL file; `names` are its source and target columns.

    Without a header the names are column numbers, counted from 1, and every row has as many columns as the first.
    Raises CorpusError if a column is missing.
    """
    if suffix_of(path.name) == ".csv":
        return parse_row, pieces_of_rows(rows_of_csv(path, names, has_header, reading))
    lines = lines_of(path)
    if is_jsonl(path.name):
        return partial(pairs_of_jsonl, names=names), until_damaged(pieces_of(lines, first=1), reading)
    if has_header:
        header = read_header(lines, reading)
        places, columns = find_columns(names, header, reading), len(header)
    else:
        first = [*islice(lines, 1)]
        lines = chain(first, lines)
        places, columns = number_columns(names, reading), b"".join(first).count(b"\t") + 1
    parse = partial(pairs_of_tsv, places=places, columns=columns, first="header" if has_header else "first line")
    return parse, until_damaged(pieces_of(lines, first=2 if has_header else 1), reading)


def texts_of(path: Path, column: str | None, reading: Reading) -> Iterator[tuple[int, str]]:
    """The lines of a text file with their numbers; of a table with named columns the cells of one, if it is named.

    Raises UsageError for a file of another kind.
    """
    refuse_other_kinds(str(path))
    if suffix_of(path.name) in XML:
        raise UsageError(f"{path}: holds pairs; save the sentences of one language as text, one per line")
    if column is None or suffix_of(path.name) not in TABLES:
        yield from decoded_lines(path, reading)
        return
    for number, text, _ in parsed(*open_pairs(path, (column, column), True, reading), reading):
        yield number, text


def parsed(parse: Parse, pieces: Iterator[Piece], reading: Reading) -> Iterator[Row]:
    """The rows of the pieces, up to the piece where there are enough problems to stop."""
    for piece in pieces:
        yield from parse(piece, reading)
        if reading.has_enough:
            return


def decoded_lines(path: Path, reading: Reading) -> Iterator[tuple[int, str]]:
    """The lines of a file with their numbers, up to the one where there are enough problems to stop."""
    lines = takewhile(lambda _: not reading.has_enough, lines_of(path))
    return decode_lines(lines, reading.problems)


def open_texts(source: Path, target: Path, reading: Reading) -> tuple[Parse, Iterator[Piece]]:
    """Return the parser and the pieces of two text files with one sentence a line."""
    pieces = pieces_of_texts(source, target, reading)
    return partial(pairs_of_texts, target_name=target.name), until_damaged(pieces, reading)


def refuse_other_kinds(name: str) -> None:
    """Raise UsageError for a file that would be read as plain text although its name says that it is not."""
    if reason := OTHER_KINDS.get(suffix_of(name)):
        raise UsageError(f"{name}: {reason}")


def is_jsonl(name: str) -> bool:
    return suffix_of(name) in (".jsonl", ".json")


def suffix_of(name: str) -> str:
    """The suffix of a file name in lower case, without .gz."""
    return Path(name.lower().removesuffix(".gz")).suffix


# Columns


def read_header(lines: Iterator[bytes], reading: Reading) -> list[str]:
    """Return the names in the first line of a TSV; raises CorpusError if it is missing or not UTF-8."""
    found = list(decode_lines(islice(lines, 1), reading.problems))
    if not found and not reading.problems:
        reading.add(1, "is missing: the file is empty")
    if found and "\0" in found[0][1]:
        reading.add(1, "contains zero bytes, as UTF-16 does; convert the file to UTF-8")
    reading.raise_problems()
    return [name.strip() for name in found[0][1].split("\t")]


def find_columns(names: Sequence[str], header: list[str], reading: Reading) -> list[int]:
    """Return the index of each column in the header; raises CorpusError for one that is missing or there twice."""
    missing = [name for name in dict.fromkeys(names) if name not in header]
    if missing:
        if not header:
            reading.refuse(1, "is empty; it has to name the columns")
        if "\t" in header[0]:
            reading.refuse(1, "has tabs between its cells; give the file a name that ends with .tsv")
        if len(set(names)) > len(header) == 1:
            by_commas = any(cell.strip(' "') in names for cell in re.split("[,;]", header[0]))
            advice = BY_COMMAS if by_commas else f"the cells of a table are separated by tabs; {reading.texts_hint}"
            reading.refuse(1, f"has no tab: {header[0][:100]}; {advice}")
        found = ", ".join(header)[:100]
        wanted = " and ".join(f"`{name}`" for name in missing)
        reading.refuse(1, f"has no column {wanted}; the header names: {found}; {reading.column_hint}")
    if several := [name for name in dict.fromkeys(names) if header.count(name) > 1]:
        reading.refuse(1, f"has several columns named `{several[0]}`; give each column a name of its own")
    return [header.index(name) for name in names]


def number_columns(names: Sequence[str], reading: Reading) -> list[int]:
    """Return the index of each column given by its number from 1; raises CorpusError for anything else."""
    if not all(COLUMN_NUMBER.fullmatch(name) for name in names):
        found = shown(", ".join(names), 100)
        reading.refuse(1, f"without a header data.columns must be numbers from 1, found {found}")
    return [int(name) - 1 for name in names]


# Pieces


def until_damaged(pieces: Iterator[Piece], reading: Reading) -> Iterator[Piece]:
    """Yield the pieces up to the place where the file is damaged, if it is, and add that as a problem."""
    try:
        yield from pieces
    except CorpusError as error:
        reading.problems += error.problems


def pieces_of(lines: Iterator[bytes], first: int) -> Iterator[Piece]:
    for (some,) in lines_together(lines):
        yield Piece(first, some)
        first += len(some)


def pieces_of_rows(rows: Iterable[Row]) -> Iterator[Piece]:
    """Yield the pieces of a file that only one process can parse, because its rows span lines; see `parse_row`."""
    rows = iter(rows)
    while some := list(islice(rows, LINES_AT_ONCE)):
        yield Piece(some[0][0], [json.dumps(row).encode() for row in some])


def pieces_of_texts(source: Path, target: Path, reading: Reading) -> Iterator[Piece]:
    """Yield the pieces of two files with one sentence a line; adds a problem if one has more lines than the other."""
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


def lines_together(*files: Iterator[bytes]) -> Iterator[list[list[bytes]]]:
    """Yield the next lines of all files, up to the size of a piece; in the last item one list may be shorter."""
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


# Parsers


def parse_row(piece: Piece, reading: Reading) -> Iterator[Row]:
    """Parse the lines that `pieces_of_rows` wrote."""
    for number, source, targets in map(json.loads, piece.lines):
        yield number, source, tuple(targets)


def rows_of_csv(path: Path, names: Sequence[str], has_header: bool, reading: Reading) -> Iterator[Row]:
    """Yield the rows of a table with commas or semicolons, quoted as in RFC 4180; a cell may hold line breaks.

    Raises CorpusError if a column is missing or a quotation mark is not closed.
    """
    number, begun = 0, 1

    def decoded() -> Iterator[str]:
        nonlocal number
        for number, line in decoded_lines(path, reading):  # noqa: B007 (the last one is told)
            yield f"{line}\n"

    lines = decoded()
    try:
        first = next(lines, "")
        table = csv.reader(chain([first], lines), delimiter=delimiter_of(first, names), strict=True)
        header = [cell.strip() for cell in next(table, [])] if has_header else None
        places = number_columns(names, reading) if header is None else find_columns(names, header, reading)
        reading.raise_problems()
        columns = None if header is None else len(header)
        begun = number + 1 if has_header else 1
        while (cells := next(table, None)) is not None:
            place, begun = begun, number + 1  # the line on which the row begins: it may end on a later one
            if not cells:
                continue
            columns = columns or len(cells)
            if len(cells) <= max(places) or len(cells) != columns:
                reading.add(place, f"has {count_columns(cells)}, not {max(columns, max(places) + 1)}")
            else:
                yield place, cells[places[0]], tuple(cells[place] for place in places[1:])
    except csv.Error as error:
        reading.refuse(begun, f"is not CSV: {error}")


def delimiter_of(first: str, names: Sequence[str] = ()) -> str:
    """What separates the cells of a table: what makes these names cells of its first line, or else a semicolon if that
    line has no comma."""
    for delimiter in ",;":
        if names and set(names) <= {cell.strip() for cell in next(csv.reader([first], delimiter=delimiter), [])}:
            return delimiter
    return ";" if ";" in first and "," not in first else ","


def count_columns(cells: Sequence[str]) -> str:
    return counted(len(cells), "column")


def pairs_of_tsv(
    piece: Piece, reading: Reading, *, places: Sequence[int], columns: int, first: str = "header"
) -> Iterator[Row]:
    """Parse tab-separated values without quoting; `columns` is the number of columns in the first line, which is called
    `first` in errors."""
    for number, line in decode_lines(piece.lines, reading.problems, piece.first):
        cells = line.split("\t")
        if len(cells) != columns:
            reading.add(number, f"has {count_columns(cells)}, but the {first} has {columns}")
        elif len(cells) <= max(places):
            reading.add(number, f"has {count_columns(cells)}, but at least {max(places) + 1} are needed")
        else:
            yield number, cells[places[0]], tuple(cells[place] for place in places[1:])


def pairs_of_jsonl(piece: Piece, reading: Reading, *, names: Sequence[str]) -> Iterator[Row]:
    """Parse JSON objects, one a line, with a string under each name."""
    for number, line in decode_lines(piece.lines, reading.problems, piece.first):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            reading.add(number, "is not a JSON object")
            continue
        values = [row.get(name) for name in names] if isinstance(row, dict) else [None]
        texts = [value for value in values if isinstance(value, str)]
        if any(LONE_SURROGATE.search(text) for text in texts):
            reading.add(number, "contains half of a character: an escape from \\ud800 to \\udfff without its partner")
        elif len(texts) == len(names):
            yield number, texts[0], tuple(texts[1:])
        else:
            reading.add(number, f"must be an object with strings under {' and '.join(dict.fromkeys(names))}")


def pairs_of_texts(piece: Piece, reading: Reading, *, target_name: str) -> Iterator[Row]:
    """Parse sentences, one a line, each with its translation in the same line of another file."""
    assert piece.targets is not None
    problems: list[Problem] = []
    sources = dict(decode_lines(piece.lines, reading.problems, piece.first))
    for number, target in decode_lines(piece.targets, problems, piece.first):
        if number in sources:
            yield number, sources[number], (target,)
    reading.problems += [Problem(f"{target_name}, {problem.where}", problem.what) for problem in problems]
