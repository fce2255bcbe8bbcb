"""What verbs do before they use a model: import torch quickly."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


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
