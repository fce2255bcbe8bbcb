"""The corpora that some tests measure on, which are not part of the repository, and small ones that tests write."""

import os
from collections.abc import Iterable
from pathlib import Path

import pytest


def corpus(name: str) -> Path:
    """A file or folder of the corpora. A test that asks for one is skipped where it is not."""
    path = Path(os.environ.get("WEFT_DATA") or Path(__file__).parents[2] / "shared" / "data") / name
    if not path.exists():
        pytest.skip(f"{path} is not there; WEFT_DATA says where the corpora lie")
    return path


def write_tsv(path: Path, pairs: Iterable[tuple[str, str]]) -> str:
    """Write pairs of Chinese and English, and return the name of the file."""
    path.write_text("zh\ten\n" + "".join(f"{zh}\t{en}\n" for zh, en in pairs), encoding="utf-8", newline="\n")
    return path.name
