"""Files that run something when they are opened without care."""

import os
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch


class Payload:
    """What runs when its pickle is opened: it makes a file."""

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, ("touch owned",)


def write_array(path: Path) -> None:
    with open(path, "wb") as file:
        np.save(file, np.array([Payload()], dtype=object), allow_pickle=True)


PICKLES: dict[str, Callable[[Path], object]] = {
    "a pickle": lambda path: path.write_bytes(pickle.dumps(Payload())),
    "an old pickle": lambda path: path.write_bytes(pickle.dumps(Payload(), protocol=0)),
    "PyTorch's archive": lambda path: torch.save({"model_state": Payload()}, path),
    "PyTorch's old file": lambda path: torch.save({"x": Payload()}, path, _use_new_zipfile_serialization=False),
    "NumPy's file": write_array,
}
"""Kind of file -> what writes one."""


def open_carelessly(path: Path, kind: str) -> None:
    if kind == "NumPy's file":
        np.load(path, allow_pickle=True)
    elif kind.startswith("PyTorch"):
        torch.load(path, weights_only=False)
    else:
        pickle.loads(path.read_bytes())  # noqa: S301 (what runs is our own)
