"""Dropout (Srivastava et al. 2014) from cheap random bits.

On a CPU, drawing one Bernoulli number per activation takes longer than the matrix product before it. Here one random
byte decides for one activation, and bytes come eight at a time. The price is that a probability is rounded to a 256th;
the scale of the kept activations belongs to the rounded probability, so the expectation is exact. (In bf16 the scale is
a bf16 number like the activations, as in torch's own dropout on a CPU, and may be off by up to 0.4 %.)
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

BYTE_VALUES = 256


def rounded_probability(probability: float) -> float:
    """The probability with which `drop_by_bytes` really drops: the nearest 256th, but 0 only where 0 is asked."""
    return dropped_values(probability) / BYTE_VALUES


def dropped_values(probability: float) -> int:
    """How many of the 256 values of a byte mean that an activation is dropped."""
    return 0 if probability == 0 else max(1, round(probability * BYTE_VALUES))


def drop_by_bytes(x: Float[Tensor, "*shape"], probability: float) -> Float[Tensor, "*shape"]:
    """Zero each element with `rounded_probability(probability)` and scale the others by 1 / (1 - that)."""
    dropped = dropped_values(probability)
    if dropped == 0:
        return x
    if dropped == BYTE_VALUES:
        return torch.zeros_like(x)
    words = torch.empty(-(-x.numel() // 8), dtype=torch.int64).random_(-(2**63), None)
    signed_bytes = words.view(torch.int8)[: x.numel()].view(x.shape)  # uniform over -128 ... 127
    kept = signed_bytes.ge_(dropped - BYTE_VALUES // 2)  # in place, so 0 or 1 in an int8: bool tensors convert slowly
    # The scale is applied to the product, in fp32: as a number of the mask it would be rounded to bf16, 0.3 % off.
    return (x * kept.to(x.dtype)).mul_(BYTE_VALUES / (BYTE_VALUES - dropped))


def drop_explicit(x: Float[Tensor, "*shape"], probability: float) -> Float[Tensor, "*shape"]:
    """The same in the words of the paper: a Bernoulli mask, then the scale."""
    mask = torch.bernoulli(torch.full_like(x, 1 - probability))
    return x * mask / (1 - probability)


class Dropout(nn.Module):
    """Dropout while training, the identity otherwise."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        if not self.training or self.probability == 0:
            return x
        if x.device.type == "cpu":
            return drop_by_bytes(x, self.probability)
        return F.dropout(x, self.probability)
