"""Dropout (Srivastava et al. 2014)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from weft.layers.fast.byte_dropout import drop_by_bytes


def drop_explicit(x: Float[Tensor, "*shape"], probability: float) -> Float[Tensor, "*shape"]:
    """Dropout as in the paper: x * mask / (1 - probability), with a Bernoulli mask that is 0 with this probability."""
    mask = torch.bernoulli(torch.full_like(x, 1 - probability))
    return x * mask / (1 - probability)


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
