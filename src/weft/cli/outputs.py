"""Files that verbs write: checked before the work, so that nothing is lost or replaced, and written after it."""

import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from weft.errors import UsageError, shown
from weft.files import refuse_replacing, write_atomically

STDOUT = Path("-")


def refuse_places(outputs: Mapping[str, Path | None], inputs: Iterable[Path | None]) -> None:
    """`refuse_place` for several options, no two of which may name the same file; only `--json -` prints.

    Raises UsageError, too, where results are to be printed and there is no stdout.
    """
    inputs = list(inputs)
    if sys.stdout is None and all(path in (None, STDOUT) for path in outputs.values()):
        raise UsageError("there is no standard output; name a file by --json")  # closed by the parent process
    for option, path in outputs.items():
        refuse_place(option, path, inputs)
        if path == STDOUT and option != "--json":
            raise UsageError(f"{option} takes the name of a file; only --json - prints to stdout")
    named: dict[Path, str] = {}
    for option, path in outputs.items():
        if path is not None and path != STDOUT and (other := named.setdefault(path.resolve(), option)) != option:
            raise UsageError(f"{other} and {option} both name {path}; name a different file for each")


def refuse_place(option: str, path: Path | None, inputs: Iterable[Path | None]) -> None:
    """Raise UsageError where an option's output cannot be written, or would replace an input or a part of a model or
    run."""
    refuse_replacing(option, path, inputs)
    if path is None or not path.is_file():
        return
    if (path.parent / "run.json").is_file() or (path.parent / "manifest.json").is_file():
        from weft.folders.manifest import parts_of

        if path.name in parts_of(path.parent):
            raise UsageError(f"{option} {path} would overwrite a part of {path.parent}; name another file")


def give_results(
    text: str,
    content: Any,
    json_file: Path | None,
    others: Iterable[tuple[Path | None, Callable[[], str]]] = (),
) -> None:
    """Write results to the files that options name, then print them: the text, or JSON where --json is `-`.

    `others` are further files with what makes their text. Characters that would steer a terminal are escaped.
    """
    as_json = json.dumps(finite(content), indent=1, ensure_ascii=False) + "\n"
    files = [(None if json_file == STDOUT else json_file, lambda: as_json), *others]
    try:
        for path, write in files:
            if path is not None:
                write_atomically(path, write())
    finally:  # what is printed is not lost where a file cannot be written
        typer.echo(as_json.rstrip() if json_file == STDOUT else shown(text, len(text)))


def tell_figures(folder: Path, written: Sequence[Path]) -> None:
    """Say on stderr where the figures were written, and what a library would add."""
    from weft.analysis.pictures import can_render

    lacking = "" if can_render() else "; PNG and PDF need typst: pip install '.[figures]' in weft's checkout"
    typer.echo(f"{folder}: {len(written)} files{lacking}", err=True)


def finite(content: Any) -> Any:
    """JSON has neither infinity nor NaN: null stands for them."""
    if isinstance(content, dict):
        return {key: finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content
