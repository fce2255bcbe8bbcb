"""Affine maps with weights laid out for the processor once instead of at every product.

`Linear` (layers/linear.py) without gradients; tests/layers/fast/test_packed_linear.py proves them equal.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

USUAL_ROWS = 256
"""The number of input rows for which weights are laid out; the layout is as good for one row and for thousands."""
EVERY_NUMBER = 32
"""Below this, products are made for every number of rows (`usual_number`)."""


class PackedLinear:
    """x W^T + b without gradients.

    On a CPU oneDNN lays a copy of W out in blocks: with AVX-512, products of a few hundred rows then take half the
    time, in fp32 as in bf16; with AVX2 alone they take as long as before, but for the output's
    (bench/results/tried.jsonl).
    """

    def __init__(self, weight: Float[Tensor, "outputs inputs"], bias: Float[Tensor, " outputs"] | None = None) -> None:
        self.bias = bias
        self.is_blocked = weight.device.type == "cpu" and has_blocks_of(weight.dtype)
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight, USUAL_ROWS) if self.is_blocked else weight

    @classmethod
    def of(cls, layers: Sequence[nn.Linear], dtype: torch.dtype) -> "PackedLinear":
        """One linear layer, or several that read the same x, their outputs one after the other.

        The weights are copied: later changes of the layers have no effect.
        """
        weight = torch.cat([layer.weight.detach() for layer in layers]).to(dtype)
        biases = [layer.bias.detach() for layer in layers if layer.bias is not None]
        if biases and len(biases) < len(layers):
            raise ValueError("either all of the layers have a bias, or none")
        return cls(weight, torch.cat(biases).to(dtype) if biases else None)

    def __call__(self, x: Float[Tensor, "*rows inputs"]) -> Float[Tensor, "*rows outputs"]:
        if not self.is_blocked:
            return F.linear(x, self.weight, self.bias)
        rows = x.numel() // x.size(-1)
        usual = rows if rows < EVERY_NUMBER else usual_number(rows)
        if usual == rows:
            return torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")
        padded = x.new_empty(usual, x.size(-1))  # the rows after the last are arbitrary
        padded[:rows] = x.flatten(0, -2)
        product = torch.ops.mkldnn._linear_pointwise(padded, self.weight, self.bias, "none", [], "")
        return product[:rows].view(*x.shape[:-1], -1)


def has_blocks_of(dtype: torch.dtype) -> bool:
    """Whether oneDNN computes with weights of this type here: with bf16 ones it refuses to on an older processor."""
    has_onednn = torch.backends.mkldnn.is_available()
    return has_onednn and (dtype != torch.bfloat16 or torch.ops.mkldnn._is_mkldnn_bf16_supported())


def usual_number(rows: int) -> int:
    """The least number of rows, not below this one, that products are made for: at most 16 between two powers of 2.

    oneDNN writes a program for each shape at its first product, which takes as long as the product of some hundred
    rows, and keeps about a thousand of them. In a search nearly every step has another number of rows.
    """
    granularity = 1 << max(0, rows.bit_length() - 5)
    return -(-rows // granularity) * granularity
