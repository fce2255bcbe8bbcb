"""Read files of pairs whatever is wrong with them: what `corpus` refuses becomes a fault, and reading continues.

A file is read as a stream, line by line, once for each iteration.
"""

import json
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from pathlib import Path

from weft.data.corpus import Columns, CorpusEntry, Layout, ParallelText, Part, columns_of, open_files
from weft.data.pair_files import (
    LONE_SURROGATE,
    XML,
    Reading,
    Row,
    find_columns,
    is_jsonl,
    number_columns,
    parsed,
    read_header,
    suffix_of,
)
from weft.files import lines_of
from weft.text.detokenization import detokenize

CHUNK = 10_000
"""Pairs that are checked together."""

Chunk = tuple[list[str], list[tuple[str, ...]]]
"""Sources, and one or more targets of each; the first target is trained on."""


@dataclass(frozen=True)
class Fault:
    """A problem found while reading a file: its kind (see `findings`), its line, and a note for the user."""

    kind: str
    line: int
    note: str = ""


@dataclass
class File:
    """One file of pairs, or two of sentences; `lines` and `faults` are complete once it was read to its end."""

    name: str
    part: str
    entry: CorpusEntry
    root: Path
    layout: Layout
    lines: array = field(default_factory=lambda: array("I"))
    faults: list[Fault] = field(default_factory=list)

    def pairs(self) -> Iterator[Row]:
        """Yield all pairs as training reads them, except that U+FEFF is removed and counted as a fault.

        Raises CorpusError if a file or a column is missing.
        """
        self.lines, self.faults = array("I"), []
        layout = self.layout
        for number, source, targets in self._read():
            self.lines.append(number)
            if layout.detokenize:
                source = detokenize(source, layout.source)
                targets = tuple(detokenize(target, layout.target) for target in targets)
            yield number, source, targets
        if not self.lines and not self.faults:
            self.faults.append(Fault("no pairs", 1))

    def chunks(self, size: int = CHUNK) -> Iterator[Chunk]:
        """Yield `size` pairs at a time."""
        pairs = self.pairs()
        while some := list(islice(pairs, size)):
            yield [source for _, source, _ in some], [targets for _, _, targets in some]

    def _read(self) -> Iterator[Row]:
        if self.entry.path is None:
            assert self.entry.source is not None and self.entry.target is not None  # CorpusEntry validates this
            return self._read_text_pair(self.root / self.entry.source, self.root / self.entry.target)
        path, reading = self.root / self.entry.path, Reading(self.name)
        if suffix_of(self.entry.path) in (".csv", *XML):
            return self._read_whole(reading)
        columns = columns_of(self.entry.path, self.layout, reading)
        return self._read_jsonl(path, columns) if is_jsonl(self.entry.path) else self._read_tsv(path, columns, reading)

    def _read_text_pair(self, source: Path, target: Path) -> Iterator[Row]:
        counts = [0, 0]
        for number, sides in enumerate(zip_longest(self._lines_of(source), self._lines_of(target)), start=1):
            for place, raw in enumerate(sides):
                counts[place] += raw is not None
            left, right = sides
            if left is not None and right is not None:
                yield number, self._decode(left, number, source.name), (self._decode(right, number, target.name),)
        if counts[0] != counts[1]:
            note = f"{source.name} has {counts[0]:,} lines, {target.name} {counts[1]:,}"
            self.faults.append(Fault("unequal counts", min(counts) + 1, note))

    def _read_whole(self, reading: Reading) -> Iterator[Row]:
        """Read a file whose rows span lines, as training does; raises CorpusError for wrong rows."""
        yield from parsed(*open_files(self.entry, self.layout, self.root, reading), reading)
        reading.raise_problems()

    def _read_tsv(self, path: Path, columns: Columns, reading: Reading) -> Iterator[Row]:
        lines = enumerate(self._lines_of(path), start=1)
        if self.layout.header:
            first = next(lines, None)
            if first is None:
                return
            header = read_header(iter([first[1]]), reading)
            places = find_columns(columns.names, header, reading)
            wide = len(header)
        else:
            places, wide = number_columns(columns.names, reading), 0
        least = max(places) + 1
        for number, raw in lines:
            cells = self._decode(raw, number).split("\t")
            wide = wide or len(cells)  # without a header as many as in the first line
            if len(cells) < least or len(cells) != wide:
                self.faults.append(Fault("columns", number, f"{len(cells)}, not {max(wide, least)}"))
            if len(cells) >= least:
                yield number, cells[places[0]], tuple(cells[place] for place in places[1:])

    def _read_jsonl(self, path: Path, columns: Columns) -> Iterator[Row]:
        names = columns.names
        for number, raw in enumerate(self._lines_of(path), start=1):
            try:
                row = json.loads(self._decode(raw, number))
            except (ValueError, RecursionError):
                row = None
            values = [row.get(name) for name in names] if isinstance(row, dict) else []
            texts = [value for value in values if isinstance(value, str) and not LONE_SURROGATE.search(value)]
            if len(texts) == len(names):
                yield number, texts[0], tuple(texts[1:])
            else:
                self.faults.append(Fault("json", number))

    @staticmethod
    def _lines_of(path: Path) -> Iterator[bytes]:
        return (line.removesuffix(b"\r") for line in lines_of(path))

    def _decode(self, raw: bytes, number: int, name: str = "") -> str:
        """Decode a line, without the byte order mark at the start of a file."""
        if number == 1:
            raw = raw.removeprefix(b"\xef\xbb\xbf")
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            note = f"byte 0x{raw[error.start]:02x} at {error.start + 1}"
            self.faults.append(Fault("encoding", number, f"{name}, {note}" if name else note))
            text = raw.decode("utf-8", "replace")
        if "\ufeff" in text:
            self.faults.append(Fault("byte order mark", number, name))
            text = text.replace("\ufeff", "")
        return text


class PairsInMemory:
    """The pairs of one file that were read already, with the attributes of a `File` that an examination uses."""

    def __init__(self, name: str, part: str, text: ParallelText, first: int, within: Part) -> None:
        self.name, self.part, self.text = name, part, text
        self.lines = within.lines or range(1, within.pairs + 1)
        self.faults: list[Fault] = []
        self.first, self.last = first, first + within.pairs

    def chunks(self) -> Iterator[Chunk]:
        for begin in range(self.first, self.last, CHUNK):
            rows = slice(begin, min(begin + CHUNK, self.last))
            yield self.text.sources[rows], self.text.references[rows]
