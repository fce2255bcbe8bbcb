"""Attention for short sentences on a CPU: `attend_explicit` (layers/attention.py), laid out for vector units.

attend_short         forward and backward, for training; equal by
                     tests/layers/test_attention.py::test_every_form_is_explicit_attention_in_values_and_gradients
attend_with_bias     forward alone, for search; equal by tests/models/test_transformer_session.py
round_up, mask_bias  both fill the keys up to a multiple of LANES
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

from weft.layers.fast.byte_dropout import dropped_values, kept_mask, scale_kept

LANES = 16
"""fp32 numbers that a vector unit takes at once. A soft-max over 13 keys takes six times as long as one over 16."""


def attend_short(
    query: Float[Tensor, "batch heads query head_dim"],
    key: Float[Tensor, "batch heads key head_dim"],
    value: Float[Tensor, "batch heads key head_dim"],
    allowed_mask: Bool[Tensor, "#batch #heads #query key"] | None = None,
    dropout: float = 0.0,
) -> Float[Tensor, "batch heads query head_dim"]:
    """Attention with dropout of its weights; the probability is rounded to a 256th (byte_dropout.py)."""
    if allowed_mask is None:
        allowed_mask = torch.ones(1, 1, 1, key.size(2), dtype=torch.bool)
    return ShortAttention.apply(query, key, value, allowed_mask, dropped_values(dropout))


def attend_with_bias(
    query: Float[Tensor, "batch heads query head_dim"],
    key: Float[Tensor, "batch heads room head_dim"],
    value: Float[Tensor, "batch heads room head_dim"],
    bias: Float[Tensor, "batch 1 #query room"],
) -> tuple[Float[Tensor, "batch heads query head_dim"], Float[Tensor, "batch heads query room"]]:
    """What was attended to, and the weights, without gradients; `bias` is the mask as `mask_bias` gives it."""
    scores = (query * query.size(-1) ** -0.5) @ key.mT
    weights = scores.add_(bias).softmax(-1)
    return weights @ value, weights


def round_up(length: int) -> int:
    """The next multiple of LANES."""
    return -(-length // LANES) * LANES


def mask_bias(
    allowed_mask: Bool[Tensor, "*rows key"], room: int, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "*rows room"]:
    """What is added to scores over `room` keys: 0 where attention is allowed, else the lowest finite number."""
    lowest = torch.finfo(dtype).min
    bias = torch.full((*allowed_mask.shape[:-1], room), lowest, dtype=dtype, device=allowed_mask.device)
    bias[..., : allowed_mask.size(-1)].masked_fill_(allowed_mask, 0.0)
    return bias


class ShortAttention(torch.autograd.Function):
    """Attention with the keys filled up to a multiple of LANES, a soft-max in fp32, and its gradient by hand.

    With W the dropped weights, P those before dropout and S the scores: O = W V and S = Q K^T / sqrt(head_dim), so
    dV = W^T dO, dW = dO V^T, dS = P * (dP - sum(dP * P)), dQ = dS K / sqrt(head_dim), dK = dS^T Q / sqrt(head_dim).
    Inputs and outputs lie in memory as the projections want them, (batch, time, heads, head_dim), so that nothing is
    copied twice.
    """

    @staticmethod
    def forward(
        ctx: FunctionCtx, query: Tensor, key: Tensor, value: Tensor, allowed_mask: Tensor, dropped: int
    ) -> Tensor:
        allowed_mask = allowed_mask.expand(*allowed_mask.shape[:-1], key.size(2))  # an error for another number of keys
        q = pad_time(query, query.size(2)).mul_(query.size(-1) ** -0.5)
        room = round_up(key.size(2))
        k, v = pad_time(key, room), pad_time(value, room)
        scores = torch.bmm(q.flatten(0, 1), k.flatten(0, 1).mT).to(torch.promote_types(q.dtype, torch.float32))
        p = scores.view(*q.shape[:3], room).add_(mask_bias(allowed_mask, room)).softmax(-1)
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
        d_out = pad_time(gradients[0], q.size(2)).flatten(0, 1)
        d_v = torch.bmm(w.flatten(0, 1).mT, d_out).view_as(v)
        d_w = torch.bmm(d_out, v.flatten(0, 1).mT).view_as(p)
        if kept is not None:
            d_w = scale_kept(d_w, kept, ctx.dropped)  # type: ignore[attr-defined]
        d_scores = torch.ops.aten._softmax_backward_data(d_w.to(p.dtype), p, -1, p.dtype).to(q.dtype).flatten(0, 1)
        d_q = torch.bmm(d_scores, k.flatten(0, 1)).view_as(q).mul_(q.size(-1) ** -0.5)
        d_k = torch.bmm(d_scores.mT, q.flatten(0, 1)).view_as(k)  # q already holds 1 / sqrt(head_dim)
        return heads_inside(d_q), heads_inside(d_k[:, :, :keys]), heads_inside(d_v[:, :, :keys]), None, None


def pad_time(x: Float[Tensor, "batch heads time head_dim"], room: int) -> Float[Tensor, "batch heads room head_dim"]:
    """A contiguous copy with zeros after the last time step."""
    batch, heads, time, head_dim = x.shape
    copy = x.new_empty(batch, heads, room, head_dim)
    copy[:, :, :time] = x
    copy[:, :, time:] = 0
    return copy


def heads_inside(x: Float[Tensor, "batch heads time head_dim"]) -> Float[Tensor, "batch heads time head_dim"]:
    """A copy that lies in memory as (batch, time, heads, head_dim)."""
    batch, heads, time, head_dim = x.shape
    return x.new_empty(batch, time, heads, head_dim).transpose(1, 2).copy_(x)
