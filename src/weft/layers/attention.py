"""Scaled dot-product attention and its multi-headed form (Vaswani et al. 2017, section 3.2).

The function stands here three times, and tests prove the three equal. `attend_explicit` is equation (1) as one reads
it; `attend_fused` is torch's kernel, which wins on a GPU, but on a CPU is made for long sequences and takes many times
longer than the plain products on sentences of fifteen words; `attend_short` is the plain products again, forward and
backward, laid out for a CPU and sentences. `MultiHeadAttention.attend` knows which is which.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from weft.layers.cache import KeyValueCache
from weft.layers.dropout import Dropout, dropped_values, kept_mask, scale_kept
from weft.layers.linear import Linear
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
    """softmax(Q K^T / sqrt(head_dim)): a query's shares of all keys, which sum to 1, or to 0 where it may see none."""
    scores = (query / math.sqrt(query.size(-1))) @ key.mT  # (batch, heads, query, key)
    if allowed_mask is None:
        return scores.softmax(-1)
    # The lowest finite number instead of -inf: its exponential is exactly 0 beside any allowed score, and a row that
    # may see nothing becomes uniform instead of NaN, to be set to zero in turn.
    weights = scores.masked_fill(~allowed_mask, torch.finfo(scores.dtype).min).softmax(-1)
    sees_any = allowed_mask.any(-1, keepdim=True)
    return weights if sees_any.all() else weights.masked_fill(~sees_any, 0.0)


def precision_of_attention(x: Tensor) -> torch.dtype:
    """What a model computes its attention in when it is not trained: fp32 on a CPU, whose bf16 makes the small products
    of a search slower."""
    return torch.float32 if x.device.type == "cpu" else x.dtype


KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""All of torch's but cuDNN's, which takes ten milliseconds to get ready for each new shape of batch."""


def attend_fused(
    query: Float[Tensor, "batch heads query head_dim"],
    key: Float[Tensor, "batch heads key head_dim"],
    value: Float[Tensor, "batch heads key head_dim"],
    allowed_mask: Bool[Tensor, "#batch #heads #query key"] | None = None,
    dropout: float = 0.0,
) -> Float[Tensor, "batch heads query head_dim"]:
    """The same in one kernel; `dropout` is the probability of dropping an attention weight."""
    with sdpa_kernel(KERNELS):
        if allowed_mask is None:
            return F.scaled_dot_product_attention(query, key, value, dropout_p=dropout)
        # Kernels differ in what they give a query that may see nothing, NaN among it: it sees all, and is set to zero.
        sees_any = allowed_mask.any(-1, keepdim=True)
        mask = allowed_mask | ~sees_any
        attended = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)
        return attended.masked_fill(~sees_any, 0.0)


def attend_short(
    query: Float[Tensor, "batch heads query head_dim"],
    key: Float[Tensor, "batch heads key head_dim"],
    value: Float[Tensor, "batch heads key head_dim"],
    allowed_mask: Bool[Tensor, "#batch #heads #query key"] | None = None,
    dropout: float = 0.0,
) -> Float[Tensor, "batch heads query head_dim"]:
    """The same for training on short sentences on a CPU; `dropout` is rounded to a 256th (layers/dropout.py)."""
    if allowed_mask is None:
        allowed_mask = torch.ones(1, 1, 1, key.size(2), dtype=torch.bool)
    return ShortAttention.apply(query, key, value, allowed_mask, dropped_values(dropout))


LANES = 16
"""fp32 numbers that a vector unit takes at once. A soft-max over 13 keys takes six times as long as one over 16."""


class ShortAttention(torch.autograd.Function):
    """Attention with the keys filled up to a multiple of LANES, a soft-max in fp32, and its gradient by hand.

    With W the dropped weights, P those before dropout and S the scores: O = W V and S = Q K^T / sqrt(head_dim), so
    dV = W^T dO, dW = dO V^T, dS = P * (dP - sum(dP * P)), dQ = dS K / sqrt(head_dim), dK = dS^T Q / sqrt(head_dim).
    What comes in and goes out is laid out as the projections want it, (batch, time, heads, head_dim), so that nothing
    is copied twice.
    """

    @staticmethod
    def forward(
        ctx: FunctionCtx, query: Tensor, key: Tensor, value: Tensor, allowed_mask: Tensor, dropped: int
    ) -> Tensor:
        allowed_mask = allowed_mask.expand(*allowed_mask.shape[:-1], key.size(2))  # an error for another number of keys
        q = filled_up(query, query.size(2)).mul_(query.size(-1) ** -0.5)
        room = -(-key.size(2) // LANES) * LANES
        k, v = filled_up(key, room), filled_up(value, room)
        scores = torch.bmm(q.flatten(0, 1), k.flatten(0, 1).mT).float().view(*q.shape[:3], room)
        p = scores.add_(score_bias(allowed_mask, room)).softmax(-1)
        sees_any = allowed_mask.any(-1, keepdim=True)
        if not sees_any.all():
            p.masked_fill_(~sees_any, 0.0)
        w, kept = p.to(q.dtype), None
        if dropped:
            kept = kept_mask(w, dropped)
            w = scale_kept(w, kept, dropped)
        ctx.save_for_backward(q, k, v, p, w, kept)  # type: ignore[arg-type] (None where nothing is dropped)
        ctx.dropped, ctx.keys = dropped, key.size(2)  # type: ignore[attr-defined]
        return heads_inside(torch.bmm(w.flatten(0, 1), v.flatten(0, 1)).unflatten(0, q.shape[:2]))

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:  # type: ignore[override]
        q, k, v, p, w, kept = ctx.saved_tensors  # type: ignore[attr-defined]
        keys: int = ctx.keys  # type: ignore[attr-defined]
        d_out = filled_up(gradients[0], q.size(2)).flatten(0, 1)
        d_v = torch.bmm(w.flatten(0, 1).mT, d_out).view_as(v)
        d_w = torch.bmm(d_out, v.flatten(0, 1).mT).view_as(p)
        if kept is not None:
            d_w = scale_kept(d_w, kept, ctx.dropped)  # type: ignore[attr-defined]
        d_scores = torch.ops.aten._softmax_backward_data(d_w.float(), p, -1, torch.float32).to(q.dtype).flatten(0, 1)
        d_q = torch.bmm(d_scores, k.flatten(0, 1)).view_as(q).mul_(q.size(-1) ** -0.5)
        d_k = torch.bmm(d_scores.mT, q.flatten(0, 1)).view_as(k)  # q already holds 1 / sqrt(head_dim)
        return heads_inside(d_q), heads_inside(d_k[:, :, :keys]), heads_inside(d_v[:, :, :keys]), None, None


def filled_up(x: Float[Tensor, "batch heads time head_dim"], room: int) -> Float[Tensor, "batch heads room head_dim"]:
    """A copy that is contiguous, with zeros after the last time step."""
    batch, heads, time, head_dim = x.shape
    copy = x.new_empty(batch, heads, room, head_dim)
    copy[:, :, :time] = x
    copy[:, :, time:] = 0
    return copy


def heads_inside(x: Float[Tensor, "batch heads time head_dim"]) -> Float[Tensor, "batch heads time head_dim"]:
    """A copy that lies in memory as (batch, time, heads, head_dim)."""
    batch, heads, time, head_dim = x.shape
    return x.new_empty(batch, time, heads, head_dim).transpose(1, 2).copy_(x)


def score_bias(allowed_mask: Bool[Tensor, "#batch #heads #query key"], room: int) -> Float[Tensor, "#b #h #q room"]:
    """0 where attention is allowed, the lowest finite number elsewhere and on what fills the keys up."""
    bias = torch.full((*allowed_mask.shape[:-1], room), torch.finfo(torch.float32).min)
    bias[..., : allowed_mask.size(-1)].masked_fill_(allowed_mask, 0.0)
    return bias


class MultiHeadAttention(nn.Module):
    """Attention in `num_heads` subspaces of model_dim / num_heads dimensions each (section 3.2.2).

    The module does three things, so that a decoder can keep what does not change: `project_memory` turns what is looked
    at into keys and values, `project_query` turns what looks into queries, `combine` attends and mixes the heads.

    With `rotary` the queries and keys also say where they stand, which makes sense in self-attention only.
    """

    def __init__(self, model_dim: int, num_heads: int, *, dropout: float = 0.0, rotary: bool = False) -> None:
        super().__init__()
        if model_dim % num_heads:
            raise ValueError(f"num_heads = {num_heads} must divide model_dim = {model_dim}")
        self.num_heads = num_heads
        self.query = Linear(model_dim, model_dim)
        self.key_value = Linear(model_dim, 2 * model_dim)  # drawn as one, so sqrt(2/3) of what two would begin with
        self.output = Linear(model_dim, model_dim)
        self.dropout = Dropout(dropout)
        self.rotary = RotaryPositions(model_dim // num_heads) if rotary else None

    def forward(
        self,
        x: Float[Tensor, "batch query model"],
        memory: Float[Tensor, "batch key model"],
        allowed_mask: Bool[Tensor, "#batch 1 #query key"] | None = None,
    ) -> Float[Tensor, "batch query model"]:
        return self.combine(self.project_query(x), *self.project_memory(memory), allowed_mask)

    def project_query(
        self, x: Float[Tensor, "batch query model"], offset: int = 0
    ) -> Float[Tensor, "batch heads query head_dim"]:
        """Position `offset` is that of x's first time step; only rotary positions ask."""
        query = self.query(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        return query if self.rotary is None else self.rotary(query, offset)

    def project_memory(
        self, memory: Float[Tensor, "batch key model"], offset: int = 0
    ) -> tuple[Float[Tensor, "batch heads key head_dim"], Float[Tensor, "batch heads key head_dim"]]:
        both = self.key_value(memory).chunk(2, dim=-1)
        key, value = (each.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for each in both)
        return (key if self.rotary is None else self.rotary(key, offset)), value

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
        """Whichever of the three forms is fastest here; see `bench/attention.py` and its results."""
        dropout = self.dropout.probability if self.training else 0.0
        if query.device.type != "cpu":
            return attend_fused(query, key, value, allowed_mask, dropout)
        precision = query.dtype if self.training else precision_of_attention(query)
        inputs = (query.to(precision), key.to(precision), value.to(precision), allowed_mask)
        is_long = query.size(2) > 1
        attended = attend_short(*inputs, dropout) if is_long else attend_explicit(*inputs, self.dropout)
        return attended.to(query.dtype)

    def step(self, x: Float[Tensor, "rows 1 model"], cache: KeyValueCache) -> Float[Tensor, "rows 1 model"]:
        """Self-attention of one new position over itself and all before it, whose keys and values are cached."""
        query = self.project_query(x, cache.length)
        return self.combine(query, *cache.append(*self.project_memory(x, cache.length)))
