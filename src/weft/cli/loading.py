"""What verbs do before they load a model: import torch quickly, and refuse models of another task."""

import gc
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

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


def has_task(name: str, task: str) -> bool:
    """Whether a model was trained for this task."""
    from weft.folders.finding import find_model, task_of

    return task_of(find_model(name)) == task


def require_task(models: Iterable[str], verb: str, *tasks: str) -> None:
    """Raise UsageError for a model that was trained for another task than those that `verb` is for; without `tasks`
    that is translation."""
    from weft.folders.finding import find_model, task_of

    tasks = tasks or ("translation",)
    for name in models:
        if (found := task_of(find_model(name))) not in ("", *tasks):
            raise UsageError(f"weft {verb} needs a model for {' or '.join(tasks)}; {name} is one for {found}")
