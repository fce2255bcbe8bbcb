"""Where verbs write beside the terminal: looked at before the work, so that nothing is lost and nothing replaced."""

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from weft.errors import UsageError
from weft.files import refuse_replacing


def refuse_places(outputs: Mapping[str, Path | None], inputs: Iterable[Path | None]) -> None:
    """`refuse_place` for options that name a file each, none twice; `--json -` prints. Without any of them the results
    are shown alone, which takes somewhere to show them."""
    inputs = list(inputs)
    if sys.stdout is None and all(path in (None, Path("-")) for path in outputs.values()):
        raise UsageError("there is no standard output; name a file by --json")  # closed by whoever started this
    for option, path in outputs.items():
        refuse_place(option, path, inputs)
        if path == Path("-") and option != "--json":
            raise UsageError(f"{option} names a file; --json - prints to stdout")
    named = [path.resolve() for path in outputs.values() if path not in (None, Path("-"))]
    if len(set(named)) < len(named):
        raise UsageError(f"{', '.join(outputs)} name one file twice; give each its own")


def refuse_place(option: str, path: Path | None, inputs: Iterable[Path | None]) -> None:
    """Raise UsageError where an option's output cannot be written, or would replace an input or a part of a model or
    run."""
    refuse_replacing(option, path, inputs)
    if path is None or not path.is_file():
        return
    if (path.parent / "run.json").is_file() or (path.parent / "manifest.json").is_file():
        from weft.tasks.model_folder import parts_of

        if path.name in parts_of(path.parent):
            raise UsageError(f"{option} {path} would overwrite a part of {path.parent}; name another file")
