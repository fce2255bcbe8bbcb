"""How weights lie in model.safetensors: in fp32, in fp16, or their matrices in int8 with a scale for each row.

fp32 is what training writes. The other two are for keeping and sending: what is loaded from them is computed with in
fp32 all the same. `NAME` in int8 stands beside `NAME.scale`, fp32, of as many numbers as the matrix has rows; what has
no rows (biases, the weights of norms) stays in fp16 there.
"""

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor

from weft.errors import Problem

Storage = Literal["fp16", "int8"]
Header = dict[str, tuple[list[int], str]]
"""Name -> shape and type, by safetensors' names, of what is stored."""

SCALE = ".scale"
LARGEST_INT8 = 127
BYTES_OF_TYPE = {"F32": "fp32", "F16": "fp16", "I8": "int8"}
"""What weights may be stored in: safetensors' names and ours."""


def stored(weights: Mapping[str, Tensor], storage: Storage) -> dict[str, Tensor]:
    """These weights, fp32, rounded to what `storage` can hold.

    Half precision keeps 11 significant bits. In int8 the largest number of each row becomes 127 or -127 and every other
    one is off by half of its row's scale at most: q = round(w / scale), scale = max |w| / 127.
    """
    rounded: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        if storage == "fp16" or tensor.dim() != 2:
            rounded[name] = tensor.half()
        else:
            scale = tensor.abs().amax(dim=1) / LARGEST_INT8
            of_one = torch.where(scale > 0, scale, 1)  # a row of zeros, such as the padding's, has no largest number
            rounded[name] = (tensor / of_one[:, None]).round().to(torch.int8)
            rounded[name + SCALE] = scale
    return rounded


def restored(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights, fp32, that stand in these; what is stored in fp32 comes back as it is."""
    in_int8 = {name for name, tensor in weights.items() if tensor.dtype == torch.int8}
    scales = {name + SCALE for name in in_int8}
    return {
        name: tensor * weights[name + SCALE][:, None] if name in in_int8 else tensor.float()
        for name, tensor in weights.items()
        if name not in scales
    }


def weights_in(header: Header) -> Header:
    """The weights of a file without the scales that go with them."""
    scales = {name + SCALE for name, (_, dtype) in header.items() if dtype == "I8"}
    return {name: found for name, found in header.items() if name not in scales}


def storage_problems(header: Header) -> list[Problem]:
    """What of a file is stored in a way that `restored` does not know."""
    problems = []
    for name, (shape, dtype) in weights_in(header).items():
        if dtype not in BYTES_OF_TYPE:
            known = ", ".join(f"{ours} ({theirs})" for theirs, ours in BYTES_OF_TYPE.items())
            problems.append(Problem(name, f"is stored as {dtype}; weft reads {known}"))
        elif dtype == "I8" and len(shape) != 2:
            problems.append(Problem(name, f"has shape {shape}; only matrices may be stored in int8"))
        elif dtype == "I8":
            found, of_type = header.get(name + SCALE, ([], "nothing"))
            if (found, of_type) != ([shape[0]], "F32"):
                what = f"is {of_type} of shape {found}; a matrix in int8 of {shape[0]} rows needs so many scales in F32"
                problems.append(Problem(name + SCALE, what))
    return problems
