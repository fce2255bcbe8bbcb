"""What verbs do before they load a model: import torch quickly, and refuse models of another task."""

import gc
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from typer import echo

from weft.errors import UsageError


@contextmanager
def without_collections() -> Iterator[None]:
    """Switch garbage collection off for the imports of a verb: they create half a million objects and no garbage, and
    looking through them again and again takes a third longer."""
    if "torch" in sys.modules:  # not the beginning of a process
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def require_task(models: Iterable[str], verb: str, *tasks: str) -> None:
    """Raise UsageError for a model that was trained for another task than those that `verb` is for; without `tasks`
    that is translation."""
    from weft.folders.finding import find_model, task_of

    tasks = tasks or ("translation",)
    for name in models:
        if (found := task_of(find_model(name))) not in ("", *tasks):
            raise UsageError(f"weft {verb} needs a model for {' or '.join(tasks)}; {name} is one for {found}")


def note_opened(models: Iterable[str], sha256: Mapping[str, str]) -> None:
    """Write into the studies whose trials these models are which files (name -> digest) they are measured on, so that a
    study can say how many test files were opened."""
    from weft.folders.finding import OPENED, find_model

    for name in models:
        trials = next((folder for folder in find_model(name).resolve().parents if folder.name == "trials"), None)
        if trials is not None and (trials.parent / "study.toml").is_file():
            try:
                with (trials.parent / OPENED).open("a", encoding="utf-8", errors="backslashreplace") as file:
                    file.writelines(f"{digest}  {Path(path).name}\n" for path, digest in sha256.items())
            except OSError as error:
                what = f"{trials.parent / OPENED} cannot be written: {error.strerror}"
                echo(f"{what}; the study will not count the files that are opened now", err=True)
