"""Dropout (Srivastava et al. 2014) from cheap random bits.

On a CPU, drawing one Bernoulli number per activation takes longer than the matrix product before it. Here one random
byte decides for one activation, and the bytes of n activations come from about sqrt(n / 2) random ones: two rows of
random 64-bit words, every word of the one xor every word of the other. Each byte is uniform, and any three of them are
independent, so the mean, the variance and the covariances of whatever is summed over the mask are those of
independent draws.

The price is that a probability is rounded to a 256th; the scale of the kept activations belongs to the rounded
probability and is applied in fp32, so the expectation is exact.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional as F

BYTE_VALUES = 256


def dropped_values(probability: float) -> int:
    """How many of the 256 values of a byte mean that an activation is dropped: the nearest number, but none and all
    only where they are asked."""
    if probability in (0, 1):
        return int(probability) * BYTE_VALUES
    return min(BYTE_VALUES - 1, max(1, round(probability * BYTE_VALUES)))


def drop_by_bytes(
    x: Float[Tensor, "*shape"], probability: float, onto: Float[Tensor, "*shape"] | None = None
) -> Float[Tensor, "*shape"]:
    """Zero each element with the probability rounded to a 256th, scale the others by 1 / (1 - that), and add them to
    `onto`."""
    dropped = dropped_values(probability)
    if dropped == 0:
        return x if onto is None else onto + x
    return DropByBytes.apply(x, onto, kept_mask(x, dropped), dropped)


def kept_mask(x: Float[Tensor, "*shape"], dropped: int) -> Float[Tensor, "*shape"]:
    """1 where an element of x is kept, 0 where it is one of `dropped` in 256; random words are torch's generator's."""
    words = -(-x.numel() // 8)
    side = math.isqrt(max(0, words - 1)) + 1  # its square is no less than `words`
    rows, columns = torch.empty(2, side, dtype=torch.int64).random_(-(2**63), None)
    signed_bytes = (rows[:, None] ^ columns).view(torch.int8).flatten()[: x.numel()].view(x.shape)
    return torch.gt(signed_bytes, dropped - BYTE_VALUES // 2 - 1, out=torch.empty(x.shape, dtype=x.dtype))


def scale_kept(
    x: Float[Tensor, "*shape"], kept: Float[Tensor, "*shape"], dropped: int, onto: Tensor | None = None
) -> Float[Tensor, "*shape"]:
    """onto + x * kept * 256 / (256 - dropped) in one pass; the scale is taken in fp32 whatever x is."""
    base = x.new_zeros(()) if onto is None else onto
    return torch.addcmul(base, x, kept, value=scale_of_kept(dropped))


def scale_of_kept(dropped: int) -> float:
    return BYTE_VALUES / max(1, BYTE_VALUES - dropped)  # of all: 256 * 0


class DropByBytes(torch.autograd.Function):
    """`scale_kept` with its gradient, which is the same map again."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, onto: Tensor | None, kept: Tensor, dropped: int) -> Tensor:
        ctx.save_for_backward(kept)
        ctx.dropped, ctx.is_added = dropped, onto is not None  # type: ignore[attr-defined]
        return scale_kept(x, kept, dropped, onto)

    @staticmethod
    def backward(ctx: FunctionCtx, *gradients: Tensor) -> tuple[Tensor, Tensor | None, None, None]:  # type: ignore[override]
        (kept,) = ctx.saved_tensors  # type: ignore[attr-defined]
        above = gradients[0]
        return scale_kept(above, kept, ctx.dropped), above if ctx.is_added else None, None, None  # type: ignore[attr-defined]


class RectifyAndDrop(torch.autograd.Function):
    """Dropout of relu(x), whose gradient is that of `above` where anything came out: no mask is kept for it."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, dropped: int) -> Tensor:
        out = scale_kept(F.relu(x), kept_mask(x, dropped), dropped)
        ctx.save_for_backward(out)
        ctx.dropped = dropped  # type: ignore[attr-defined]
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, *gradients: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        (out,) = ctx.saved_tensors  # type: ignore[attr-defined]
        gradient = torch.ops.aten.threshold_backward(gradients[0], out, 0)
        return gradient.mul_(scale_of_kept(ctx.dropped)), None  # type: ignore[attr-defined]


def drop_explicit(x: Float[Tensor, "*shape"], probability: float) -> Float[Tensor, "*shape"]:
    """Dropout in the words of the paper: a Bernoulli mask, then the scale."""
    mask = torch.bernoulli(torch.full_like(x, 1 - probability))
    return x * mask / (1 - probability)


def rectify_and_drop(x: Float[Tensor, "*shape"], probability: float) -> Float[Tensor, "*shape"]:
    """`drop_by_bytes` of relu(x), with the same mask."""
    dropped = dropped_values(probability)
    return RectifyAndDrop.apply(x, dropped) if dropped else F.relu(x)


class Dropout(nn.Module):
    """Dropout while training, the identity otherwise."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        if not 0 <= probability <= 1:
            raise ValueError(f"dropout = {probability} must be a probability, from 0 to 1")
        self.probability = probability

    def forward(
        self, x: Float[Tensor, "*shape"], onto: Float[Tensor, "*shape"] | None = None
    ) -> Float[Tensor, "*shape"]:
        """Dropout(x), added to `onto` where that is given, as a residual connection does."""
        if x.device.type == "cpu" and self.training:
            return drop_by_bytes(x, self.probability, onto)
        dropped = F.dropout(x, self.probability, self.training)
        return dropped if onto is None else onto + dropped
