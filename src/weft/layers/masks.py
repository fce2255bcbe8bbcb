"""Attention masks. True means that the query may attend to the key.

Masks are broadcast against scores of shape (batch, heads, query, key).
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def padding_mask(tokens: Int[Tensor, "batch time"], padding_id: int) -> Bool[Tensor, "batch 1 1 time"]:
    """Every query may attend to tokens, none to padding."""
    return (tokens != padding_id)[:, None, None, :]


def causal_mask(length: int, device: torch.device | None = None) -> Bool[Tensor, "1 1 time time"]:
    """Position i may attend to positions 0 ... i, itself included."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()[None, None]
