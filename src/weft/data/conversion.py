"""Convert published files to the files that weft reads: pairs to TSV with a header; annotated text is copied.

Each conversion knows one format. What cannot become a row is skipped and counted by reason; a file that is not in its
format is a CorpusError. Members of a zip are read by name, as streams and within bounds: no path is taken from an
archive.

    published files --open_published--> bytes --a conversion--> rows --write_rows--> TSV
"""

import gzip
import lzma
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import IO, Literal

from weft.errors import CorpusError, Problem
from weft.files import decode_lines
from weft.text.normalization import is_blank

Format = Literal["lines", "manythings", "dialogues", "treebank-text", "as-published"]
MOST_GROWTH = 100
"""Largest number of unpacked bytes per packed byte; text has about ten."""
LONGEST_LINE = 1 << 20
"""Bytes. A longer line means that the file is not text."""
UTTERANCE_END = "__eou__"


@dataclass(frozen=True)
class Published:
    """A published file, gzipped if its name ends with .gz, or a member of a zip."""

    path: Path
    member: str | None = None

    @property
    def name(self) -> str:
        return self.path.name if self.member is None else f"{self.path.name}: {self.member}"


@dataclass
class Converted:
    """The number of rows (pairs or sentences) that were written, and of those skipped or changed, by reason."""

    rows: int = 0
    remarks: Counter[str] = field(default_factory=Counter)

    def described(self) -> list[str]:
        """Return the remarks with their counts."""
        return [f"{what}: {count:,}" for what, count in sorted(self.remarks.items())]


def convert(kind: Format, published: Sequence[Published], columns: Sequence[str], target: Path) -> Converted:
    """Write the rows of these files to `target`; raises CorpusError if a file is malformed.

    `columns` is the header of the TSV, in the order of the format; empty if the file is copied.
    """
    if kind == "as-published":
        return copy(published[0], target)
    converted, problems = Converted(), []
    write_rows(ROWS[kind](published, converted, problems), columns, target, converted)
    if problems:
        raise CorpusError("what was published", problems)
    return converted


def write_rows(rows: Iterator[tuple[str, ...]], columns: Sequence[str], target: Path, converted: Converted) -> None:
    """Write a header and one line for each row. Rows with an empty cell are skipped; tabs in cells become spaces."""
    with open(target, "w", encoding="utf-8", newline="\n") as file:
        file.write("\t".join(columns) + "\n")
        for row in rows:
            cells = [cell.replace("\t", " ").strip() for cell in row]
            if any(map(is_blank, cells)):
                converted.remarks["left out, with an empty side"] += 1
                continue
            converted.remarks["tabs made spaces"] += sum(cell.strip().count("\t") for cell in row)
            converted.rows += 1
            file.write("\t".join(cells) + "\n")
    converted.remarks += Counter()  # drops what was counted zero times


def copy(published: Published, target: Path) -> Converted:
    """Copy the bytes, unzipped, and count the sentences, which end with an empty line."""
    converted, inside = Converted(), False
    with open(target, "wb") as file:
        for line in raw_lines(published):
            file.write(line)
            converted.rows += not inside and line.strip() != b""
            inside = line.strip() != b""
    return converted


def lines(published: Sequence[Published], converted: Converted, problems: list[Problem]) -> Iterator[tuple[str, ...]]:
    """Yield line N of each file, for files that translate each other line by line (Moses, WMT, Multi30k)."""
    counts = [0] * len(published)
    for row in zip_longest(*(text_lines(one, problems) for one in published)):
        for place, line in enumerate(row):
            counts[place] = counts[place] if line is None else line[0]
        if None not in row:
            yield tuple(text for _, text in row)
    if len(set(counts)) > 1 and not problems:
        found = ", ".join(f"{one.name} has {count:,}" for one, count in zip(published, counts, strict=True))
        problems.append(Problem("the number of lines", f"must be the same in all files, but {found}"))


def manythings(
    published: Sequence[Published], converted: Converted, problems: list[Problem]
) -> Iterator[tuple[str, ...]]:
    """Yield (other language, English, attribution) from lines with English first (manythings.org/anki)."""
    for number, line in text_lines(published[0], problems):
        cells = line.split("\t")
        if len(cells) == 3:
            english, other, attribution = cells
            yield other, english, attribution
        else:
            what = f"has {len(cells)} columns, expected 3: English, its translation and the attribution"
            problems.append(Problem(f"{published[0].name}, line {number}", what))


def dialogues(
    published: Sequence[Published], converted: Converted, problems: list[Problem]
) -> Iterator[tuple[str, ...]]:
    """Yield the utterances of dialogues, one a line, that end with __eou__ (DailyDialog); labels follow a tab.

    Utterances are paired by their position, so a dialogue with different numbers of them is skipped.
    """
    for row in lines(published, converted, problems):
        sides = [utterances(line) for line in row]
        if len({len(side) for side in sides}) > 1:
            converted.remarks["dialogues left out, of unequal length"] += 1
            continue
        yield from zip(*sides, strict=True)


def utterances(line: str) -> list[str]:
    """Return the utterances of one dialogue, including empty ones, except after the last __eou__."""
    found = [utterance.strip() for utterance in line.partition("\t")[0].split(UTTERANCE_END)]
    return found if found[-1] else found[:-1]


def treebank_text(
    published: Sequence[Published], converted: Converted, problems: list[Problem]
) -> Iterator[tuple[str, ...]]:
    """Yield the `# text` of each `# sent_id` that all these CoNLL-U files have, in the order of the first file."""
    sides = [dict(sentence_texts(one, problems)) for one in published]
    for sentence in dict.fromkeys(sentence for side in sides for sentence in side):
        if all(sentence in side for side in sides):
            yield tuple(side[sentence] for side in sides)
        else:
            converted.remarks["sentences left out, which one treebank lacks"] += 1


def sentence_texts(published: Published, problems: list[Problem]) -> Iterator[tuple[str, str]]:
    """Yield (sent_id, text) of each sentence of a CoNLL-U file; the two comments may come in either order."""
    said: dict[str, str] = {}
    for _, line in text_lines(published, problems):
        key, equals, value = line.removeprefix("#").partition("=")
        if line.startswith("#") and equals:
            said[key.strip()] = value.strip()
        elif not line:
            said.clear()
        elif "sent_id" in said and "text" in said:
            yield said.pop("sent_id"), said.pop("text")


ROWS: dict[str, Callable[[Sequence[Published], Converted, list[Problem]], Iterator[tuple[str, ...]]]] = {
    "lines": lines,
    "manythings": manythings,
    "dialogues": dialogues,
    "treebank-text": treebank_text,
}


def text_lines(published: Published, problems: list[Problem]) -> Iterator[tuple[int, str]]:
    """Yield (number from 1, text) of each line; lines that are not UTF-8 become problems that name the file."""
    found: list[Problem] = []
    yield from decode_lines((line.removesuffix(b"\n") for line in raw_lines(published)), found)
    problems += [Problem(f"{published.name}, {problem.where}", problem.what) for problem in found]


def raw_lines(published: Published) -> Iterator[bytes]:
    """Yield the lines as bytes, with their \\n; raises CorpusError if the file is damaged or too large."""
    room = MOST_GROWTH * max(published.path.stat().st_size, 1 << 16)
    with named_errors(published), open_published(published) as file:
        while line := file.readline(LONGEST_LINE + 1):
            room -= len(line)
            if len(line) > LONGEST_LINE:
                raise ValueError(f"a line has more than {LONGEST_LINE:,} bytes, so this is not a text of sentences")
            if room < 0:
                raise ValueError(f"it unpacks to more than {MOST_GROWTH} times its size")
            yield line


@contextmanager
def named_errors(published: Published) -> Iterator[None]:
    """Raise CorpusError for the many errors that gzip and zipfile raise for damaged files and other formats."""
    try:
        yield
    except KeyError:
        what = f"has no member {published.member}"
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, zipfile.BadZipFile) as error:
        what = f"is damaged, perhaps truncated: {error}; remove {published.path} and get it again"
    except (OSError, ValueError, NotImplementedError, RuntimeError) as error:
        what = f"cannot be read: {error}"
    else:
        return
    raise CorpusError(published.path.name, [Problem(published.member or "the file", what)])


@contextmanager
def open_published(published: Published) -> Iterator[IO[bytes]]:
    """Open the unpacked content."""
    if published.member is not None:
        with zipfile.ZipFile(published.path) as archive, archive.open(published.member) as member:
            yield member
    elif published.path.suffix == ".gz":
        with gzip.open(published.path, "rb") as file:
            yield file  # type: ignore[misc]
    else:
        with open(published.path, "rb") as file:
            yield file
