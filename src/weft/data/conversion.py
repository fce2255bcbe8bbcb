"""Published files -> the files that weft reads: pairs as TSV with a header, annotated text as it is.

Each conversion knows one format and no corpus. What cannot become a row is left out and counted by its reason, never in
silence; a file that is not in its format at all is a CorpusError. Members of a zip are read by their names, as streams
and within bounds: no path is ever taken from an archive.

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
"""Unpacked bytes for each packed one; text comes to about ten."""
LONGEST_LINE = 1 << 20
"""Bytes. No sentence has as many; a file that is no text may."""
UTTERANCE_END = "__eou__"


@dataclass(frozen=True)
class Published:
    """A file as it was published, perhaps gzipped (its name ends with .gz), or a member of a zip."""

    path: Path
    member: str | None = None

    @property
    def name(self) -> str:
        return self.path.name if self.member is None else f"{self.path.name}: {self.member}"


@dataclass
class Converted:
    """What came out: the rows (pairs, or sentences), and why something was left out or altered, how often."""

    rows: int = 0
    remarks: Counter[str] = field(default_factory=Counter)

    def described(self) -> list[str]:
        """The remarks with their numbers."""
        return [f"{what}: {count:,}" for what, count in sorted(self.remarks.items())]


def convert(kind: Format, published: Sequence[Published], columns: Sequence[str], target: Path) -> Converted:
    """Write what these files hold to `target`; raises CorpusError with what is wrong in them.

    `columns` is the header of a TSV, in the order in which the format gives the columns; empty where the file stays as
    it was published.
    """
    if kind == "as-published":
        return copy(published[0], target)
    converted, problems = Converted(), []
    write_rows(ROWS[kind](published, converted, problems), columns, target, converted)
    if problems:
        raise CorpusError("what was published", problems)
    return converted


def write_rows(rows: Iterator[tuple[str, ...]], columns: Sequence[str], target: Path, converted: Converted) -> None:
    """A header and a line a row; a row with an empty cell is left out, and a tab inside a cell becomes a space."""
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
    """The same bytes, unzipped; the rows are the sentences, which an empty line ends."""
    converted, inside = Converted(), False
    with open(target, "wb") as file:
        for line in raw_lines(published):
            file.write(line)
            converted.rows += not inside and line.strip() != b""
            inside = line.strip() != b""
    return converted


def lines(published: Sequence[Published], converted: Converted, problems: list[Problem]) -> Iterator[tuple[str, ...]]:
    """Line N of each file; the files translate each other line by line (Moses, WMT, Multi30k)."""
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
    """English, the other language and the attribution in a line (manythings.org/anki) -> the other one, English, ..."""
    for number, line in text_lines(published[0], problems):
        cells = line.split("\t")
        if len(cells) == 3:
            english, other, attribution = cells
            yield other, english, attribution
        else:
            what = f"has {len(cells)} columns where English, its translation and the attribution are expected"
            problems.append(Problem(f"{published[0].name}, line {number}", what))


def dialogues(
    published: Sequence[Published], converted: Converted, problems: list[Problem]
) -> Iterator[tuple[str, ...]]:
    """A dialogue a line, its utterances ended by __eou__ (DailyDialog); what follows a tab are labels.

    Utterances translate each other by their place in the dialogue, so a dialogue with more of them on one side than on
    the other is left out.
    """
    for row in lines(published, converted, problems):
        sides = [utterances(line) for line in row]
        if len({len(side) for side in sides}) > 1:
            converted.remarks["dialogues left out, of unequal length"] += 1
            continue
        yield from zip(*sides, strict=True)


def utterances(line: str) -> list[str]:
    """Of one dialogue; an empty one keeps its place, but the last __eou__ begins none."""
    found = [utterance.strip() for utterance in line.partition("\t")[0].split(UTTERANCE_END)]
    return found if found[-1] else found[:-1]


def treebank_text(
    published: Sequence[Published], converted: Converted, problems: list[Problem]
) -> Iterator[tuple[str, ...]]:
    """The `# text` of the sentences that have the same `# sent_id` in all these CoNLL-U files, in the first's order."""
    sides = [dict(sentence_texts(one, problems)) for one in published]
    for sentence in dict.fromkeys(sentence for side in sides for sentence in side):
        if all(sentence in side for side in sides):
            yield tuple(side[sentence] for side in sides)
        else:
            converted.remarks["sentences left out, which one treebank lacks"] += 1


def sentence_texts(published: Published, problems: list[Problem]) -> Iterator[tuple[str, str]]:
    """(sent_id, text) of each sentence of a CoNLL-U file, whichever comment comes first."""
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
    """(number from 1, text) of each line; those that are not UTF-8 become problems that name the file."""
    found: list[Problem] = []
    yield from decode_lines((line.removesuffix(b"\n") for line in raw_lines(published)), found)
    problems += [Problem(f"{published.name}, {problem.where}", problem.what) for problem in found]


def raw_lines(published: Published) -> Iterator[bytes]:
    """The lines as bytes, each with its \\n; raises CorpusError where the file is damaged or grows out of bounds."""
    room = MOST_GROWTH * max(published.path.stat().st_size, 1 << 16)
    with named_errors(published), open_published(published) as file:
        while line := file.readline(LONGEST_LINE + 1):
            room -= len(line)
            if len(line) > LONGEST_LINE:
                raise ValueError(f"a line has more than {LONGEST_LINE:,} bytes, so this is no text of sentences")
            if room < 0:
                raise ValueError(f"it unpacks to more than {MOST_GROWTH} times its size")
            yield line


@contextmanager
def named_errors(published: Published) -> Iterator[None]:
    """CorpusError for the many errors with which gzip and zipfile say that a file is none of theirs, or damaged."""
    try:
        yield
    except KeyError:
        what = f"has no member {published.member}"
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, zipfile.BadZipFile) as error:
        what = f"is damaged, perhaps cut off on its way: {error}; remove {published.path} and get it again"
    except (OSError, ValueError, NotImplementedError, RuntimeError) as error:
        what = f"cannot be read: {error}"
    else:
        return
    raise CorpusError(published.path.name, [Problem(published.member or "the file", what)])


@contextmanager
def open_published(published: Published) -> Iterator[IO[bytes]]:
    """The content, unpacked."""
    if published.member is not None:
        with zipfile.ZipFile(published.path) as archive, archive.open(published.member) as member:
            yield member
    elif published.path.suffix == ".gz":
        with gzip.open(published.path, "rb") as file:
            yield file  # type: ignore[misc]
    else:
        with open(published.path, "rb") as file:
            yield file
