"""`weft translate`: from arguments, a file or a pipe, one line a sentence in and one line out."""

import json
import os
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from weft.errors import CorpusError, Problem, UsageError, WeftError
from weft.files import decode_lines, open_bytes, refuse_replacing

if TYPE_CHECKING:
    from weft.tasks.translation import Translation

LINES_AT_ONCE = 1024
"""Lines that are read, translated and written before the next ones are read."""


def translate(
    text: Annotated[list[str] | None, typer.Argument(help="Sentences to translate.")] = None,
    model: Annotated[
        str, typer.Option("--model", help="A model folder, a run folder, or the name of a model that comes with weft.")
    ] = "",
    input_file: Annotated[
        Path | None, typer.Option("--input", help="A text file, one sentence a line; .gz too.", show_default=False)
    ] = None,
    output_file: Annotated[
        Path | None, typer.Option("--output", help="Where the translations go; left out: stdout.", show_default=False)
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a decoding key, such as decoding.beam_size=5."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a line: source, text, score, log_prob.")
    ] = False,
) -> None:
    """Translate sentences: the arguments, the lines of --input, or else of standard input."""
    if not model:
        raise UsageError("--model is missing: a model folder or a run folder, such as runs/starter")
    if text and input_file:
        raise UsageError("give either sentences or --input, not both")
    output_file = None if output_file == Path("-") else output_file
    refuse_replacing("--output", output_file, [input_file] if input_file else [])
    from weft.tasks.translation import load_translator

    translator = load_translator(model, overrides or ())
    with open_input(text, input_file) as lines, open_output(output_file) as output:
        at_once = 1 if lines is sys.stdin.buffer and sys.stdin.isatty() else LINES_AT_ONCE
        for chunk in chunks(read_texts(lines, input_file), at_once):
            for translation in translator.translate(chunk):
                output.write(describe(translation) if as_json else translation.text)
                output.write("\n")
            output.flush()


def describe(translation: "Translation") -> str:
    return json.dumps(vars(translation), ensure_ascii=False)


@contextmanager
def open_input(texts: list[str] | None, path: Path | None) -> Iterator[Iterable[bytes]]:
    """The lines to translate, as bytes; a binary file ends its lines at "\\n" alone."""
    if texts:
        yield [text.encode("utf-8", "surrogateescape") for text in texts]
    elif path is None:
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
    """Stdout, or a file that appears under its name only when all is written."""
    if path is None:
        yield sys.stdout
        return
    staged = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with open(staged, "w", encoding="utf-8", newline="\n") as file:
            yield file
        os.replace(staged, path)
    except OSError as error:
        raise WeftError(f"{path} could not be written: {error.strerror}") from error
    finally:
        staged.unlink(missing_ok=True)


def read_texts(lines: Iterable[bytes], path: Path | None) -> Iterator[str]:
    """The text of each line; raises CorpusError where the file cannot be read on.

    A line that is not UTF-8 is an error here too: leaving it out would shift the rest.
    """
    problems: list[Problem] = []
    try:
        for _, text in decode_lines((line.removesuffix(b"\n") for line in lines), problems):
            if problems:
                break
            yield text
    except (OSError, EOFError, zlib.error) as error:  # a torn archive, or a text file that is named as one
        problems.append(Problem("the file", f"cannot be read: {error}"))
    if problems:
        raise CorpusError(path or "the input", problems[:1])


def chunks(texts: Iterator[str], size: int) -> Iterator[list[str]]:
    """Lists of `size` texts, the last one shorter."""
    while chunk := list(islice(texts, size)):
        yield chunk
