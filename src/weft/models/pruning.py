"""Attention heads of a Transformer, masked or cut out (Michel et al. 2019, arXiv 1905.10650).

    MHAtt(x, q) = sum over h of xi_h Att_h(x, q)        xi_h is the gate of a head; 0 masks it

Before the output projection the heads stand side by side, so a gate multiplies some columns of its matrix.
"""

import copy
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from weft.layers.attention import MultiHeadAttention
from weft.models.transformer import STACKS, DecoderLayer, EncoderLayer, Transformer


@dataclass(frozen=True, order=True)
class Place:
    """One attention: `kind` is encoder, decoder (both self-attention) or cross; layers are counted from 0."""

    kind: str
    layer: int

    def __str__(self) -> str:
        return f"{self.kind} {self.layer + 1}"


@dataclass(frozen=True, order=True)
class Head:
    """Head `number` of an attention, counted from 0."""

    place: Place
    number: int


def attentions(network: Transformer) -> dict[Place, MultiHeadAttention]:
    """All attentions, those of the encoder first."""
    encoder, decoder = cast("list[EncoderLayer]", network.encoder), cast("list[DecoderLayer]", network.decoder)
    found = {
        "encoder": [layer.attention for layer in encoder],
        "decoder": [layer.self_attention for layer in decoder],
        "cross": [layer.cross_attention for layer in decoder],
    }
    return {Place(kind, layer): one for kind in STACKS for layer, one in enumerate(found[kind])}


def heads_of(network: Transformer) -> list[Head]:
    return [Head(place, number) for place, one in attentions(network).items() for number in range(one.num_heads)]


@contextmanager
def masked(network: Transformer, heads: Collection[Head]) -> Iterator[None]:
    """Set the gates of these heads to 0, by zeros in the output projections, and restore the weights at the end."""
    kept = {}
    for place, attention in attentions(network).items():
        if numbers := [head.number for head in heads if head.place == place]:
            weight = attention.output.weight
            kept[weight] = weight.detach().clone()
            with torch.no_grad():
                weight[:, columns(attention, numbers)] = 0.0
    network.repack()
    try:
        yield
    finally:
        with torch.no_grad():
            for weight, before in kept.items():
                weight.copy_(before)
        network.repack()


@contextmanager
def gated(network: Transformer, gates: Mapping[Place, Float[Tensor, "batch _"]]) -> Iterator[None]:
    """Multiply the heads of each sentence of a batch by its gates, to which there is a gradient."""

    def hook(attention: MultiHeadAttention, gate: Tensor) -> Any:
        def multiply(module: nn.Module, inputs: tuple[Tensor]) -> Tensor:
            return inputs[0] * gate.repeat_interleave(attention.head_dim, 1)[:, None]

        return attention.output.register_forward_pre_hook(multiply)

    with ExitStack() as stack:
        for place, attention in attentions(network).items():
            stack.callback(hook(attention, gates[place]).remove)
        yield


def cut(network: Transformer, heads: Collection[Head]) -> Transformer:
    """A copy without these heads, whose logits are those of the network with them masked.

    Each takes head_dim (4 model_dim + 3) parameters with it: of query, key, value and output, with three biases. Raises
    ValueError where an attention would be left without a head.
    """
    smaller = copy.deepcopy(network).eval()
    for place, attention in attentions(smaller).items():
        kept = [number for number in range(attention.num_heads) if Head(place, number) not in heads]
        if not kept:
            raise ValueError(f"{place} keeps no head")
        entries, width = columns(attention, kept), attention.width
        narrow(attention.query, entries)
        narrow(attention.key_value, torch.cat([entries, entries + width]))
        output = attention.output
        output.weight = nn.Parameter(output.weight.detach()[:, entries].contiguous())
        output.in_features = len(entries)
        if attention.log_beta is not None:
            attention.log_beta = nn.Parameter(attention.log_beta.detach()[kept].clone())
        attention.num_heads = len(kept)
    left = [(place.kind, attention.num_heads) for place, attention in attentions(smaller).items()]
    numbers = {kind: tuple(number for of, number in left if of == kind) for kind in STACKS}
    counts = {f"{kind}_heads": of if min(of) < network.config.num_heads else None for kind, of in numbers.items()}
    smaller.config = type(network.config).model_validate({**network.config.model_dump(), **counts})
    return smaller.eval()


def columns(attention: MultiHeadAttention, numbers: Collection[int]) -> Tensor:
    """The entries of these heads among those of all heads side by side."""
    width = attention.head_dim
    return torch.cat([torch.arange(number * width, (number + 1) * width) for number in numbers])


def narrow(linear: nn.Linear, rows: Tensor) -> None:
    """Keep only these outputs of a map."""
    linear.weight, linear.bias = nn.Parameter(linear.weight.detach()[rows]), nn.Parameter(linear.bias.detach()[rows])
    linear.out_features = len(rows)
