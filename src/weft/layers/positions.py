"""Positional encodings, without which attention would see a bag of tokens.

Sinusoidal and learned positions are vectors added to the embeddings. Rotary positions rotate the queries and keys of
self-attention instead, in every layer.
"""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable

from weft.errors import UsageError
from weft.layers.initialization import draw_normal


def sinusoids(length: int, model_dim: int, *, period: float = 10_000.0) -> Float[Tensor, "length model"]:
    """PE(pos, 2i) = sin(pos / period^(2i / model_dim)) and PE(pos, 2i + 1) = cos(the same).

    Vaswani et al. 2017, section 3.5. An odd model_dim ends on a sine.
    """
    numbers: dict[str, Any] = {"dtype": torch.float64, "device": "cpu"}  # and not meta, as `draw_normal` says
    position = torch.arange(length, **numbers)[:, None]
    even = torch.arange(0, model_dim, 2, **numbers)
    angle = position * torch.exp(even * (-math.log(period) / model_dim))  # (length, ceil(model_dim / 2))
    table = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :model_dim]
    return table.to(torch.float32)


class SinusoidalPositions(nn.Module):
    """Adds sinusoids to embeddings; the table grows with the longest sentence seen, so no length is too long."""

    table: Tensor

    def __init__(self, model_dim: int, *, period: float = 10_000.0) -> None:
        super().__init__()
        self.period = period
        self.register_buffer("table", sinusoids(128, model_dim, period=period), persistent=False)

    def forward(self, x: Float[Tensor, "batch time model"], offset: int = 0) -> Float[Tensor, "batch time model"]:
        """Position `offset` is that of x's first time step."""
        end, table = offset + x.size(1), self.table  # read once: another thread may replace it by a shorter one
        if end > table.size(0):
            self.table = table = sinusoids(2 * end, x.size(-1), period=self.period).to(table.device)
        return x + table[offset:end].to(x.dtype)


class LearnedPositions(nn.Module):
    """Adds a learned vector for each of `max_positions` positions to embeddings (Gehring et al. 2017, section 3.1).

    They are initialized and scaled like `TokenEmbedding`, so position and token have equal weight.
    """

    def __init__(self, max_positions: int, model_dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_positions, model_dim))
        draw_normal(self.weight, model_dim**-0.5)
        self.scale = math.sqrt(model_dim)

    def forward(self, x: Float[Tensor, "batch time model"], offset: int = 0) -> Float[Tensor, "batch time model"]:
        """Position `offset` is that of x's first time step; raises UsageError beyond `max_positions`."""
        end, most = offset + x.size(1), self.weight.size(0)
        if end > most:
            raise UsageError(
                f"a sentence of {end:,} tokens is longer than the {most:,} positions that this model has learned; "
                "split it, or train with a larger model.max_positions or with positions of another kind"
            )
        return x + (self.weight[offset:end] * self.scale).to(x.dtype)


class RotaryPositions(nn.Module):
    """Rotates queries and keys in proportion to their positions (Su et al. 2021, arXiv 2104.09864, section 3.2).

    Dimensions i and i + head_dim / 2 of a head span a plane, which position m rotates by m / 10,000^(2i / head_dim),
    the angle of the sinusoids. The product of a rotated query and a rotated key depends on their distance alone. (The
    paper pairs neighbors, 2i and 2i + 1. Learned weights do not depend on the order of dimensions, and halves are
    faster.)
    """

    turns: Tensor

    def __init__(self, head_dim: int) -> None:
        super().__init__()
        if head_dim % 2:
            raise ValueError(f"head_dim = {head_dim} must be even: rotary positions rotate pairs of dimensions")
        # Fewer positions for wider heads: a folder may ask for hundreds of layers and hold no weights for them.
        self.register_buffer("turns", rotations(max(1, 8_192 // head_dim), head_dim), persistent=False)

    def forward(
        self, x: Float[Tensor, "batch heads time head_dim"], offset: int = 0
    ) -> Float[Tensor, "batch heads time head_dim"]:
        """Position `offset` is that of x's first time step; the table grows with the longest sentence seen."""
        end, turns = offset + x.size(2), self.turns  # read once: another thread may replace them by shorter ones
        if end > turns.size(1):
            with torch.inference_mode(False):  # a table made in inference mode could not be kept for a backward pass
                self.turns = turns = rotations(2 * end, x.size(-1)).to(turns.device)
        cosine, sine = turns[:, offset:end]
        return Turn.apply(x, cosine, sine) if x.device.type == "cpu" else turn_explicit(x, cosine, sine)


def turn_explicit(
    x: Float[Tensor, "*batch time head_dim"],
    cosine: Float[Tensor, "time head_dim"],
    sine: Float[Tensor, "time head_dim"],
) -> Float[Tensor, "*batch time head_dim"]:
    """Equation (34): x * cosine + other * sine, where `other` holds the other coordinate of each plane."""
    other = x.roll(x.size(-1) // 2, dims=-1)
    return (x * cosine + other * sine).to(x.dtype)


class Turn(torch.autograd.Function):
    """`turn_explicit` half by half, which needs no reordered copy of x, and its gradient: the rotation back."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        ctx.save_for_backward(cosine, sine)
        return turn_by_halves(x, cosine, sine)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, *gradients: Tensor) -> tuple[Tensor, None, None]:  # type: ignore[override]
        cosine, sine = ctx.saved_tensors  # type: ignore[attr-defined]
        return turn_by_halves(gradients[0], cosine, -sine), None, None


def turn_by_halves(
    x: Float[Tensor, "*batch time head_dim"],
    cosine: Float[Tensor, "time head_dim"],
    sine: Float[Tensor, "time head_dim"],
) -> Float[Tensor, "*batch time head_dim"]:
    precise = x.to(torch.promote_types(x.dtype, cosine.dtype))
    turned = precise * cosine
    for own, other, share in zip(turned.chunk(2, -1), reversed(precise.chunk(2, -1)), sine.chunk(2, -1), strict=True):
        own.addcmul_(other, share)
    return turned.to(x.dtype)


def rotations(length: int, head_dim: int) -> Float[Tensor, "2 length head_dim"]:
    """The factors of equation (34): cosines for a vector, signed sines for the vector with its halves exchanged."""
    sine, cosine = sinusoids(length, head_dim).unflatten(-1, (-1, 2)).unbind(-1)  # (length, head_dim / 2)
    return torch.stack([torch.cat([cosine, cosine], dim=-1), torch.cat([-sine, sine], dim=-1)])
