"""The corpora that some tests measure on; they are not part of the repository."""

import os
from pathlib import Path

import pytest


def corpus(name: str) -> Path:
    """A file or folder of the corpora. A test that asks for one is skipped where it is not."""
    path = Path(os.environ.get("WEFT_DATA") or Path(__file__).parents[2] / "shared" / "data") / name
    if not path.exists():
        pytest.skip(f"{path} is not there; WEFT_DATA says where the corpora lie")
    return path
