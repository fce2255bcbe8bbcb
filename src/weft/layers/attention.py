"""Scaled dot-product attention and its multi-headed form (Vaswani et al. 2017, section 3.2).

The function stands here twice. `attend_explicit` is equation (1) as one reads it; `attend_fused` is torch's kernel. A
test proves them equal. Neither is always the faster one: on a CPU the fused kernel is made for long sequences and takes
many times longer than the plain products on sentences of fifteen words, on a GPU it wins. `attend` knows which is
which.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from weft.layers.cache import KeyValueCache
from weft.layers.dropout import Dropout
from weft.layers.linear import Linear


def attend_explicit(
    query: Float[Tensor, "batch heads query head_dim"],
    key: Float[Tensor, "batch heads key head_dim"],
    value: Float[Tensor, "batch heads key head_dim"],
    allowed_mask: Bool[Tensor, "#batch #heads #query key"] | None = None,
    drop: Callable[[Tensor], Tensor] | None = None,
) -> Float[Tensor, "batch heads query head_dim"]:
    """Attention(Q, K, V) = softmax(Q K^T / sqrt(head_dim)) V; `drop` is applied to the attention weights."""
    weights = attention_weights(query, key, allowed_mask)
    return (weights if drop is None else drop(weights)) @ value


def attention_weights(
    query: Float[Tensor, "batch heads query head_dim"],
    key: Float[Tensor, "batch heads key head_dim"],
    allowed_mask: Bool[Tensor, "#batch #heads #query key"] | None = None,
) -> Float[Tensor, "batch heads query key"]:
    """softmax(Q K^T / sqrt(head_dim)): a query's shares of all keys, which sum to 1, or to 0 where it may see none."""
    scores = (query / math.sqrt(query.size(-1))) @ key.mT  # (batch, heads, query, key)
    if allowed_mask is None:
        return scores.softmax(-1)
    # The lowest finite number instead of -inf: its exponential is exactly 0 beside any allowed score, and a row that
    # may see nothing becomes uniform instead of NaN, to be set to zero in turn.
    weights = scores.masked_fill(~allowed_mask, torch.finfo(scores.dtype).min).softmax(-1)
    sees_any = allowed_mask.any(-1, keepdim=True)
    return weights if sees_any.all() else weights.masked_fill(~sees_any, 0.0)


def attend_fused(
    query: Float[Tensor, "batch heads query head_dim"],
    key: Float[Tensor, "batch heads key head_dim"],
    value: Float[Tensor, "batch heads key head_dim"],
    allowed_mask: Bool[Tensor, "#batch #heads #query key"] | None = None,
    dropout: float = 0.0,
) -> Float[Tensor, "batch heads query head_dim"]:
    """The same in one kernel; `dropout` is the probability of dropping an attention weight."""
    attended = F.scaled_dot_product_attention(query, key, value, attn_mask=allowed_mask, dropout_p=dropout)
    if allowed_mask is None:
        return attended
    # Kernels differ in what they give a query that may see nothing.
    return attended.masked_fill(~allowed_mask.any(-1, keepdim=True), 0.0)


class MultiHeadAttention(nn.Module):
    """Attention in `num_heads` subspaces of model_dim / num_heads dimensions each (section 3.2.2).

    The module does three things, so that a decoder can keep what does not change: `project_memory` turns what is looked
    at into keys and values, `project_query` turns what looks into queries, `combine` attends and mixes the heads.
    """

    def __init__(self, model_dim: int, num_heads: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        if model_dim % num_heads:
            raise ValueError(f"num_heads = {num_heads} must divide model_dim = {model_dim}")
        self.num_heads = num_heads
        self.query = Linear(model_dim, model_dim)
        self.key_value = Linear(model_dim, 2 * model_dim)
        self.output = Linear(model_dim, model_dim)
        self.dropout = Dropout(dropout)

    def forward(
        self,
        x: Float[Tensor, "batch query model"],
        memory: Float[Tensor, "batch key model"],
        allowed_mask: Bool[Tensor, "#batch 1 #query key"] | None = None,
    ) -> Float[Tensor, "batch query model"]:
        return self.combine(self.project_query(x), *self.project_memory(memory), allowed_mask)

    def project_query(self, x: Float[Tensor, "batch query model"]) -> Float[Tensor, "batch heads query head_dim"]:
        return self.query(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def project_memory(
        self, memory: Float[Tensor, "batch key model"]
    ) -> tuple[Float[Tensor, "batch heads key head_dim"], Float[Tensor, "batch heads key head_dim"]]:
        key, value = self.key_value(memory).unflatten(-1, (2, self.num_heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        return key, value

    def combine(
        self,
        query: Float[Tensor, "batch heads query head_dim"],
        key: Float[Tensor, "batch heads key head_dim"],
        value: Float[Tensor, "batch heads key head_dim"],
        allowed_mask: Bool[Tensor, "#batch 1 #query key"] | None = None,
    ) -> Float[Tensor, "batch query model"]:
        attended = self.attend(query, key, value, allowed_mask)  # (batch, heads, query, head_dim)
        return self.output(attended.transpose(1, 2).flatten(2))

    def attend(self, query: Tensor, key: Tensor, value: Tensor, allowed_mask: Tensor | None) -> Tensor:
        """Whichever of the two forms is faster on this device; see `bench/attention.py`."""
        if query.device.type == "cpu":
            return attend_explicit(query, key, value, allowed_mask, self.dropout)
        dropout = self.dropout.probability if self.training else 0.0
        return attend_fused(query, key, value, allowed_mask, dropout)

    def step(self, x: Float[Tensor, "rows 1 model"], cache: KeyValueCache) -> Float[Tensor, "rows 1 model"]:
        """Self-attention of one new position over itself and all before it, whose keys and values are cached."""
        query = self.project_query(x)
        return self.combine(query, *cache.append(*self.project_memory(x)))
