"""The Transformer, encoder and decoder (Vaswani et al. 2017, "Attention Is All You Need", arXiv 1706.03762).

Our words for the paper's symbols: model_dim = d_model, ff_dim = d_ff, num_heads = h, encoder_layers = decoder_layers =
N. `norm = "post"` is the paper's LayerNorm(x + Sublayer(x)); `norm = "pre"`, the default, is x + Sublayer(LayerNorm(x))
with one more LayerNorm at the end of each stack (Xiong et al. 2020), which trains without a careful warm-up. The other
choices are explained in layers/: norm.py, feed_forward.py, positions.py.

The file knows token ids and logits, and nothing of text, loss or search. Steps through the decoder, one token at a
time, are in stepping.py (to read) and transformer_session.py (to run).
"""

import math
from collections.abc import Iterable, Iterator
from itertools import compress
from typing import Annotated, Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field, model_validator
from torch import Tensor, nn

from weft.config import FieldProblem
from weft.layers.attention import MultiHeadAttention
from weft.layers.cache import KeyValueCache
from weft.layers.dropout import Dropout
from weft.layers.embedding import TokenEmbedding
from weft.layers.feed_forward import GATES, FeedForward
from weft.layers.initialization import draw_normal
from weft.layers.linear import Linear
from weft.layers.masks import causal_mask, padding_mask
from weft.layers.norm import NORMS, LayerNorm, RMSNorm
from weft.layers.positions import LearnedPositions, SinusoidalPositions
from weft.layers.residual import Residual
from weft.models.contract import Decoded, ModelSettings, Seq2Seq
from weft.models.cost import multiply_adds
from weft.models.stepping import LayerState, TransformerState
from weft.models.transformer_session import PackedTransformer, TransformerSession

LEAST_WIDTH, MOST_WIDTH = 8, 8192
MOST_HEADS = 256
HeadsOfLayers = tuple[Annotated[int, Field(ge=1, le=MOST_HEADS)], ...]


class LayerSettings(ModelSettings):
    """The keys of every layer and of the positions, for the translator and for the language model."""

    model_dim: int = Field(default=256, ge=LEAST_WIDTH, le=MOST_WIDTH)
    """Width of the embeddings and of every layer's input and output."""
    num_heads: int = Field(default=8, ge=1, le=MOST_HEADS)
    """Attention heads per layer; must divide model_dim."""
    ff_dim: int = Field(default=1024, ge=8, le=65536)
    """Inner width of the feed-forward networks; after the gate if the activation is gated."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Probability of dropping an activation: of embeddings, sublayers, attention weights and inside feed-forward."""
    embedding_dropout: float | None = Field(default=None, ge=0, lt=1)
    """Replaces dropout for the embeddings with their positions."""
    attention_dropout: float | None = Field(default=None, ge=0, lt=1)
    """Replaces dropout for attention weights."""
    activation_dropout: float | None = Field(default=None, ge=0, lt=1)
    """Replaces dropout inside the feed-forward networks."""
    residual_dropout: float | None = Field(default=None, ge=0, lt=1)
    """Replaces dropout for the output of each sublayer."""
    layer_dropout: float = Field(default=0.0, ge=0, lt=1)
    """Probability of skipping a layer in a training step, drawn for each layer (LayerDrop, Fan et al. 2019)."""
    activation: Literal["relu", "elu", "gelu", "silu", "glu", "reglu", "geglu", "swiglu"] = "relu"
    """Non-linearity of the feed-forward networks; the last four are gated and have a third matrix (Shazeer 2020)."""
    norm: Literal["pre", "post"] = "pre"
    """Normalization before each sublayer (trains more easily) or after it (the original paper)."""
    norm_layer: Literal["layer", "rms"] = "layer"
    """LayerNorm, or RMSNorm, which has no centering and no bias."""
    norm_epsilon: float | None = Field(default=None, gt=0, le=0.1)
    """Number added to the variance in normalization. If not set: 1e-5 for layer, 1e-6 for rms."""
    positions: Literal["sinusoidal", "scaled-sinusoidal", "learned", "rotary"] = "sinusoidal"
    """Encoding of positions: sinusoidal, scaled-sinusoidal (with shorter wavelengths), learned vectors, or rotary."""
    max_positions: int | None = Field(default=None, ge=8, le=1_048_576)
    """Longest sentence in tokens (learned; 1024 if not set) or longest wave in tokens (scaled-sinusoidal; 128)."""

    attention_steps: int = Field(default=1, ge=1, le=16)
    """Attention updates of a query. Each but the last replaces it by the attention-weighted mean of the keys (modern
    Hopfield network); the last reads the values. 1: standard attention."""
    attention_beta: Literal["fixed", "learned"] = "fixed"
    """Scale of the attention scores: 1/sqrt(head_dim), or learned by each head and initialized to that."""

    @model_validator(mode="before")
    @classmethod
    def _heads_for_the_width(cls, values: Any) -> Any:
        """If only width or heads are given and do not fit the other's default, set the other to the nearest fit."""
        if not isinstance(values, dict) or ("model_dim" in values) == ("num_heads" in values):
            return values
        keys = ("model_dim", "num_heads", "positions")
        width, heads, positions = (values.get(key, cls.model_fields[key].default) for key in keys)
        unit = 2 if positions == "rotary" else 1
        if not isinstance(width, int) or not isinstance(heads, int):
            return values
        if not (LEAST_WIDTH <= width <= MOST_WIDTH and 1 <= heads <= MOST_HEADS) or width % (unit * heads) == 0:
            return values  # out of bounds: the key's own check reports it
        if "num_heads" in values:
            return {**values, "model_dim": max(1, round(width / (8 * heads))) * 8 * heads}
        fitting = fitting_heads(width, unit)
        return {**values, "num_heads": min(fitting, key=lambda fits: abs(fits - heads))} if fitting else values

    @property
    def dropouts(self) -> tuple[float, ...]:
        """Probabilities for embeddings, attention weights, feed-forward and residuals; without layer_dropout."""
        places = (self.embedding_dropout, self.attention_dropout, self.activation_dropout, self.residual_dropout)
        return tuple(self.dropout_unless(place) for place in places)

    def misfits(self) -> Iterator[FieldProblem]:
        unit, even = (2, ' into even parts for positions = "rotary"') if self.positions == "rotary" else (1, "")
        if self.model_dim % unit:
            yield FieldProblem("model_dim", 'must be even for positions = "rotary"')
        elif self.model_dim % (unit * self.num_heads):
            fitting = fitting_heads(self.model_dim, unit)
            nearest = sorted(sorted(fitting, key=lambda heads: abs(heads - self.num_heads))[:2])
            tries = " or ".join(str(heads) for heads in nearest)
            yield FieldProblem("num_heads", f"must divide model_dim = {self.model_dim}{even}; try {tries}")
        if self.max_positions is not None and self.positions in ("sinusoidal", "rotary", "none"):
            what = f'is not used by positions = "{self.positions}"; leave it out, or set positions = "learned"'
            yield FieldProblem("max_positions", what)

    def dropout_unless(self, own: float | None) -> float:
        """A place's own dropout probability, or `dropout` if it has none."""
        return self.dropout if own is None else own

    @property
    def width(self) -> int:
        return self.model_dim

    @property
    def longest(self) -> int | None:
        return (self.max_positions or 1024) if self.positions == "learned" else None

    @property
    def feed_forward_entries(self) -> int:
        """Entries of the matrices of one feed-forward network."""
        return (3 if self.activation in GATES else 2) * self.model_dim * self.ff_dim


STACKS = {"encoder": "encoder", "decoder": "decoder", "cross": "decoder"}
"""Kind of attention -> the stack whose layers have it. `cross` is the attention of the decoder to the source."""


class TransformerConfig(LayerSettings):
    kind: Literal["transformer"] = "transformer"
    """The architecture."""
    encoder_layers: int = Field(default=4, ge=1, le=96)
    """Layers of the encoder, which reads the source."""
    decoder_layers: int = Field(default=4, ge=1, le=96)
    """Layers of the decoder, which writes the target."""
    tie: Literal["none", "decoder", "all"] = "decoder"
    """Share one matrix: none; decoder embedding and output (decoder); or also the encoder embedding (all)."""
    output_bias: bool = False
    """Whether the output has a bias, a learned number for every target piece."""
    encoder_heads: HeadsOfLayers | None = None
    """Heads that are left in each encoder layer after pruning, model_dim / num_heads wide. If not set: num_heads."""
    decoder_heads: HeadsOfLayers | None = None
    """Heads that are left in the self-attention of each decoder layer after pruning. If not set: num_heads."""
    cross_heads: HeadsOfLayers | None = None
    """Heads that are left in the attention of each decoder layer to the source after pruning. If not set: num_heads."""

    def misfits(self) -> Iterator[FieldProblem]:
        yield from super().misfits()
        for kind, stack in STACKS.items():
            layers, given = getattr(self, f"{stack}_layers"), getattr(self, f"{kind}_heads") or ()
            if given and len(given) != layers:
                what = f"has {len(given)} numbers for {stack}_layers = {layers}; give one for each layer"
                yield FieldProblem(f"{kind}_heads", what)
            elif max(given, default=0) > self.num_heads:
                what = f"has more heads in a layer than num_heads = {self.num_heads}; pruning leaves fewer"
                yield FieldProblem(f"{kind}_heads", what)

    @property
    def heads(self) -> dict[str, tuple[int, ...]]:
        """Heads in each layer, for each kind of attention."""
        return {
            kind: getattr(self, f"{kind}_heads") or (self.num_heads,) * getattr(self, f"{stack}_layers")
            for kind, stack in STACKS.items()
        }

    @property
    def needs_one_vocabulary(self) -> bool:
        return self.tie == "all"

    @property
    def attending_layers(self) -> int:
        return self.decoder_layers

    def describe(self) -> str:
        left, all_heads = sum(map(sum, self.heads.values())), self.num_heads * sum(map(len, self.heads.values()))
        pruned = f", {left} of {all_heads} heads" if left < all_heads else ""
        return f"{self.encoder_layers}+{self.decoder_layers} layers, {self.model_dim} wide{pruned}"

    def multiply_adds(self, vocab_size: int, *lengths: Int[np.ndarray, " pairs"]) -> dict[str, int]:
        sources, targets = lengths
        return multiply_adds(
            width=self.model_dim,
            feed_forward=self.feed_forward_entries,
            layers=(self.encoder_layers, self.decoder_layers),
            heads_width=tuple(sum(heads) * (self.model_dim // self.num_heads) for heads in self.heads.values()),
            attention_steps=self.attention_steps,
            vocab_size=vocab_size,
            sources=sources,
            targets=targets,
        )


def fitting_heads(width: int, unit: int) -> list[int]:
    """Numbers of heads that divide this width into parts of at least 8 that are multiples of the unit."""
    return [heads for heads in range(1, width // 8 + 1) if width % (unit * heads) == 0]


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward, each with a residual connection. With a causal mask it is the layer of a
    decoder-only model (language_model.py)."""

    def __init__(self, config: LayerSettings, num_heads: int | None = None) -> None:
        super().__init__()
        self.attention = attention(config, num_heads, rotary=config.positions == "rotary")
        self.attention_residual = residual(config)
        self.feed_forward = feed_forward(config)
        self.feed_forward_residual = residual(config)

    def forward(
        self, x: Float[Tensor, "batch source model"], allowed_mask: Bool[Tensor, "#batch 1 #source source"]
    ) -> Float[Tensor, "batch source model"]:
        x = self.attention_residual(x, lambda y: self.attention(y, y, allowed_mask))
        return self.feed_forward_residual(x, self.feed_forward)

    def step(self, x: Float[Tensor, "rows new model"], cache: KeyValueCache) -> Float[Tensor, "rows new model"]:
        """The new positions, which see themselves up to each and all cached ones."""
        x = self.attention_residual(x, lambda y: self.attention.step(y, cache))
        return self.feed_forward_residual(x, self.feed_forward)


class DecoderLayer(nn.Module):
    """Self-attention over the target so far, attention over the source, then feed-forward."""

    def __init__(
        self, config: TransformerConfig, self_heads: int | None = None, cross_heads: int | None = None
    ) -> None:
        super().__init__()
        self.self_attention = attention(config, self_heads, rotary=config.positions == "rotary")
        self.self_attention_residual = residual(config)
        self.cross_attention = attention(config, cross_heads, rotary=False)  # places in two sentences have no distance
        self.cross_attention_residual = residual(config)
        self.feed_forward = feed_forward(config)
        self.feed_forward_residual = residual(config)

    def forward(
        self,
        x: Float[Tensor, "batch target model"],
        memory: Float[Tensor, "batch source model"],
        target_mask: Bool[Tensor, "1 1 target target"],
        source_mask: Bool[Tensor, "batch 1 1 source"],
    ) -> Float[Tensor, "batch target model"]:
        x = self.self_attention_residual(x, lambda y: self.self_attention(y, y, target_mask))
        x = self.cross_attention_residual(x, lambda y: self.cross_attention(y, memory, source_mask))
        return self.feed_forward_residual(x, self.feed_forward)

    def step(self, x: Float[Tensor, "rows 1 model"], state: LayerState) -> Float[Tensor, "rows 1 model"]:
        """One new position a row, given what the layer computed for those before it."""
        x = self.self_attention_residual(x, lambda y: self.self_attention.step(y, state.cache))
        x = self.cross_attention_residual(x, lambda y: state.attend_to_source(self.cross_attention, y))
        return self.feed_forward_residual(x, self.feed_forward)


def attention(config: LayerSettings, num_heads: int | None, *, rotary: bool) -> MultiHeadAttention:
    """`num_heads` are those that are left in this layer, each as wide as before; None: all."""
    dropout = config.dropout_unless(config.attention_dropout)
    return MultiHeadAttention(
        config.model_dim,
        num_heads or config.num_heads,
        head_dim=config.model_dim // config.num_heads,
        dropout=dropout,
        rotary=rotary,
        steps=config.attention_steps,
        learns_beta=config.attention_beta == "learned",
    )


def feed_forward(config: LayerSettings) -> FeedForward:
    dropout = config.dropout_unless(config.activation_dropout)
    return FeedForward(config.model_dim, config.ff_dim, activation=config.activation, dropout=dropout)


def residual(config: LayerSettings) -> Residual:
    dropout = config.dropout_unless(config.residual_dropout)
    return Residual(norm(config), dropout, norm_first=config.norm == "pre")


def norm(config: LayerSettings) -> LayerNorm | RMSNorm:
    return NORMS[config.norm_layer](config.model_dim, eps=config.norm_epsilon)


def last_norm(config: LayerSettings) -> nn.Module:
    """At the end of a stack; after post-normalized layers there is nothing left to normalize."""
    return norm(config) if config.norm == "pre" else nn.Identity()


def added_positions(config: LayerSettings) -> SinusoidalPositions | LearnedPositions | None:
    """What is added to the embeddings of one side; None if there is nothing to add."""
    if config.positions in ("rotary", "none"):
        return None
    if config.longest is not None:
        return LearnedPositions(config.longest, config.model_dim)
    if config.positions == "scaled-sinusoidal":
        return SinusoidalPositions(config.model_dim, period=scaled_period(config))
    return SinusoidalPositions(config.model_dim)


def scaled_period(config: LayerSettings) -> float:
    longest = config.max_positions if config.positions == "scaled-sinusoidal" else None
    return (longest or 128) / (2 * math.pi)


class Transformer(Seq2Seq):
    """Scores of the next target token given a source sentence and the target tokens so far."""

    config: TransformerConfig
    packed: PackedTransformer | None = None
    """The weights as a search multiplies by them (transformer_session.py); None until the next search makes them."""

    def __init__(
        self, config: TransformerConfig, *, source_vocab_size: int, target_vocab_size: int, padding_id: int
    ) -> None:
        super().__init__()
        self.config = config
        self.padding_id = padding_id
        self.source_embedding = TokenEmbedding(source_vocab_size, config.model_dim)
        self.target_embedding = TokenEmbedding(target_vocab_size, config.model_dim)
        self.source_positions = added_positions(config)
        self.target_positions = added_positions(config)
        self.embedding_dropout = Dropout(config.dropout_unless(config.embedding_dropout))
        heads = config.heads
        self.encoder = nn.ModuleList(EncoderLayer(config, number) for number in heads["encoder"])
        of_decoder = zip(heads["decoder"], heads["cross"], strict=True)
        self.decoder = nn.ModuleList(DecoderLayer(config, *numbers) for numbers in of_decoder)
        self.encoder_norm = last_norm(config)
        self.decoder_norm = last_norm(config)
        self.output = Linear(config.model_dim, target_vocab_size, bias=config.output_bias)
        self._tie(config.tie)

    def _tie(self, tie: str) -> None:
        if tie == "none":
            draw_normal(self.output.weight, self.config.model_dim**-0.5)
            return
        self.output.weight = self.target_embedding.weight
        if tie == "all":
            if self.source_embedding.weight.shape != self.target_embedding.weight.shape:
                raise ValueError("tie = 'all' needs one vocabulary for both languages")
            self.source_embedding.weight = self.target_embedding.weight

    def forward(
        self, source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target"]
    ) -> Float[Tensor, "batch target vocab"]:
        """Logits of the token after each target position (teacher forcing); `target` begins with <s>."""
        memory, source_mask = self.encode(source)
        return self.output(self.decode(target, memory, source_mask))

    def encode(
        self, source: Int[Tensor, "batch source"]
    ) -> tuple[Float[Tensor, "batch source model"], Bool[Tensor, "batch 1 1 source"]]:
        """The source's vectors, and the mask that says which of them are tokens, and not padding."""
        source_mask = padding_mask(source, self.padding_id)
        x = self._embed(self.source_embedding, self.source_positions, source)
        for layer in active_layers(self, self.encoder):
            x = layer(x, source_mask)
        return self.encoder_norm(x), source_mask

    def decode(
        self,
        target: Int[Tensor, "batch target"],
        memory: Float[Tensor, "batch source model"],
        source_mask: Bool[Tensor, "batch 1 1 source"],
    ) -> Float[Tensor, "batch target model"]:
        """The decoder's last vectors at every target position; padding comes last, so the causal mask hides it."""
        target_mask = causal_mask(target.size(1), target.device)
        x = self._embed(self.target_embedding, self.target_positions, target)
        for layer in active_layers(self, self.decoder):
            x = layer(x, memory, target_mask, source_mask)
        return self.decoder_norm(x)

    def states(self, source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target"]) -> Decoded:
        return Decoded(self.decode(target, *self.encode(source)))

    @property
    def is_replayable(self) -> bool:
        return not self.config.layer_dropout

    def start(
        self, source: Int[Tensor, "batch source"], rows_per_sentence: int = 1
    ) -> TransformerSession | TransformerState:
        """Encode the source once and be ready to write `rows_per_sentence` hypotheses for each sentence."""
        if self.config.attention_steps > 1 or self.config.attention_beta == "learned":
            return self.start_plain(source, rows_per_sentence)  # the session knows neither
        packed = self.packed  # read once: another thread may replace it
        if packed is None or packed.dtype != self.compute_dtype:
            self.packed = packed = PackedTransformer.of(self, self.compute_dtype)
        return TransformerSession(packed, source, rows_per_sentence)

    def start_plain(self, source: Int[Tensor, "batch source"], rows_per_sentence: int = 1) -> TransformerState:
        """`start` in the form that is read, which also tells the attention of every head."""
        return TransformerState(
            list(self.decoder),
            *self.encode(source),
            rows_per_sentence,
            embed=lambda tokens, offset: self._embed(self.target_embedding, self.target_positions, tokens, offset),
            logits=lambda x: self.output(self.decoder_norm(x)),
        )

    def repack(self) -> None:
        """Let the next search pack the weights anew, after they have changed.

        A search multiplies by packed copies of the weights, made once. It sees neither later changes of the weights
        nor hooks, nor a `forward` that was replaced.
        """
        self.packed = None

    def train(self, mode: bool = True) -> "Transformer":
        """Set training or evaluation mode, and `repack`: the weights are about to change or have just done so."""
        self.repack()
        return super().train(mode)

    def _embed(
        self,
        embedding: TokenEmbedding,
        positions: SinusoidalPositions | LearnedPositions | None,
        tokens: Int[Tensor, "batch time"],
        offset: int = 0,
    ) -> Float[Tensor, "batch time model"]:
        x = embedding(tokens)
        if positions is not None:
            x = positions(x, offset)
        return self.embedding_dropout(x.to(self.compute_dtype))


def active_layers(network: Any, layers: nn.ModuleList) -> Iterable[nn.Module]:
    """The layers of this pass: in training each is skipped with probability `config.layer_dropout`.

    The draw is made on the CPU, so that no step waits for an accelerator to know its layers.
    """
    skipped = network.config.layer_dropout
    if skipped == 0 or not network.training:
        return layers
    draws = torch.rand(len(layers), device="cpu", generator=network.layer_generator)
    return compress(layers, (draws >= skipped).tolist())
