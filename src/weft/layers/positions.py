"""Where a token stands, told to a model that would otherwise see a bag of tokens."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn


def sinusoids(length: int, model_dim: int, *, period: float = 10_000.0) -> Float[Tensor, "length model"]:
    """PE(pos, 2i) = sin(pos / period^(2i / model_dim)) and PE(pos, 2i + 1) = cos(the same).

    Vaswani et al. 2017, section 3.5. An odd model_dim ends on a sine.
    """
    position = torch.arange(length, dtype=torch.float64)[:, None]
    even = torch.arange(0, model_dim, 2, dtype=torch.float64)
    angle = position * torch.exp(even * (-math.log(period) / model_dim))  # (length, ceil(model_dim / 2))
    table = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :model_dim]
    return table.to(torch.float32)


class SinusoidalPositions(nn.Module):
    """Adds sinusoids to embeddings; the table grows with the longest sentence seen, so no length is too long."""

    table: Tensor

    def __init__(self, model_dim: int) -> None:
        super().__init__()
        self.register_buffer("table", sinusoids(128, model_dim), persistent=False)

    def forward(self, x: Float[Tensor, "batch time model"], offset: int = 0) -> Float[Tensor, "batch time model"]:
        """Position `offset` is that of x's first time step."""
        end = offset + x.size(1)
        if end > self.table.size(0):
            self.table = sinusoids(2 * end, x.size(-1)).to(self.table.device)
        return x + self.table[offset:end].to(x.dtype)
