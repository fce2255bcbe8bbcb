"""Tokens to vectors, and vectors to scores over the vocabulary."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from weft.layers.initialization import draw_normal


class TokenEmbedding(nn.Module):
    """A vector per token, multiplied by sqrt(model_dim) (Vaswani et al. 2017, section 3.4).

    The weights start with variance 1 / model_dim, so the scaled vectors have variance 1, and the same matrix can serve
    as the output projection, where it must be small.
    """

    def __init__(self, vocab_size: int, model_dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, model_dim))
        draw_normal(self.weight, model_dim**-0.5)
        self.scale = math.sqrt(model_dim)

    def forward(self, tokens: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time model"]:
        return F.embedding(tokens, self.weight) * self.scale
