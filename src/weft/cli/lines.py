"""Reading and writing lines of text: arguments, files and pipes."""

import io
import os
import shlex
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO

import typer

from weft.errors import CorpusError, Problem, UsageError
from weft.files import (
    arriving_lines,
    decode_lines,
    in_utf_8,
    is_stream,
    open_bytes,
    open_to_write,
    reporting_read_errors,
    staged_file,
)
from weft.training.signals import stopped_by_signal


@contextmanager
def open_input(texts: list[str] | None, path: Path | None) -> Iterator[Iterable[bytes]]:
    """The input lines as bytes: of the arguments, the file, or stdin, which end lines only at "\\n"."""
    if texts:
        yield [text.encode("utf-8", "surrogateescape") for text in texts]
    elif path is None:
        if sys.stdin is None:  # closed by the parent process
            raise UsageError("there is no standard input; give sentences, or a file by --input")
        if sys.stdin.isatty():
            typer.echo("Type a sentence and press Enter; Ctrl-D ends.", err=True)
        yield in_utf_8(sys.stdin.buffer) if hasattr(sys.stdin.buffer, "peek") else sys.stdin.buffer
    else:
        with reporting_read_errors(path):
            file = in_utf_8(open_bytes(path))
        with file:
            yield file


def refuse_misread(texts: list[str] | None, path: Path | None) -> None:
    """Raise UsageError for a sentence that is the name of a file, and for an input whose lines are not sentences."""
    from weft.data.pair_files import OTHER_KINDS, TABLES, XML, suffix_of

    files = [text for text in texts or () if Path(text).suffix and os.path.isfile(text)]
    for name in [*files, *([path.name] if path is not None else [])]:
        if suffix_of(name) in (*TABLES, *XML, *OTHER_KINDS):
            what = "is not plain text, one sentence per line; save its sentences as such a file for --input"
            raise UsageError(f"{name} {what}")
    if files:
        raise UsageError(f"{files[0]} is a file; --input {shlex.quote(files[0])} reads its lines")


@contextmanager
def open_output(path: Path | None) -> Iterator[IO[str]]:
    """Stdout (None or `-`), or a file that appears only when it is complete; gzipped if its name ends with .gz.

    A signal removes an incomplete file. A pipe, a device or /dev/fd/N gets each line at once.
    """
    if path is None or path == Path("-"):
        if sys.stdout is None:  # closed by the parent process
            raise UsageError("there is no standard output; name a file by --output")
        yield sys.stdout
        return
    what_happened = f"stopped before {path.resolve()} was whole, so nothing was written"
    with (
        nullcontext() if is_stream(path) else stopped_by_signal(what_happened),
        staged_file(path) as staged,
        open_to_write(staged) as file,
        io.TextIOWrapper(file, encoding="utf-8", newline="\n") as text,
    ):
        yield text


def texts_as_they_come(lines: Iterable[bytes], path: Path | None) -> Iterator[list[str]]:
    """The texts of the lines, in lists of those that have arrived, so that a line typed or piped is answered before the
    next.

    Raises CorpusError for a line that is not UTF-8, and where the file cannot be read.
    """
    name, number = path or Path("the input"), 1
    for arrived in arriving_lines(lines, name) if isinstance(lines, io.BufferedIOBase) else [list(lines)]:
        problems: list[Problem] = []
        texts = [text for _, text in decode_lines((line.removesuffix(b"\n") for line in arrived), problems, number)]
        if problems:
            raise CorpusError(name, problems[:1])
        yield texts
        number += len(arrived)


def read_texts(lines: Iterable[bytes], path: Path | None) -> list[str]:
    """The texts of all lines; raises CorpusError as texts_as_they_come does."""
    return [text for some in texts_as_they_come(lines, path) for text in some]
