"""Dropout from cheap random bits, for training on a CPU: `drop_explicit` (layers/dropout.py) with other random numbers.

Drawing one Bernoulli number per activation takes longer there than the matrix product before it. Here one random byte
decides for one activation, and the bytes of n activations come from about sqrt(n / 2) random ones: two rows of random
64-bit words, every word of the one xor every word of the other. Each byte is uniform, and any three of them are
independent, so the mean, the variance and the covariances of whatever is summed over the mask are those of independent
draws (tests/layers/test_dropout.py).

The price is that a probability is rounded to a 256th; the scale of the kept activations belongs to the rounded
probability and is applied in fp32, so the expectation is exact.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional as F

BYTE_VALUES = 256


def drop_by_bytes(
    x: Float[Tensor, "*shape"], probability: float, onto: Float[Tensor, "*shape"] | None = None
) -> Float[Tensor, "*shape"]:
    """Zero each element with the probability rounded to a 256th, scale the others by 1 / (1 - that), and add them to
    `onto`."""
    dropped = dropped_values(probability)
    if dropped == 0:
        return x if onto is None else onto + x
    return DropByBytes.apply(x, onto, kept_mask(x, dropped), dropped)


def rectify_and_drop(x: Float[Tensor, "*shape"], probability: float) -> Float[Tensor, "*shape"]:
    """`drop_by_bytes` of relu(x), with the same mask."""
    dropped = dropped_values(probability)
    return RectifyAndDrop.apply(x, dropped) if dropped else F.relu(x)


def dropped_values(probability: float) -> int:
    """How many of the 256 values of a byte drop an activation: the nearest number, and 0 or 256 only for a probability
    of exactly 0 or 1."""
    if probability in (0, 1):
        return int(probability) * BYTE_VALUES
    return min(BYTE_VALUES - 1, max(1, round(probability * BYTE_VALUES)))


def kept_mask(x: Float[Tensor, "*shape"], dropped: int) -> Float[Tensor, "*shape"]:
    """1 where an element of x is kept; 0 for `dropped` in 256 of them, drawn by torch's generator."""
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
    return BYTE_VALUES / max(1, BYTE_VALUES - dropped)  # all dropped: 256 * 0


class DropByBytes(torch.autograd.Function):
    """`scale_kept` with its gradient: the same map, applied to the gradient of the output."""

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
    """Dropout of relu(x). Its gradient passes where the output is not zero, so no mask is kept for it."""

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
