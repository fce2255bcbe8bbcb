"""The `weft` command: its verbs, and how errors become one message and an exit code.

Nothing heavy is imported here: each verb imports what it needs when it runs, so that `weft --help` is quick.
"""

import errno
import io
import os
import sys
import traceback
from typing import Annotated

import typer

from weft.cli import augment, config, corpus, inspect_, models
from weft.cli.ablate import ablate
from weft.cli.analyze import analyze
from weft.cli.check_gradients import check_gradients
from weft.cli.compare import compare
from weft.cli.diagnose import diagnose
from weft.cli.doctor import doctor
from weft.cli.evaluate import evaluate
from weft.cli.export import export
from weft.cli.generate import generate
from weft.cli.help import EXAMPLES, group_of_verbs, with_plain_values
from weft.cli.import_ import import_
from weft.cli.new import new
from weft.cli.options import TakesPairs
from weft.cli.plan import plan
from weft.cli.prepare import prepare
from weft.cli.report import report
from weft.cli.rescore import rescore
from weft.cli.score import score
from weft.cli.serve import serve
from weft.cli.tokenize import detokenize, tokenize
from weft.cli.train import train
from weft.cli.translate import translate
from weft.cli.tune import tune
from weft.cli.watch import watch
from weft.errors import FailedElsewhere, WeftError, is_out_of_memory, shown
from weft.version import __version__

app = group_of_verbs("Train, tune, explain and serve small sequence models. Start with: weft corpus get starter")
VERBS = {
    "Train": (new, plan, prepare, train, watch, report),
    "Understand": (tune, ablate, diagnose, analyze, check_gradients),
    "Use": (translate, generate, serve, export, import_),
    "Measure": (evaluate, compare, score, rescore),
    "Data": (doctor, tokenize, detokenize),
}
for panel, verbs in VERBS.items():
    for verb in verbs:
        takes_pairs = TakesPairs if verb in (evaluate, compare, score, export) else None
        name = verb.__name__.rstrip("_").replace("_", "-")
        example = f"Example: {EXAMPLES[name]}"
        app.command(name, cls=takes_pairs, rich_help_panel=panel, epilog=example)(with_plain_values(verb))
GROUPS = {
    "models": (models.app, "Use"),
    "inspect": (inspect_.app, "Understand"),
    "corpus": (corpus.app, "Data"),
    "augment": (augment.app, "Data"),
    "config": (config.app, "Train"),
}
for name, (group, panel) in GROUPS.items():
    for callback in filter(None, (command.callback for command in group.registered_commands)):
        with_plain_values(callback)
    app.add_typer(group, name=name, rich_help_panel=panel)

shows_traces = False


def print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"weft {__version__}")
        raise typer.Exit


OF_A_PATH = frozenset([errno.ENAMETOOLONG, errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENOTDIR, errno.EROFS])
"""Errors that concern a path or its permissions, not what weft does with it."""


@app.callback()
def main(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=print_version, is_eager=True)
    ] = False,
) -> None:
    global shows_traces
    shows_traces = debug


def run() -> None:
    """Run the command. Exits with 0: done, 1: failed, 2: the command or recipe is wrong, 3: stopped and resumable.

    Typer itself exits for wrong usage (2), a second Ctrl-C (130) and a closed pipe (1).
    """
    prepare_streams()
    try:
        try:
            app()
        except SystemExit:  # as Typer ends, whatever the exit code
            flush()
            raise
    except FailedElsewhere as error:
        sys.exit(error.exit_code)
    except BrokenPipeError:
        give_up(sys.stdout.fileno())
        sys.exit(1)
    except WeftError as error:
        fail(str(error), error.exit_code)
    except Exception as error:
        if is_out_of_memory(error):
            fail(
                "out of memory; use a smaller model or shorter texts, or, if the command takes --set, lower "
                "decoding.batch_tokens or decoding.beam_size; files that are already complete are intact",
                1,
            )
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            fail(f"{error.strerror}; free some space and run the same command again", 1)
        if isinstance(error, OSError) and error.errno in OF_A_PATH and error.filename is not None:
            fail(f"{shown(os.fsdecode(error.filename), 300)} cannot be used: {error.strerror}", 1)
        fail(f"{type(error).__name__}: {error}\nThis is a bug in weft; `weft --debug ...` shows where.", 1)


def fail(message: str, exit_code: int) -> None:
    if shows_traces:
        traceback.print_exc()
    try:
        flush()
    except OSError:
        give_up(sys.stdout.fileno())
    typer.echo(f"weft: {message}", err=True)
    sys.exit(exit_code)


def prepare_streams() -> None:
    """Make stdout and stderr UTF-8 in any locale, since most of what weft prints is not ASCII.

    With PYTHONUNBUFFERED Python does not check whether everything was written, as on a full disk; a buffer does. A
    stream that the parent process closed is opened on the null device: otherwise the next file would get its number,
    and with it whatever a library prints there.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    if sys.stderr is None or type(sys.stderr) is io.TextIOWrapper:
        number = 2 if sys.stderr is None else sys.stderr.fileno()
        buffer = io.BufferedWriter(io.FileIO(number, "w", closefd=False))
        sys.stderr = Messages(buffer, encoding="utf-8", errors="backslashreplace", line_buffering=True)
    if isinstance(sys.stdout, io.TextIOWrapper) and isinstance(sys.stdout.buffer, io.RawIOBase):
        buffer = io.BufferedWriter(io.FileIO(sys.stdout.fileno(), "w", closefd=False))
        sys.stdout = io.TextIOWrapper(buffer, encoding="utf-8", errors="backslashreplace", line_buffering=True)


class Messages(io.TextIOWrapper):
    """Stderr whose reader may exit, as `tee` does at Ctrl-C: the work continues without its messages."""

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError:
            give_up(self.fileno())
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError:
            give_up(self.fileno())


def flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def give_up(number: int) -> None:
    """Redirect the stream to the null device, since Python flushes it once more at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)
