"""A Transformer laid out for search: one new position of many hypotheses at a time, as fast as the machine allows.

It computes what `Transformer.encode` and `TransformerState` (stepping.py) do; tests/models/test_transformer_session.py
proves them equal. What is arranged otherwise:

    weights     are packed once, in the precision of the pass and in blocks (`Transformer.repack`); one product makes
                query, key and value
    own keys    never move. A beam's hypotheses change parents at every step, so the keys of all places of a sentence
                lie side by side, and each hypothesis attends to those of its ancestors alone. Three queries on three
                times as many keys read no more memory than three times one query on its own keys, and nothing is copied
    beginnings  are equal: at first a sentence has one hypothesis, however many there will be
    attention   consists of small products, which bf16 makes slower on a CPU: queries, keys, values and soft-max are
                fp32 there, the keys filled up to a multiple of LANES (layers/fast/short_attention.py)
    sentences   that are finished leave the products with weights at once, the cache only when a quarter is gone
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from weft.layers.attention import MultiHeadAttention, precision_of_attention
from weft.layers.embedding import TokenEmbedding
from weft.layers.fast.packed_linear import PackedLinear
from weft.layers.fast.short_attention import attend_with_bias, mask_bias, round_up
from weft.layers.feed_forward import FeedForward
from weft.layers.masks import padding_mask
from weft.layers.positions import LearnedPositions, RotaryPositions, SinusoidalPositions
from weft.layers.residual import Residual

KEPT_SHARE = 0.75
"""Share of the stored sentences that must be active for the cache to stay as it is."""
GROWTH = 16
"""Positions by which the cache grows at a time."""


class TransformerSession:
    """A step function over one batch: row r writes a hypothesis for sentence r // rows_per_sentence."""

    def __init__(
        self, packed: "PackedTransformer", source: Int[Tensor, "batch source"], rows_per_sentence: int
    ) -> None:
        self.packed = packed
        self.beam = rows_per_sentence
        self.length = 0
        mask = padding_mask(source, packed.padding_id)[:, 0, 0]
        own_heads = [layer.self_attention.num_heads for layer in packed.decoder]
        self.cache = BeamCache(packed.encode(source, mask), mask, self.beam, own_heads)
        # For each hypothesis and position, the place in the beam where its piece was written.
        self.ancestors = torch.zeros(len(source), self.beam, 0, dtype=torch.long, device=source.device)
        self.places = torch.arange(self.beam, device=source.device)

    def step(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        """Take the newest token of every row, return log-probabilities (fp32) of the one that follows."""
        copies = self.beam if self.length == 0 else 1  # at first all rows of a sentence are the same
        x = self.packed.embed_target(tokens[::copies, None], self.length).squeeze(1)
        place = (self.places if copies == 1 else torch.zeros_like(self.places)).expand(len(self.ancestors), -1)
        self.ancestors = torch.cat([self.ancestors, place[:, :, None]], dim=2)
        self.cache.open_position(self.length, self.ancestors[:, ::copies])
        for number, layer in enumerate(self.packed.decoder):
            x = layer.step(x, number, self.cache)
        self.length += 1
        log_probs = F.log_softmax(self.packed.output(self.packed.decoder_norm(x)).float(), dim=-1)
        return log_probs if copies == 1 else log_probs.repeat_interleave(copies, dim=0)

    def reorder(self, rows: Int[Tensor, " new_rows"]) -> None:
        """Let row i continue what row rows[i] was. Rows stay with their sentence; sentences may be left out."""
        of_sentence = rows.view(-1, self.beam)
        sentences, parents = of_sentence[:, 0] // self.beam, of_sentence % self.beam
        if len(sentences) < len(self.ancestors):
            self.ancestors = self.ancestors[sentences]
            self.cache.keep(sentences)
        if self.beam > 1:
            self.ancestors = self.ancestors.gather(1, parents[:, :, None].expand(-1, -1, self.length))

    def source_mask(self) -> Bool[Tensor, "sentences source"]:
        """True at the source tokens of each sentence, </s> included, False at padding."""
        return self.cache.source_mask

    def source_attention(self) -> Float[Tensor, "rows source"]:
        """Attention of each row to the source in the last step: the mean over the heads of the last layer."""
        weights, active = self.cache.cross_weights, self.cache.cross_active
        weights = weights if active is None else weights[active]
        weights = weights[:, :, :, : self.cache.source_mask.size(1)].mean(1)
        return weights.expand(-1, self.beam, -1).flatten(0, 1)


class BeamCache:
    """Keys and values of all layers: those of the source, and those of the target positions so far.

    It stores `stored` sentences, of which only those at the indices `active` may still be searched (None: all).
    """

    def __init__(
        self,
        key_value: Sequence[Float[Tensor, "batch source 2 _ head_dim"]],
        mask: Bool[Tensor, "batch source"],
        beam: int,
        own_heads: Sequence[int],
    ) -> None:
        """`key_value` and `own_heads` are of each decoder layer: what it attends to in the source, and the heads of its
        self-attention."""
        self.beam = beam
        self.dtype = precision_of_attention(key_value[0])
        self.stored = self.searched = len(mask)
        self.active: Int[Tensor, " sentences"] | None = None
        self.source_mask = mask
        self.length = 0
        room = round_up(mask.size(1))
        # (2, sentences, heads, room, head_dim) for each layer; apart, so that one can be replaced while others stay.
        self.source: list[Tensor] = []
        self.own: list[Tensor] = []
        for of_layer, own in zip(key_value, own_heads, strict=True):
            heads, head_dim = of_layer.shape[-2:]
            both = of_layer.new_zeros(2, len(mask), heads, room, head_dim, dtype=self.dtype)
            both[:, :, :, : mask.size(1)] = of_layer.permute(2, 0, 3, 1, 4)
            self.source.append(both)
            self.own.append(both.new_zeros(2, len(mask), own, 0, head_dim))
        self.source_bias = mask_bias(mask, room, self.dtype)[:, None, None]
        self.own_bias = self.source_bias
        self.cross_weights, self.cross_active = self.source_bias, self.active
        """Attention of the last layer to the source in the last step, and what was active then."""

    def open_position(self, time: int, ancestors: Int[Tensor, "sentences hypotheses time"]) -> None:
        """Make room for position `time`, and let every hypothesis attend to its ancestors' positions."""
        self.length = time
        if self.own[0].size(3) < (time + 1) * self.beam:
            more = round_up(GROWTH * self.beam)
            for layer, own in enumerate(self.own):
                self.own[layer] = F.pad(own, (0, 0, 0, more))
        room = round_up((time + 1) * self.beam)
        slots = torch.arange(time + 1, device=ancestors.device) * self.beam + ancestors
        sees = torch.zeros(*ancestors.shape[:2], room, dtype=torch.bool, device=ancestors.device)
        bias = mask_bias(sees.scatter_(2, slots, True), room, self.dtype)
        self.own_bias = (bias if self.active is None else self.scatter_to_stored(bias))[:, None]

    def append(self, layer: int, key_value: Float[Tensor, "rows 2 heads head_dim"]) -> None:
        """Keys and values of the newest position of every hypothesis."""
        of_heads = key_value.unflatten(0, (self.searched, -1)).permute(2, 0, 3, 1, 4)
        begin = self.length * self.beam
        slots = slice(begin, begin + of_heads.size(3))
        if self.active is None:
            self.own[layer][:, :, :, slots] = of_heads
        else:
            self.own[layer][:, self.active, :, slots] = of_heads.to(self.dtype)

    def attend_to_own(self, layer: int, query: Float[Tensor, "rows heads head_dim"]) -> Float[Tensor, "rows model"]:
        return self.attend(query, self.own[layer][:, :, :, : self.own_bias.size(-1)], self.own_bias)[0]

    def attend_to_source(self, layer: int, query: Float[Tensor, "rows heads head_dim"]) -> Float[Tensor, "rows model"]:
        attended, self.cross_weights = self.attend(query, self.source[layer], self.source_bias)
        self.cross_active = self.active
        return attended

    def attend(
        self,
        query: Float[Tensor, "rows heads head_dim"],
        key_value: Float[Tensor, "2 stored heads room head_dim"],
        bias: Float[Tensor, "stored 1 #hypotheses room"],
    ) -> tuple[Float[Tensor, "rows model"], Float[Tensor, "stored heads hypotheses room"]]:
        """Attention of the rows of the active sentences, and its weights for all that are stored."""
        queries = query.unflatten(0, (self.searched, -1))  # (sentences, hypotheses, heads, head_dim)
        if self.active is not None:
            queries = self.scatter_to_stored(queries)
        of_heads = queries.transpose(1, 2).to(self.dtype, memory_format=torch.contiguous_format)
        attended, weights = attend_with_bias(of_heads, key_value[0], key_value[1], bias)
        if self.active is not None:
            attended = attended[self.active]
        attended = attended.transpose(1, 2).to(query.dtype, memory_format=torch.contiguous_format)
        return attended.flatten(2).flatten(0, 1), weights

    def scatter_to_stored(self, x: Float[Tensor, "sentences ..."]) -> Float[Tensor, "stored ..."]:
        """x of the active sentences, with zeros for the stored ones that are not active."""
        assert self.active is not None
        return x.new_zeros(self.stored, *x.shape[1:]).index_copy_(0, self.active, x)

    def keep(self, sentences: Int[Tensor, " kept"]) -> None:
        """Search only these of the active sentences from now on."""
        self.searched = len(sentences)
        self.source_mask = self.source_mask[sentences]
        self.active = sentences if self.active is None else self.active[sentences]
        if self.searched < KEPT_SHARE * self.stored:
            for keys in (self.source, self.own):
                for layer, of_layer in enumerate(keys):
                    keys[layer] = of_layer.index_select(1, self.active)
            self.source_bias = self.source_bias[self.active]
            self.stored, self.active = self.searched, None


# Packed weights. The model and its layers are those of transformer.py, which imports this module.


@dataclass(frozen=True)
class PackedTransformer:
    """Everything that a search multiplies by, in one precision: copies, which do not follow the model's weights."""

    dtype: torch.dtype
    padding_id: int
    embed_source: "PackedEmbedding"
    embed_target: "PackedEmbedding"
    encoder: "list[PackedEncoderLayer]"
    encoder_norm: nn.Module
    source_key_value: PackedLinear
    """The projections of all decoder layers as one: keys and values of the source are the same at every step."""
    decoder: "list[PackedDecoderLayer]"
    decoder_norm: nn.Module
    output: PackedLinear

    @classmethod
    @torch.inference_mode(False)  # what is made in inference mode cannot be used outside of it
    @torch.no_grad()
    def of(cls, model: Any, dtype: torch.dtype) -> "PackedTransformer":
        """Pack a Transformer."""
        return cls(
            dtype=dtype,
            padding_id=model.padding_id,
            embed_source=PackedEmbedding(model.source_embedding, model.source_positions, dtype),
            embed_target=PackedEmbedding(model.target_embedding, model.target_positions, dtype),
            encoder=[PackedEncoderLayer.of(layer, dtype) for layer in model.encoder],
            encoder_norm=model.encoder_norm,
            source_key_value=PackedLinear.of([layer.cross_attention.key_value for layer in model.decoder], dtype),
            decoder=[PackedDecoderLayer.of(layer, dtype) for layer in model.decoder],
            decoder_norm=model.decoder_norm,
            output=PackedLinear.of([model.output], dtype),
        )

    def encode(
        self, source: Int[Tensor, "batch source"], mask: Bool[Tensor, "batch source"]
    ) -> list[Float[Tensor, "batch source 2 _ head_dim"]]:
        """Keys and values of the source for every decoder layer, which may differ in their heads."""
        x = self.embed_source(source)
        bias = mask_bias(mask, round_up(mask.size(1)), precision_of_attention(x))[:, None, None]
        for layer in self.encoder:
            x = layer(x, bias)
        heads = [layer.cross_heads for layer in self.decoder]
        head_dim = self.decoder[0].self_attention.head_dim
        key_value = self.source_key_value(self.encoder_norm(x)).split([2 * head_dim * own for own in heads], -1)
        return [of.unflatten(-1, (2, own, head_dim)) for of, own in zip(key_value, heads, strict=True)]


@dataclass(frozen=True)
class PackedEmbedding:
    """Embeddings with their positions; no copies, for nothing is multiplied."""

    tokens: TokenEmbedding
    positions: SinusoidalPositions | LearnedPositions | None
    dtype: torch.dtype

    def __call__(self, tokens: Int[Tensor, "batch time"], offset: int = 0) -> Float[Tensor, "batch time model"]:
        x = self.tokens(tokens)
        if self.positions is not None:
            x = self.positions(x, offset)
        return x.to(self.dtype)


@dataclass(frozen=True)
class PackedEncoderLayer:
    attention: "PackedSelfAttention"
    attention_residual: "PackedResidual"
    feed_forward: "PackedFeedForward"
    feed_forward_residual: "PackedResidual"

    @classmethod
    def of(cls, layer: Any, dtype: torch.dtype) -> "PackedEncoderLayer":
        """Pack an EncoderLayer."""
        return cls(
            PackedSelfAttention.of(layer.attention, dtype),
            PackedResidual.of(layer.attention_residual),
            PackedFeedForward.of(layer.feed_forward, dtype),
            PackedResidual.of(layer.feed_forward_residual),
        )

    def __call__(
        self, x: Float[Tensor, "batch source model"], bias: Float[Tensor, "batch 1 1 room"]
    ) -> Float[Tensor, "batch source model"]:
        x = self.attention_residual(x, partial(self.attention.over_source, bias=bias))
        return self.feed_forward_residual(x, self.feed_forward)


@dataclass(frozen=True)
class PackedDecoderLayer:
    self_attention: "PackedSelfAttention"
    self_attention_residual: "PackedResidual"
    cross_heads: int
    cross_query: PackedLinear
    cross_output: PackedLinear
    cross_attention_residual: "PackedResidual"
    feed_forward: "PackedFeedForward"
    feed_forward_residual: "PackedResidual"

    @classmethod
    def of(cls, layer: Any, dtype: torch.dtype) -> "PackedDecoderLayer":
        """Pack a DecoderLayer."""
        return cls(
            PackedSelfAttention.of(layer.self_attention, dtype),
            PackedResidual.of(layer.self_attention_residual),
            layer.cross_attention.num_heads,
            PackedLinear.of([layer.cross_attention.query], dtype),
            PackedLinear.of([layer.cross_attention.output], dtype),
            PackedResidual.of(layer.cross_attention_residual),
            PackedFeedForward.of(layer.feed_forward, dtype),
            PackedResidual.of(layer.feed_forward_residual),
        )

    def step(self, x: Float[Tensor, "rows model"], layer: int, cache: BeamCache) -> Float[Tensor, "rows model"]:
        """The newest position of every hypothesis; `layer` is this one's number in the cache."""
        x = self.self_attention_residual(x, partial(self.self_attention.over_target, layer=layer, cache=cache))
        x = self.cross_attention_residual(x, partial(self.attend_to_source, layer=layer, cache=cache))
        return self.feed_forward_residual(x, self.feed_forward)

    def attend_to_source(
        self, x: Float[Tensor, "rows model"], layer: int, cache: BeamCache
    ) -> Float[Tensor, "rows model"]:
        query = self.cross_query(x).unflatten(-1, (self.cross_heads, -1))
        return self.cross_output(cache.attend_to_source(layer, query))


@dataclass(frozen=True)
class PackedSelfAttention:
    num_heads: int
    head_dim: int
    query_key_value: PackedLinear
    output: PackedLinear
    rotary: RotaryPositions | None

    @classmethod
    def of(cls, attention: MultiHeadAttention, dtype: torch.dtype) -> "PackedSelfAttention":
        return cls(
            attention.num_heads,
            attention.head_dim,
            PackedLinear.of([attention.query, attention.key_value], dtype),
            PackedLinear.of([attention.output], dtype),
            attention.rotary,
        )

    def over_source(
        self, x: Float[Tensor, "batch source model"], bias: Float[Tensor, "batch 1 1 room"]
    ) -> Float[Tensor, "batch source model"]:
        query, key, value = (
            self.project(x).to(bias.dtype).permute(2, 0, 3, 1, 4)
        )  # each (batch, heads, source, head_dim)
        more = bias.size(-1) - x.size(1)
        attended, _ = attend_with_bias(query, F.pad(key, (0, 0, 0, more)), F.pad(value, (0, 0, 0, more)), bias)
        return self.output(attended.transpose(1, 2).flatten(2).to(x.dtype))

    def over_target(self, x: Float[Tensor, "rows model"], layer: int, cache: BeamCache) -> Float[Tensor, "rows model"]:
        """The newest position of every hypothesis, over itself and its ancestors."""
        query_key_value = self.project(x[:, None], cache.length)[:, 0]
        cache.append(layer, query_key_value[:, 1:])
        return self.output(cache.attend_to_own(layer, query_key_value[:, 0]))

    def project(
        self, x: Float[Tensor, "batch time model"], offset: int = 0
    ) -> Float[Tensor, "batch time 3 heads head_dim"]:
        """Query, key and value; position `offset` is that of x's first time step."""
        three = self.query_key_value(x).unflatten(-1, (3, self.num_heads, -1))
        if self.rotary is not None:
            turned = three[:, :, :2].flatten(2, 3).transpose(1, 2)  # (batch, 2 * heads, time, head_dim)
            turned = self.rotary(turned, offset).transpose(1, 2).unflatten(2, (2, -1))
            three = torch.cat([turned, three[:, :, 2:]], dim=2)
        return three


@dataclass(frozen=True)
class PackedFeedForward:
    widen: PackedLinear
    narrow: PackedLinear
    activate: Callable[[Tensor], Tensor]

    @classmethod
    def of(cls, layer: FeedForward, dtype: torch.dtype) -> "PackedFeedForward":
        return cls(PackedLinear.of([layer.widen], dtype), PackedLinear.of([layer.narrow], dtype), layer.activate)

    def __call__(self, x: Float[Tensor, "*rows model"]) -> Float[Tensor, "*rows model"]:
        return self.narrow(self.activate(self.widen(x)))


@dataclass(frozen=True)
class PackedResidual:
    """`Residual` (layers/residual.py) without dropout."""

    norm: nn.Module
    norm_first: bool

    @classmethod
    def of(cls, residual: Residual) -> "PackedResidual":
        return cls(residual.norm, residual.norm_first)

    def __call__(
        self, x: Float[Tensor, "*rows model"], sublayer: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "*rows model"]:
        return x + sublayer(self.norm(x)) if self.norm_first else self.norm(x + sublayer(x))
