"""Lines of text for verbs that read some and write some: from arguments, a file or a pipe, to a file or a pipe."""

import io
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import typer

from weft.errors import CorpusError, Problem, UsageError
from weft.files import (
    LONGEST_LINE,
    TOO_LONG,
    arriving_lines,
    decode_lines,
    open_bytes,
    open_to_write,
    staged_file,
)
from weft.training.signals import stopped_by_signal

LINES_AT_ONCE = 1024
"""Lines that are worked on and written before the next ones are, at most."""


@contextmanager
def open_input(texts: list[str] | None, path: Path | None) -> Iterator[Iterable[bytes]]:
    """The lines to work on, as bytes; a binary file ends its lines at "\\n" alone."""
    if texts:
        yield [text.encode("utf-8", "surrogateescape") for text in texts]
    elif path is None:
        if sys.stdin is None:  # closed by the parent process
            raise UsageError("there is no standard input; give sentences, or a file by --input")
        if sys.stdin.isatty():
            typer.echo("Type a sentence and press Enter; Ctrl-D ends.", err=True)
        yield sys.stdin.buffer
    else:
        try:
            file = open_bytes(path)
        except OSError as error:
            raise CorpusError(path, [Problem("the file", f"cannot be read: {error.strerror}")]) from None
        with file:
            yield file


@contextmanager
def open_output(path: Path | None) -> Iterator[IO[str]]:
    """Stdout (None or `-`), or a file that appears under its name only when all is written; zipped where that ends with
    .gz. A signal takes away what was begun."""
    if path is None or path == Path("-"):
        if sys.stdout is None:  # closed by the parent process
            raise UsageError("there is no standard output; name a file by --output")
        yield sys.stdout
        return
    with (
        stopped_by_signal(f"stopped before {path.resolve()} was whole, so nothing was written"),
        staged_file(path) as staged,
        open_to_write(staged) as file,
        io.TextIOWrapper(file, encoding="utf-8", newline="\n") as text,
    ):
        yield text


def read_texts(lines: Iterable[bytes], path: Path | None) -> Iterator[str]:
    """The text of each line; raises CorpusError where the file cannot be read on.

    A line that is not UTF-8 is an error here too: leaving it out would shift the rest.
    """
    problems: list[Problem] = []
    try:
        for _, text in decode_lines(bounded(lines, problems), problems):
            if problems:
                break
            yield text
    except (OSError, EOFError, zlib.error) as error:  # a torn archive, or a text file that is named as one
        problems.append(Problem("the file", f"cannot be read: {error}"))
    if problems:
        raise CorpusError(path or "the input", problems[:1])


def bounded(lines: Iterable[bytes], problems: list[Problem]) -> Iterator[bytes]:
    """Without the "\\n" at their ends, up to one that is longer than any text: it becomes a problem before all of it is
    in memory."""
    read = lines.readline if isinstance(lines, io.IOBase) else None
    for number, line in enumerate(lines if read is None else iter(lambda: read(LONGEST_LINE + 1), b""), start=1):
        if len(line) > LONGEST_LINE:
            problems.append(Problem(f"line {number}", TOO_LONG))
            return
        yield line.removesuffix(b"\n")


def texts_as_they_come(lines: Iterable[bytes], path: Path | None) -> Iterator[list[str]]:
    """The texts of the lines in lists of at most LINES_AT_ONCE, shorter where the next line is not there yet: who types
    a line, or pipes one, has its answer before the next. Raises CorpusError as read_texts does."""
    name, number = path or Path("the input"), 1
    for arrived in arriving_lines(lines, name) if isinstance(lines, io.BufferedIOBase) else [list(lines)]:
        for begin in range(0, len(arrived), LINES_AT_ONCE):
            problems: list[Problem] = []
            some = [line.removesuffix(b"\n") for line in arrived[begin : begin + LINES_AT_ONCE]]
            texts = [text for _, text in decode_lines(some, problems, number)]
            if problems:
                raise CorpusError(name, problems[:1])
            yield texts
            number += len(some)
