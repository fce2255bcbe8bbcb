"""Storage formats of model.safetensors: fp32, fp16, or matrices in int8 with one scale per row.

Training writes fp32. The other two save space; loading converts them to fp32. An int8 matrix `NAME` of n rows has its
scales in `NAME.scale`, fp32 of shape (n,). In that format, vectors (biases, the weights of norms) are fp16. Whole
numbers, such as the keys of n-grams, are int64 in every format.
"""

from collections.abc import Collection, Mapping
from typing import Literal

import torch
from torch import Tensor

from weft.errors import Problem

Storage = Literal["fp16", "int8"]
Header = dict[str, tuple[list[int], str]]
"""Name -> shape and safetensors type of each stored tensor."""

SCALE = ".scale"
LARGEST_INT8 = 127
WHOLE = "I64"
BYTES_OF_TYPE = {"F32": "fp32", "F16": "fp16", "I8": "int8"}
"""The types that weights may be stored in: safetensors' name -> weft's name."""


def stored(weights: Mapping[str, Tensor], storage: Storage) -> dict[str, Tensor]:
    """Round fp32 weights to `storage`.

    fp16 keeps 11 significant bits. int8 stores q = round(w / scale) with scale = max |w| / 127 per row, an error of at
    most half the scale.
    """
    rounded: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        if not tensor.is_floating_point():
            rounded[name] = tensor
        elif storage == "fp16" or tensor.dim() != 2:
            rounded[name] = tensor.half()
        else:
            scale = tensor.abs().amax(dim=1) / LARGEST_INT8
            of_one = torch.where(scale > 0, scale, 1)  # a row of zeros, such as that of padding, would divide by 0
            rounded[name] = (tensor / of_one[:, None]).round().to(torch.int8)
            rounded[name + SCALE] = scale
    return rounded


def restored(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Convert stored weights of any format to fp32. fp32 weights are unchanged."""
    in_int8 = {name for name, tensor in weights.items() if tensor.dtype == torch.int8}
    scales = {name + SCALE for name in in_int8}
    return {
        name: tensor * weights[name + SCALE][:, None]
        if name in in_int8
        else tensor.to(torch.int64 if tensor.dtype == torch.int64 else torch.float32)
        for name, tensor in weights.items()
        if name not in scales
    }


def weights_in(header: Header) -> Header:
    """The header without the scales of int8 matrices."""
    scales = {name + SCALE for name, (_, dtype) in header.items() if dtype == "I8"}
    return {name: found for name, found in header.items() if name not in scales}


def storage_problems(header: Header, whole: Collection[str] = ()) -> list[Problem]:
    """The tensors of a file that `restored` cannot convert; `whole` are the names of those with whole numbers."""
    problems = []
    for name, (shape, dtype) in weights_in(header).items():
        if name in whole:
            problems += [] if dtype == WHOLE else [Problem(name, f"is stored as {dtype}; weft reads int64 ({WHOLE})")]
        elif dtype not in BYTES_OF_TYPE:
            known = ", ".join(f"{ours} ({theirs})" for theirs, ours in BYTES_OF_TYPE.items())
            problems.append(Problem(name, f"is stored as {dtype}; weft reads {known}"))
        elif dtype == "I8" and len(shape) != 2:
            problems.append(Problem(name, f"has shape {shape}; only matrices may be stored in int8"))
        elif dtype == "I8":
            found, of_type = header.get(name + SCALE, ([], "nothing"))
            if (found, of_type) != ([shape[0]], "F32"):
                what = f"is {of_type} of shape {found}; an int8 matrix needs one F32 scale for each of {shape[0]} rows"
                problems.append(Problem(name + SCALE, what))
    return problems
