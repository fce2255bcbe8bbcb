"""A decoder that writes one token at a time and keeps what it computed before: the form that is read.

`Transformer.start_plain` makes a `TransformerState`. What `Transformer.start` makes computes the same, laid out for
speed (transformer_session.py).
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from weft.layers.attention import MultiHeadAttention, attention_weights
from weft.layers.cache import KeyValueCache


class TransformerState:
    """A step function over one batch: row r writes a hypothesis for sentence r // rows_per_sentence.

    `layers` are DecoderLayers (transformer.py, which imports this module). `embed` takes tokens and the place of the
    first of them, `logits` the last layer's vectors. Keys and values of the source are kept once a sentence and shared
    by its rows, whose queries are adjacent.
    """

    def __init__(
        self,
        layers: Sequence[Any],
        memory: Float[Tensor, "batch source model"],
        source_mask: Bool[Tensor, "batch 1 1 source"],
        rows_per_sentence: int,
        *,
        embed: Callable[[Tensor, int], Tensor],
        logits: Callable[[Tensor], Tensor],
    ) -> None:
        self.embed, self.logits = embed, logits
        self.rows_per_sentence = rows_per_sentence
        self.length = 0
        self.layers = [
            (layer, LayerState(layer.cross_attention, memory, source_mask, rows_per_sentence)) for layer in layers
        ]

    def step(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        """Take the newest token of every row, return log-probabilities (fp32) of the one that follows."""
        x = self.embed(tokens[:, None], self.length)
        for layer, state in self.layers:
            x = layer.step(x, state)
        self.length += 1
        return F.log_softmax(self.logits(x[:, 0]).float(), dim=-1)

    def reorder(self, rows: Int[Tensor, " new_rows"]) -> None:
        """Let row i continue what row rows[i] was. Rows stay with their sentence; sentences may be left out."""
        sentences = rows[:: self.rows_per_sentence] // self.rows_per_sentence
        for _, state in self.layers:
            state.reorder(rows, sentences)

    def source_mask(self) -> Bool[Tensor, "sentences source"]:
        """True at the source tokens of each sentence, </s> included, False at padding."""
        return self.layers[-1][1].source_mask[:, 0, 0]

    def source_attention(self) -> Float[Tensor, "rows source"]:
        """Attention of each row to the source in the last step: the mean over the heads of the last layer."""
        return self.layers[-1][1].attention.mean(1).flatten(0, 1)

    def head_attention(self) -> Float[Tensor, "layers rows heads source"]:
        """Attention of each row to the source in the last step, by every head of every layer."""
        return stack_layers([state.attention.transpose(1, 2).flatten(0, 1) for _, state in self.layers])


def stack_layers(layers: Sequence[Float[Tensor, "rows _ source"]]) -> Float[Tensor, "layers rows heads source"]:
    """The attention of layers that may have different numbers of heads: where some were cut out, the mean of the others
    is repeated in their place, which changes no mean."""
    most = max(layer.size(1) for layer in layers)
    missing = ([layer.mean(1, keepdim=True)] * (most - layer.size(1)) for layer in layers)
    return torch.stack([torch.cat([layer, *means], 1) for layer, means in zip(layers, missing, strict=True)])


class LayerState:
    """What one decoder layer remembers: its own keys and values, and the source's."""

    def __init__(
        self,
        cross_attention: MultiHeadAttention,
        memory: Float[Tensor, "batch source model"],
        source_mask: Bool[Tensor, "batch 1 1 source"],
        rows_per_sentence: int,
    ) -> None:
        self.cache = KeyValueCache()
        self.source_key, self.source_value = cross_attention.project_memory(memory)
        self.source_mask = source_mask
        self.rows_per_sentence = rows_per_sentence

    def attend_to_source(
        self, attention: MultiHeadAttention, x: Float[Tensor, "rows 1 model"]
    ) -> Float[Tensor, "rows 1 model"]:
        """Cross-attention, with the hypotheses of a sentence as its queries."""
        of_sentences = x.view(-1, self.rows_per_sentence, x.size(-1))  # (sentences, rows_per_sentence, model)
        projected = attention.project_query(of_sentences)
        self.query = query = attention.settle(projected, self.source_key, self.source_mask)
        return attention.combine(query, self.source_key, self.source_value, self.source_mask).view_as(x)

    @property
    def attention(self) -> Float[Tensor, "batch heads rows_per_sentence source"]:
        """The weights of the last cross-attention, computed on request, since kernels do not return them."""
        return attention_weights(self.query, self.source_key, self.source_mask)

    def reorder(self, rows: Int[Tensor, " new_rows"], sentences: Int[Tensor, " new_sentences"]) -> None:
        self.cache.reorder(rows)
        if len(sentences) < self.source_key.size(0):
            self.source_key = self.source_key.index_select(0, sentences)
            self.source_value = self.source_value.index_select(0, sentences)
            self.source_mask = self.source_mask.index_select(0, sentences)
