"""A Transformer laid out for search: one new position of many hypotheses at a time, as fast as the machine allows.

What is computed stands in `Transformer.encode` and `TransformerState` (transformer.py), layer by layer as one reads it;
tests prove both equal. Here the same is arranged otherwise:

    weights     in the precision of the pass and in blocks, made once (`Transformer.repack`); one product makes query,
                key and value
    own keys    never move. A beam's hypotheses change parents at every step, so the keys of all places of a sentence
                stand side by side, and each hypothesis sees those of its ancestors alone. Three queries on three times
                as many keys read no more memory than three times one query on its own keys, and nothing is copied
    beginnings  are alike: at first a sentence has one hypothesis, however many there will be
    vectors     the products of attention are small, and on a CPU bf16 makes them slower: queries, keys, values and
                soft-max are fp32 there, the keys filled up to a multiple of LANES (layers/attention.py)
    sentences   that are finished leave the products with weights at once, the keys only when a quarter is gone
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from weft.layers.attention import LANES, MultiHeadAttention, precision_of_attention
from weft.layers.masks import padding_mask
from weft.layers.packed_linear import PackedLinear
from weft.layers.positions import RotaryPositions
from weft.models.transformer import DecoderLayer, EncoderLayer, Residual, Transformer

KEPT_SHARE = 0.75
"""Of the sentences that hold keys, how many must still be searched for the keys to stay where they are."""
GROWTH = 16
"""Positions that room is made for at a time."""


class TransformerSession:
    """A step function over one batch: row r writes a hypothesis for sentence r // rows_per_sentence."""

    def __init__(self, model: Transformer, source: Int[Tensor, "batch source"], rows_per_sentence: int) -> None:
        self.model = model
        self.beam = rows_per_sentence
        self.length = 0
        self.packed = packed(model)
        mask = padding_mask(source, model.padding_id)[:, 0, 0]
        embedded = model._embed(model.source_embedding, model.source_positions, source)
        self.keys = Keys(self.packed, self.packed.encode(embedded, mask), mask, self.beam)
        # Of each hypothesis, in which place of its beam each of its pieces was written.
        self.ancestors = torch.zeros(len(source), self.beam, 0, dtype=torch.long, device=source.device)
        self.places = torch.arange(self.beam, device=source.device)

    def step(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        """Log-probabilities (fp32) of the token that follows `tokens`, the newest token of every row; at first all rows
        of a sentence have the same."""
        model, alike = self.model, self.beam if self.length == 0 else 1
        newest = tokens[::alike, None]
        x = model._embed(model.target_embedding, model.target_positions, newest, offset=self.length).squeeze(1)
        here = (self.places if alike == 1 else torch.zeros_like(self.places)).expand(len(self.ancestors), -1)
        self.ancestors = torch.cat([self.ancestors, here[:, :, None]], dim=2)
        self.keys.open_position(self.length, self.ancestors[:, ::alike])
        for number, layer in enumerate(self.packed.decoder):
            x = layer(x, number, self.keys, self.length)
        self.length += 1
        log_probs = F.log_softmax(self.packed.score(x).float(), dim=-1)
        return log_probs if alike == 1 else log_probs.repeat_interleave(alike, dim=0)

    def reorder(self, rows: Int[Tensor, " new_rows"]) -> None:
        """Row i goes on from what row rows[i] was. Rows stay with their sentence; sentences may be left out."""
        of_sentence = rows.view(-1, self.beam)
        sentences, parents = of_sentence[:, 0] // self.beam, of_sentence % self.beam
        if len(sentences) < len(self.ancestors):
            self.ancestors = self.ancestors[sentences]
            self.keys.keep(sentences)
        if self.beam > 1:
            self.ancestors = self.ancestors.gather(1, parents[:, :, None].expand(-1, -1, self.length))

    def source_mask(self) -> Bool[Tensor, "sentences source"]:
        """Which source tokens of each sentence are no padding; </s> counts as one."""
        return self.keys.source_mask

    def source_attention(self) -> Float[Tensor, "rows source"]:
        """Where each row looked in the last step: the mean over the heads of the last layer."""
        weights, looking = self.keys.looked_at, self.keys.looking
        weights = weights if looking is None else weights[looking]
        looked_at = weights[:, :, :, : self.keys.source_mask.size(1)].mean(1)
        return looked_at.expand(-1, self.beam, -1).flatten(0, 1)


class Keys:
    """Keys and values of all layers: those of the source, and those of what was written.

    Tensors of the sentences that hold keys are larger than those of the sentences in the search, which stand at `at`.
    """

    def __init__(
        self,
        packed: "Packed",
        memory: Float[Tensor, "batch source model"],
        mask: Bool[Tensor, "batch source"],
        beam: int,
    ) -> None:
        self.heads, self.beam = packed.num_heads, beam
        self.dtype = precision_of_attention(memory)
        self.at: Int[Tensor, " sentences"] | None = None  # None where these are all that hold keys
        self.holding = len(memory)
        self.head_dim = memory.size(-1) // self.heads
        self.source_mask = mask
        room = filled_up(memory.size(1))
        # Of each layer (2, sentences, heads, room, head_dim): layers of their own can be replaced one after the other.
        self.source: list[Tensor] = []
        self.own: list[Tensor] = []
        of_layers = packed.source_key_value(memory).unflatten(-1, (len(packed.decoder), 2, self.heads, -1)).unbind(2)
        for of_layer in of_layers:
            empty = memory.new_zeros(2, len(memory), self.heads, room, self.head_dim, dtype=self.dtype)
            empty[:, :, :, : memory.size(1)] = of_layer.permute(2, 0, 3, 1, 4)
            self.source.append(empty)
            self.own.append(empty[:, :, :, :0])
        self.source_bias = bias_of(F.pad(mask, (0, room - mask.size(1))), self.dtype)[:, None, None]
        self.own_bias = self.source_bias
        self.looked_at, self.looking = self.source_bias, self.at

    @property
    def searched(self) -> int:
        """Sentences in the search."""
        return len(self.source_mask)

    def open_position(self, time: int, ancestors: Int[Tensor, "sentences hypotheses time"]) -> None:
        """Make room for one position more, and let every hypothesis see its ancestors'."""
        if self.own[0].size(3) < (time + 1) * self.beam:
            more = filled_up(GROWTH * self.beam)
            for layer, own in enumerate(self.own):
                self.own[layer] = F.pad(own, (0, 0, 0, more))
        room = filled_up((time + 1) * self.beam)
        slots = torch.arange(time + 1, device=ancestors.device) * self.beam + ancestors
        sees = torch.zeros(*ancestors.shape[:2], room, dtype=torch.bool, device=ancestors.device).scatter_(
            2, slots, True
        )
        self.own_bias = self.spread(bias_of(sees, self.dtype))[:, None]

    def append(self, layer: int, time: int, new: Float[Tensor, "sentences hypotheses 2 heads head_dim"]) -> None:
        """Keys and values of the newest position of every hypothesis."""
        slots = slice(time * self.beam, time * self.beam + new.size(1))
        of_heads = new.permute(2, 0, 3, 1, 4)  # (2, sentences, heads, hypotheses, head_dim)
        if self.at is None:
            self.own[layer][:, :, :, slots] = of_heads
        else:
            self.own[layer][:, self.at, :, slots] = of_heads.to(self.dtype)

    def attend_to_own(
        self, layer: int, query: Float[Tensor, "sentences hypotheses heads head_dim"]
    ) -> Float[Tensor, "sentences hypotheses model"]:
        room = self.own_bias.size(-1)
        key, value = self.own[layer][:, :, :, :room]
        return self.attend(query, key, value, self.own_bias)[0]

    def attend_to_source(
        self, layer: int, query: Float[Tensor, "sentences hypotheses heads head_dim"]
    ) -> Float[Tensor, "sentences hypotheses model"]:
        key, value = self.source[layer]
        attended, self.looked_at = self.attend(query, key, value, self.source_bias)
        self.looking = self.at
        return attended

    def attend(
        self,
        query: Float[Tensor, "sentences hypotheses heads head_dim"],
        key: Float[Tensor, "holding heads room head_dim"],
        value: Float[Tensor, "holding heads room head_dim"],
        bias: Float[Tensor, "holding 1 #hypotheses room"],
    ) -> tuple[Float[Tensor, "sentences hypotheses model"], Float[Tensor, "holding heads hypotheses room"]]:
        """Attention of the sentences in the search, and its weights for all that hold keys."""
        of_heads = self.spread(query).transpose(1, 2).to(self.dtype, memory_format=torch.contiguous_format)
        attended, weights = attend(of_heads, key, value, bias)
        if self.at is not None:
            attended = attended[self.at]
        return attended.transpose(1, 2).to(query.dtype, memory_format=torch.contiguous_format).flatten(2), weights

    def spread(self, x: Float[Tensor, "sentences ..."]) -> Float[Tensor, "holding ..."]:
        """With rows of zeros for the sentences that hold keys and are searched no more."""
        if self.at is None:
            return x
        return x.new_zeros(self.holding, *x.shape[1:]).index_copy_(0, self.at, x)

    def keep(self, sentences: Int[Tensor, " kept"]) -> None:
        """Go on with these of the sentences in the search."""
        self.source_mask = self.source_mask[sentences]
        self.at = sentences if self.at is None else self.at[sentences]
        if len(self.at) < KEPT_SHARE * self.holding:
            for keys in (self.source, self.own):
                for layer, of_layer in enumerate(keys):
                    keys[layer] = of_layer.index_select(1, self.at)
            self.source_bias = self.source_bias[self.at]
            self.holding, self.at = len(self.at), None


def attend(
    query: Float[Tensor, "batch heads query head_dim"],
    key: Float[Tensor, "batch heads room head_dim"],
    value: Float[Tensor, "batch heads room head_dim"],
    bias: Float[Tensor, "batch 1 #query room"],
) -> tuple[Float[Tensor, "batch heads query head_dim"], Float[Tensor, "batch heads query room"]]:
    """`attend_explicit` with the mask as numbers to add (`bias_of`), and the weights beside."""
    scores = (query * query.size(-1) ** -0.5) @ key.mT
    weights = scores.add_(bias).softmax(-1)
    return weights @ value, weights


def filled_up(length: int) -> int:
    return -(-length // LANES) * LANES


def bias_of(allowed_mask: Bool[Tensor, "*shape"], dtype: torch.dtype) -> Float[Tensor, "*shape"]:
    """0 where attention is allowed, the lowest finite number elsewhere."""
    bias = torch.full(allowed_mask.shape, torch.finfo(dtype).min, dtype=dtype, device=allowed_mask.device)
    return bias.masked_fill_(allowed_mask, 0.0)


# Weights


@dataclass(frozen=True)
class PackedSublayer:
    """What stands around a sublayer: x + sublayer(norm(x)), or norm(x + sublayer(x))."""

    norm: nn.Module
    norm_first: bool

    @classmethod
    def of(cls, residual: Residual) -> "PackedSublayer":
        return cls(residual.norm, residual.norm_first)

    def before(self, x: Float[Tensor, "*rows model"]) -> Float[Tensor, "*rows model"]:
        return self.norm(x) if self.norm_first else x

    def after(
        self, x: Float[Tensor, "*rows model"], added: Float[Tensor, "*rows model"]
    ) -> Float[Tensor, "*rows model"]:
        return x + added if self.norm_first else self.norm(x + added)


@dataclass(frozen=True)
class PackedFeedForward:
    around: PackedSublayer
    widen: PackedLinear
    narrow: PackedLinear
    activate: Callable[[Tensor], Tensor]

    @classmethod
    def of(cls, layer: EncoderLayer | DecoderLayer, dtype: torch.dtype) -> "PackedFeedForward":
        inner = layer.feed_forward
        return cls(
            PackedSublayer.of(layer.feed_forward_residual),
            PackedLinear.of([inner.widen], dtype),
            PackedLinear.of([inner.narrow], dtype),
            inner.activate,
        )

    def __call__(self, x: Float[Tensor, "*rows model"]) -> Float[Tensor, "*rows model"]:
        return self.around.after(x, self.narrow(self.activate(self.widen(self.around.before(x)))))


@dataclass(frozen=True)
class PackedSelfAttention:
    around: PackedSublayer
    num_heads: int
    query_key_value: PackedLinear
    output: PackedLinear
    rotary: RotaryPositions | None

    @classmethod
    def of(cls, attention: MultiHeadAttention, residual: Residual, dtype: torch.dtype) -> "PackedSelfAttention":
        return cls(
            PackedSublayer.of(residual),
            attention.num_heads,
            PackedLinear.of([attention.query, attention.key_value], dtype),
            PackedLinear.of([attention.output], dtype),
            attention.rotary,
        )

    def project(
        self, x: Float[Tensor, "batch time model"], offset: int = 0
    ) -> tuple[Float[Tensor, "batch time heads head_dim"], ...]:
        """Query, key and value; position `offset` is that of x's first time step."""
        three = self.query_key_value(self.around.before(x)).unflatten(-1, (3, self.num_heads, -1))
        query, key, value = three.unbind(2)
        if self.rotary is not None:
            query, key = (self.rotary(each.transpose(1, 2), offset).transpose(1, 2) for each in (query, key))
        return query, key, value

    def over_source(
        self, x: Float[Tensor, "batch source model"], bias: Float[Tensor, "batch 1 1 room"]
    ) -> Float[Tensor, "batch source model"]:
        query, key, value = (each.transpose(1, 2).to(bias.dtype) for each in self.project(x))
        more = bias.size(-1) - x.size(1)
        attended, _ = attend(query, F.pad(key, (0, 0, 0, more)), F.pad(value, (0, 0, 0, more)), bias)
        return self.around.after(x, self.output(attended.transpose(1, 2).flatten(2).to(x.dtype)))

    def over_written(
        self, x: Float[Tensor, "rows model"], number: int, keys: Keys, time: int
    ) -> Float[Tensor, "rows model"]:
        """Of the newest position of every hypothesis; `number` is the layer's."""
        query, key, value = self.project(x[:, None], time)  # each (rows, 1, heads, head_dim)
        keys.append(number, time, torch.cat([key, value], dim=1).unflatten(0, (keys.searched, -1)))
        attended = keys.attend_to_own(number, query[:, 0].unflatten(0, (keys.searched, -1)))
        return self.around.after(x, self.output(attended.flatten(0, 1)))


@dataclass(frozen=True)
class PackedDecoderLayer:
    own: PackedSelfAttention
    around: PackedSublayer
    source_query: PackedLinear
    source_output: PackedLinear
    feed_forward: PackedFeedForward

    @classmethod
    def of(cls, layer: DecoderLayer, dtype: torch.dtype) -> "PackedDecoderLayer":
        return cls(
            own=PackedSelfAttention.of(layer.self_attention, layer.self_attention_residual, dtype),
            around=PackedSublayer.of(layer.cross_attention_residual),
            source_query=PackedLinear.of([layer.cross_attention.query], dtype),
            source_output=PackedLinear.of([layer.cross_attention.output], dtype),
            feed_forward=PackedFeedForward.of(layer, dtype),
        )

    def __call__(
        self, x: Float[Tensor, "rows model"], number: int, keys: Keys, time: int
    ) -> Float[Tensor, "rows model"]:
        x = self.own.over_written(x, number, keys, time)
        query = self.source_query(self.around.before(x)).view(keys.searched, -1, self.own.num_heads, keys.head_dim)
        attended = keys.attend_to_source(number, query)
        x = self.around.after(x, self.source_output(attended.flatten(0, 1)))
        return self.feed_forward(x)


class Packed:
    """All that a pass multiplies by."""

    def __init__(self, model: Transformer, dtype: torch.dtype) -> None:
        encoder = cast("list[EncoderLayer]", list(model.encoder))  # nn.ModuleList forgets what it holds
        decoder = cast("list[DecoderLayer]", list(model.decoder))
        self.dtype = dtype
        self.num_heads = model.config.num_heads
        self.encoder = [
            (
                PackedSelfAttention.of(layer.attention, layer.attention_residual, dtype),
                PackedFeedForward.of(layer, dtype),
            )
            for layer in encoder
        ]
        self.encoder_norm = model.encoder_norm
        # Of all layers at once: nothing that is written changes what they make of the source.
        self.source_key_value = PackedLinear.of([layer.cross_attention.key_value for layer in decoder], dtype)
        self.decoder = [PackedDecoderLayer.of(layer, dtype) for layer in decoder]
        self.decoder_norm = model.decoder_norm
        self.output = PackedLinear.of([model.output], dtype)

    def encode(
        self, x: Float[Tensor, "batch source model"], mask: Bool[Tensor, "batch source"]
    ) -> Float[Tensor, "batch source model"]:
        more = filled_up(mask.size(1)) - mask.size(1)
        bias = bias_of(F.pad(mask, (0, more)), precision_of_attention(x))[:, None, None]
        for attention, feed_forward in self.encoder:
            x = feed_forward(attention.over_source(x, bias))
        return self.encoder_norm(x)

    def score(self, x: Float[Tensor, "rows model"]) -> Float[Tensor, "rows vocab"]:
        return self.output(self.decoder_norm(x))


def packed(model: Transformer) -> Packed:
    """The model's weights for a pass in its precision, packed where they are not yet."""
    kept = model.packed  # read once: another thread may exchange it
    if kept is None or kept.dtype != model.compute_dtype:
        with torch.inference_mode(False), torch.no_grad():  # what is made in inference mode serves nowhere else
            kept = model.packed = Packed(model, model.compute_dtype)
    return kept
