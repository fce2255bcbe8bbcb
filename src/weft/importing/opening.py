"""Opens the files of a model from an unknown source. Nothing in them is executed; every defect is an error.

PyTorch's files are read with weights_only, NumPy's without pickles, YAML by a loader that makes plain values and
follows no alias. Sizes are checked before anything is read, and what an archive would unpack to as well. Knows no
model.
"""

import json
import stat
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from weft.errors import ModelError, Problem, needing

LONGEST_NUMBER = 100
"""Characters of a number in YAML, which may count in sixties: that takes the square of its length."""
LARGEST_SETTINGS, LARGEST_VOCABULARY, LARGEST_WEIGHTS = 1 << 20, 64 << 20, 8 << 30
"""Bytes of a file of each sort."""
MOST_GROWTH = 100
"""Greatest ratio of the unpacked to the packed size of an archive."""

PLAIN = {torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool}
"""Types of tensors that are read; weights must be floating point."""
NUMBERS = frozenset(map(np.dtype, ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1")))
"""Types of arrays that are read: those that PyTorch has too."""


def check_files(
    folder: Path, *, settings: Sequence[str] = (), vocabularies: Sequence[str] = (), weights: Sequence[str] = ()
) -> list[str]:
    """Return all these names. Raises ModelError with every one that is missing, not a regular file, or too large."""
    files = dict.fromkeys(settings, LARGEST_SETTINGS)
    files |= dict.fromkeys(vocabularies, LARGEST_VOCABULARY) | dict.fromkeys(weights, LARGEST_WEIGHTS)
    if problems := [problem for name, largest in files.items() for problem in file_problems(folder, name, largest)]:
        raise ModelError(folder, problems)
    return list(files)


def file_problems(folder: Path, name: str, largest: int) -> Iterator[Problem]:
    """Yield what is wrong with a file. Links within the folder are allowed: JoeyNMT's best.ckpt is one."""
    path = folder / name
    try:
        if path.is_symlink() and path.resolve().parent != folder.resolve():
            yield Problem(
                name, "is a link that leads out of the folder; copy the folder with its links followed: cp -rL"
            )
        elif not path.exists():
            yield Problem(name, "is missing")
        elif not stat.S_ISREG(path.stat().st_mode):
            yield Problem(name, "is not a regular file")
        elif (size := path.stat().st_size) > largest:
            yield Problem(name, f"has {size:,} bytes, more than {largest:,}")
    except (OSError, RuntimeError) as error:  # the latter for a link to itself
        yield Problem(name, f"cannot be read: {error}")


def read_text(folder: Path, name: str) -> str:
    with reporting_read_errors(folder, name):
        return (folder / name).read_text(encoding="utf-8")


def read_json(folder: Path, name: str) -> dict[str, Any]:
    """Read a JSON file that holds an object."""
    with reporting_read_errors(folder, name):
        found = json.loads((folder / name).read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise ValueError("it is not a JSON object")
        return found


def read_yaml(folder: Path, name: str) -> dict[str, Any]:
    """Read a YAML file that holds a mapping. Raises MissingExtraError without PyYAML."""
    return parse_yaml(folder, name, read_text(folder, name))


def parse_yaml(folder: Path, name: str, text: str, *, only_text: bool = False) -> dict[str, Any]:
    """YAML that holds a mapping; with `only_text`, of strings to strings, however much they look like numbers."""
    with needing("PyYAML", "import"):
        import yaml

    def compose_node(self: Any, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("it has an alias, with which a small file can grow without bound")
        return super(loader, self).compose_node(parent, index)

    base = yaml.BaseLoader if only_text else yaml.SafeLoader
    loader = type("LoaderWithoutAliases", (base,), {"compose_node": compose_node})

    def construct_number(self: Any, node: Any) -> Any:
        if len(node.value) > LONGEST_NUMBER:
            raise yaml.YAMLError(f"it has a number of more than {LONGEST_NUMBER} characters")
        return base.yaml_constructors[node.tag](self, node)

    if not only_text:
        for kind in ("int", "float"):
            loader.add_constructor(f"tag:yaml.org,2002:{kind}", construct_number)
    with reporting_read_errors(folder, name):
        found = loader(text).get_single_data()
        if not isinstance(found, dict):
            raise ValueError("it is not a YAML mapping")
        return found


def read_torch(folder: Path, name: str) -> dict[str, Any]:
    """Read a dictionary of tensors and plain values that PyTorch has written; tensors are mapped into memory."""
    path = folder / name
    with reporting_read_errors(folder, name):
        is_zip = zipfile.is_zipfile(path)
        if is_zip:
            refuse_growth(path)
    try:
        found = torch.load(path, map_location="cpu", weights_only=True, mmap=is_zip)
    except Exception as error:  # it raises whatever the bytes make it raise
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        what = (
            f"is refused by PyTorch's reader of plain tensors ({reason}); weft does not open pickles that could run "
            "code. If you trust the file, keep its tensors alone: torch.save({'model_state': state} or state, FILE), "
            "with the state dictionary that its own system loads"
        )
        raise ModelError(folder, [Problem(name, what)]) from None
    if not isinstance(found, dict):
        raise ModelError(folder, [Problem(name, "does not hold a dictionary of tensors")])
    return found


def read_safetensors(folder: Path, name: str) -> dict[str, Tensor]:
    with reporting_read_errors(folder, name):
        return plain_tensors(folder, load_file(folder / name))


def plain_tensors(folder: Path, values: Mapping[Any, Any]) -> dict[str, Tensor]:
    """Return the tensors among these values. Raises ModelError unless all are dense, of plain numbers."""
    tensors = {str(name): value for name, value in values.items() if isinstance(value, Tensor)}
    if problems := [problem for name, tensor in tensors.items() for problem in oddities(name, tensor)]:
        raise ModelError(folder, problems)
    return tensors


def oddities(name: str, tensor: Tensor) -> Iterator[Problem]:
    if tensor.is_nested or tensor.is_meta or tensor.layout != torch.strided or tensor.is_quantized:
        yield Problem(name, "is a sparse, nested, quantized or empty tensor; save it as a plain one")
    elif tensor.dtype not in PLAIN:
        yield Problem(name, f"is of type {tensor.dtype}; save it as float32")
    elif tensor.untyped_storage().nbytes() < tensor.numel() * tensor.element_size():
        yield Problem(name, "repeats a few numbers to its size; save it as a contiguous tensor")


def read_npz(folder: Path, name: str) -> dict[str, np.ndarray]:
    """Read the arrays of a NumPy archive, of numbers in the byte order of this machine."""
    with reporting_read_errors(folder, name):
        refuse_growth(folder / name)
        with np.load(folder / name, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
    odd = {key: array.dtype for key, array in arrays.items() if array.dtype not in NUMBERS}
    if odd:
        raise ModelError(folder, [Problem(f"{name}: {key}", f"is of type {dtype}") for key, dtype in odd.items()])
    return arrays


def refuse_growth(path: Path) -> None:
    """Raise ValueError where a zip archive would unpack to far more than it is."""
    with zipfile.ZipFile(path) as archive:
        size = sum(member.file_size for member in archive.infolist())
    if size > min(LARGEST_WEIGHTS, MOST_GROWTH * path.stat().st_size):
        raise ValueError(f"it would unpack to {size:,} bytes")


@contextmanager
def reporting_read_errors(folder: Path, name: str) -> Iterator[None]:
    """Raise ModelError for any exception of a reader; damaged bytes may cause every kind."""
    try:
        yield
    except ModelError:
        raise
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ModelError(folder, [Problem(name, f"cannot be read: {reason}")]) from None
