"""Scaled dot-product attention and its multi-headed form (Vaswani et al. 2017, section 3.2).

The function has three forms, and tests prove them equal. `attend_explicit` is equation (1). `attend_fused` is torch's
kernel, the fastest on a GPU; on a CPU it is made for long sequences, and on sentences of fifteen words takes many times
longer than the plain products. `attend_short` (fast/short_attention.py) is the plain products, forward and backward,
laid out for a CPU and short sentences. `MultiHeadAttention.attend` chooses.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from weft.layers.cache import KeyValueCache
from weft.layers.dropout import Dropout
from weft.layers.fast.short_attention import attend_short
from weft.layers.linear import Linear
from weft.layers.masks import causal_mask
from weft.layers.positions import RotaryPositions


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
    """softmax(Q K^T / sqrt(head_dim)): the weights of a query sum to 1, or to 0 if no key is allowed."""
    scores = (query / math.sqrt(query.size(-1))) @ key.mT  # (batch, heads, query, key)
    if allowed_mask is None:
        return scores.softmax(-1)
    # The lowest finite number instead of -inf: its exponential is exactly 0 next to any allowed score, and a row
    # without an allowed key becomes uniform instead of NaN, and is then set to zero.
    weights = scores.masked_fill(~allowed_mask, torch.finfo(scores.dtype).min).softmax(-1)
    sees_any = allowed_mask.any(-1, keepdim=True)
    return weights if sees_any.all() else weights.masked_fill(~sees_any, 0.0)


def precision_of_attention(x: Tensor) -> torch.dtype:
    """The precision of attention outside of training: fp32 on a CPU, where bf16 makes the small products of a search
    slower."""
    return torch.float32 if x.device.type == "cpu" else x.dtype


KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""All kernels of torch but cuDNN's, which needs ten milliseconds of preparation for each new shape of batch."""


def attend_fused(
    query: Float[Tensor, "batch heads query head_dim"],
    key: Float[Tensor, "batch heads key head_dim"],
    value: Float[Tensor, "batch heads key head_dim"],
    allowed_mask: Bool[Tensor, "#batch #heads #query key"] | None = None,
    dropout: float = 0.0,
) -> Float[Tensor, "batch heads query head_dim"]:
    """`attend_explicit` in one kernel; `dropout` is the probability of dropping an attention weight."""
    with sdpa_kernel(KERNELS):
        if allowed_mask is None:
            return F.scaled_dot_product_attention(query, key, value, dropout_p=dropout)
        # Kernels differ in what they return for a query without an allowed key (some NaN): allow all, then set to zero.
        sees_any = allowed_mask.any(-1, keepdim=True)
        mask = allowed_mask | ~sees_any
        attended = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)
        return attended.masked_fill(~sees_any, 0.0)


class MultiHeadAttention(nn.Module):
    """Attention in `num_heads` subspaces of `head_dim` dimensions each (section 3.2.2). Default: model_dim / num_heads.

    It has three parts, so that a decoder can keep what does not change: `project_memory` makes keys and values,
    `project_query` makes queries, `combine` attends and mixes the heads.

    With `rotary`, queries and keys carry their positions, which makes sense in self-attention only. `steps` and
    `learns_beta` make it a modern Hopfield network, which settles before it reads (`settle`).
    """

    def __init__(
        self,
        model_dim: int,
        num_heads: int,
        *,
        head_dim: int | None = None,
        dropout: float = 0.0,
        rotary: bool = False,
        steps: int = 1,
        learns_beta: bool = False,
    ) -> None:
        super().__init__()
        if head_dim is None and model_dim % num_heads:
            raise ValueError(f"num_heads = {num_heads} must divide model_dim = {model_dim}")
        self.num_heads, self.head_dim = num_heads, head_dim or model_dim // num_heads
        self.query = Linear(model_dim, self.width)
        self.key_value = Linear(model_dim, 2 * self.width)  # one Xavier draw: sqrt(2/3) of the spread of two
        self.output = Linear(self.width, model_dim)
        self.dropout = Dropout(dropout)
        self.rotary = RotaryPositions(self.head_dim) if rotary else None
        self.steps = steps
        self.log_beta = nn.Parameter(torch.zeros(num_heads)) if learns_beta else None
        """log(beta sqrt(head_dim)) of each head, so that beta starts at 1/sqrt(head_dim)."""

    @property
    def width(self) -> int:
        """Dimensions of all heads together: model_dim, or less after heads were cut out (models/pruning.py)."""
        return self.num_heads * self.head_dim

    def forward(
        self,
        x: Float[Tensor, "batch query model"],
        memory: Float[Tensor, "batch key model"],
        allowed_mask: Bool[Tensor, "#batch 1 #query key"] | None = None,
    ) -> Float[Tensor, "batch query model"]:
        query, (key, value) = self.project_query(x), self.project_memory(memory)
        return self.combine(self.settle(query, key, allowed_mask), key, value, allowed_mask)

    def project_query(
        self, x: Float[Tensor, "batch query model"], offset: int = 0
    ) -> Float[Tensor, "batch heads query head_dim"]:
        """Position `offset` is that of x's first time step; only rotary positions use it."""
        query = self.query(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        return query if self.rotary is None else self.rotary(query, offset)

    def project_memory(
        self, memory: Float[Tensor, "batch key model"], offset: int = 0
    ) -> tuple[Float[Tensor, "batch heads key head_dim"], Float[Tensor, "batch heads key head_dim"]]:
        both = self.key_value(memory).chunk(2, dim=-1)
        key, value = (each.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for each in both)
        return (key if self.rotary is None else self.rotary(key, offset)), value

    def settle(
        self,
        query: Float[Tensor, "batch heads query head_dim"],
        key: Float[Tensor, "batch heads key head_dim"],
        allowed_mask: Bool[Tensor, "#batch 1 #query key"] | None = None,
    ) -> Float[Tensor, "batch heads query head_dim"]:
        """The queries that read the values: after `steps` - 1 updates softmax(beta Q K^T) K, those of a modern Hopfield
        network whose patterns are the keys (Ramsauer et al. 2021), times beta sqrt(head_dim)."""
        for step in range(self.steps):
            query = query if step == 0 else self.attend(query, key, key, allowed_mask)
            if self.log_beta is not None:
                query = query * self.log_beta.exp().to(query.dtype)[:, None, None]
        return query

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
        """Compute by the fastest of the three forms (bench/attention.py)."""
        dropout = self.dropout.probability if self.training else 0.0
        if query.device.type != "cpu":
            return attend_fused(query, key, value, allowed_mask, dropout)
        precision = query.dtype if self.training else precision_of_attention(query)
        inputs = (query.to(precision), key.to(precision), value.to(precision), allowed_mask)
        is_long = query.size(2) > 1
        attended = attend_short(*inputs, dropout) if is_long else attend_explicit(*inputs, self.dropout)
        return attended.to(query.dtype)

    def step(self, x: Float[Tensor, "rows new model"], cache: KeyValueCache) -> Float[Tensor, "rows new model"]:
        """Self-attention of new positions over all earlier ones, whose keys and values are cached, and over themselves
        up to each."""
        before, new = cache.length, x.size(1)
        query = self.project_query(x, before)
        allowed_mask = None if new == 1 else causal_mask(before + new, x.device)[:, :, before:]
        key, value = cache.append(*self.project_memory(x, before))
        return self.combine(self.settle(query, key, allowed_mask), key, value, allowed_mask)
