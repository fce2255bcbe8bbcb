"""Attention of a recurrent decoder to the source, by one of four scores of a query q and a vector of the source m:

    dot             q^T m                           (Luong et al. 2015, equation 8)
    scaled          q^T m / sqrt(width)             (Vaswani et al. 2017)
    multiplicative  q^T W m                         (Luong's general score)
    additive        v^T tanh(W_q q + W_m m)         (Bahdanau et al. 2015)

The weights are the soft-max of the scores over the tokens of the source, in fp32; padding gets exactly none. With
`coverage` a learned share of the attention that a token has had before is added to its score (See et al. 2017,
equation 11, with one number for their vector).
"""

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from weft.layers.fast.additive_score import additive_scores, raised
from weft.layers.fast.deferred_product import Deferred
from weft.layers.linear import Linear


@dataclass(frozen=True)
class Attended:
    """The vectors of the source as queries meet them: projected once. Without gradients they are at least in fp32.

    To be used with gradients or without them, as it was prepared.
    """

    keys: Float[Tensor, "sentences source width"]
    values: Float[Tensor, "sentences source memory"]
    mask: Bool[Tensor, "sentences source"]
    is_raised: bool = False
    """Whether the keys are exponentials (layers/fast/additive_score.py)."""

    @cached_property
    def score(self) -> Deferred:
        """Products with the keys."""
        return Deferred(self.keys)

    @cached_property
    def mix(self) -> Deferred:
        """Products with the values."""
        return Deferred(self.values.mT)

    def of_sentences(self, sentences: Int[Tensor, " kept"]) -> "Attended":
        """The attended positions of these sentences alone."""
        keys, values, mask = (each.index_select(0, sentences) for each in (self.keys, self.values, self.mask))
        return Attended(keys, values, mask, self.is_raised)


class SourceAttention(nn.Module):
    def __init__(self, score: str, width: int, memory_width: int, *, coverage: bool = False) -> None:
        super().__init__()
        if score in ("dot", "scaled") and width != memory_width:
            raise ValueError(f"{score} attention needs queries as wide as the memory; {width} is not {memory_width}")
        self.score, self.scale = score, 1 / math.sqrt(width) if score == "scaled" else 1.0
        self.key = Linear(memory_width, width, bias=False) if score in ("multiplicative", "additive") else None
        self.query = Linear(width, width) if score == "additive" else None
        self.weight = Linear(width, 1, bias=False) if score == "additive" else None
        self.coverage = nn.Parameter(torch.zeros(1)) if coverage else None

    def prepare(
        self, memory: Float[Tensor, "sentences source memory"], mask: Bool[Tensor, "sentences source"]
    ) -> Attended:
        keys = memory if self.key is None else self.key(memory)
        if torch.is_grad_enabled():
            return Attended(keys, memory, mask)
        values, is_additive = wide(memory), self.query is not None
        keys = values if self.key is None else wide(keys)
        return Attended(raised(keys) if is_additive else keys, values, mask, is_additive)

    def forward(
        self,
        query: Float[Tensor, "sentences rows width"],
        source: Attended,
        covered: Float[Tensor, "sentences rows source"] | None = None,
    ) -> tuple[Float[Tensor, "sentences rows memory"], Float[Tensor, "sentences rows source"]]:
        """What is attended to, and the weights; `covered` is the attention that the tokens had before."""
        if self.query is None or self.weight is None:
            scores = self.scale * wide(source.score(query.to(source.keys.dtype)))
        elif source.is_raised:
            scores = additive_scores(self.query(query), source.keys, self.weight.weight)
        else:
            # In place: this is the largest tensor of a step.
            together = (self.query(query)[:, :, None] + source.keys[:, None]).tanh_()
            scores = wide(self.weight(together).squeeze(-1))
        if self.coverage is not None and covered is not None:
            scores = scores + self.coverage * covered
        # The lowest finite number, so that a row without a token is not NaN.
        lowest = torch.finfo(scores.dtype).min
        weights = scores.masked_fill(~source.mask[:, None], lowest).softmax(-1)
        return source.mix(weights.to(source.values.dtype)).to(query.dtype), weights


def wide(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """In fp32, or in float64 as they are."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
