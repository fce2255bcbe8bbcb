"""A Transformer's weights in the form that CTranslate2 reads.

Its own converters go from a framework's checkpoint to a specification, one attribute for each weight; here the
specification is filled from weft's model by hand. Knows no text: vocabularies are lists of pieces.
"""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from weft.engines.ctranslate2 import SOURCE, TARGET, import_ctranslate2
from weft.errors import Problem
from weft.layers.attention import MultiHeadAttention
from weft.layers.norm import LayerNorm, RMSNorm
from weft.models.transformer import DecoderLayer, EncoderLayer, Transformer, TransformerConfig

ACTIVATIONS = {
    "relu": "RELU",
    "gelu": "GELU",
    "silu": "SWISH",
    "glu": "Sigmoid",
    "reglu": "RELU",
    "geglu": "GELU",
    "swiglu": "SWISH",
}
"""weft's names of the activations that CTranslate2 has, and its own names; the last four are gated."""

SHARED = "shared_vocabulary.json"
QUANTIZATIONS = {"fp32": "float32", "int8": "int8_float32"}


def refusals(config: TransformerConfig) -> Iterator[Problem]:
    """Yield the settings of a model that CTranslate2 cannot compute."""
    if config.activation not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        yield Problem(
            f'model.activation = "{config.activation}"', f"is not an activation of CTranslate2; it has {known}"
        )
    for stack, keys in (("encoder", ["encoder"]), ("decoder", ["decoder", "cross"])):
        if len(found := sorted({number for key in keys for number in config.heads[key]})) > 1:
            numbers = ", ".join(map(str, found))
            what = f"leaves {numbers} heads in different layers; CTranslate2 takes one number for the whole {stack}"
            yield Problem(" and ".join(f"model.{key}_heads" for key in keys), f"{what}; --to onnx takes any")


def write_ctranslate2(
    model: Transformer, folder: Path, pieces: tuple[Sequence[str], Sequence[str]], precision: str, longest: int
) -> None:
    """Write what CTranslate2 reads into an existing folder; `pieces` are those of the source and of the target.

    Positions that are added are written as a table of `longest` of them. Raises MissingExtraError without the library.
    """
    ctranslate2 = import_ctranslate2()
    specification = specify(ctranslate2.specs, model, longest)
    specification.register_source_vocabulary(list(pieces[0]))
    specification.register_target_vocabulary(list(pieces[1]))
    specification.config.add_source_eos = True
    norm = next(module for module in model.modules() if isinstance(module, LayerNorm | RMSNorm))  # all share an epsilon
    specification.config.layer_norm_epsilon = float(norm.eps or 0.0)
    specification.validate()
    specification.optimize(quantization=QUANTIZATIONS[precision])
    specification.save(str(folder))
    if (shared := folder / SHARED).exists():  # it writes one file for two vocabularies that are the same
        shutil.copyfile(shared, folder / SOURCE)
        shared.rename(folder / TARGET)


def specify(specs: Any, model: Transformer, longest: int) -> Any:
    """The specification of the whole model, every weight in its place."""
    config = model.config
    rotary = {"rotary_dim": 0, "rotary_interleave": False} if config.positions == "rotary" else {}  # 0: all of a head
    shape = {
        "pre_norm": config.norm == "pre",
        "activation": specs.Activation[ACTIVATIONS[config.activation]],
        "ffn_glu": config.activation.endswith("glu"),
        "rms_norm": config.norm_layer == "rms",
        **rotary,
    }
    left = {stack: config.heads[stack][0] for stack in ("encoder", "decoder")}
    if any(number < config.num_heads for number in left.values()):  # else it takes the width of the model by theirs
        shape["head_dim"] = config.model_dim // config.num_heads
    encoder = specs.TransformerEncoderSpec(config.encoder_layers, left["encoder"], **shape)
    decoder = specs.TransformerDecoderSpec(config.decoder_layers, left["decoder"], **shape)
    encoder.embeddings[0].weight = numbers(model.source_embedding.weight)
    decoder.embeddings.weight = numbers(model.target_embedding.weight)
    decoder.projection.weight = numbers(model.output.weight)
    if model.output.bias is not None:
        decoder.projection.bias = numbers(model.output.bias)
    for side, positions in ((encoder, model.source_positions), (decoder, model.target_positions)):
        side.scale_embeddings = True
        if positions is not None:
            nothing = torch.zeros(1, longest, config.model_dim)
            side.position_encodings.encodings = numbers(positions(nothing)[0])
    if config.norm == "pre":
        fill_norm(encoder.layer_norm, model.encoder_norm)
        fill_norm(decoder.layer_norm, model.decoder_norm)
    for spec, layer in zip(encoder.layer, cast("list[EncoderLayer]", list(model.encoder)), strict=True):
        fill_encoder_layer(spec, layer)
    for spec, layer in zip(decoder.layer, cast("list[DecoderLayer]", list(model.decoder)), strict=True):
        fill_decoder_layer(spec, layer)
    return specs.TransformerSpec(encoder, decoder)


def fill_encoder_layer(spec: Any, layer: EncoderLayer) -> None:
    fill_self_attention(spec.self_attention, layer.attention)
    fill_norm(spec.self_attention.layer_norm, layer.attention_residual.norm)
    fill_feed_forward(spec.ffn, layer)


def fill_decoder_layer(spec: Any, layer: DecoderLayer) -> None:
    fill_self_attention(spec.self_attention, layer.self_attention)
    fill_norm(spec.self_attention.layer_norm, layer.self_attention_residual.norm)
    attention = layer.cross_attention
    for place, linear in zip(
        spec.attention.linear, (attention.query, attention.key_value, attention.output), strict=True
    ):
        fill_linear(place, linear.weight, linear.bias)
    fill_norm(spec.attention.layer_norm, layer.cross_attention_residual.norm)
    fill_feed_forward(spec.ffn, layer)


def fill_self_attention(spec: Any, attention: MultiHeadAttention) -> None:
    """Join the matrix of queries and that of keys and values, which are one matrix in CTranslate2."""
    parts = (attention.query, attention.key_value)
    fill_linear(spec.linear[0], torch.cat([part.weight for part in parts]), torch.cat([part.bias for part in parts]))
    fill_linear(spec.linear[1], attention.output.weight, attention.output.bias)


def fill_feed_forward(spec: Any, layer: EncoderLayer | DecoderLayer) -> None:
    network = layer.feed_forward
    weights, biases = network.widen.weight, network.widen.bias
    if network.is_gated:  # weft has the value first and then the gate
        (value, gate), (value_bias, gate_bias) = weights.chunk(2), biases.chunk(2)
        fill_linear(spec.linear_0_noact, value, value_bias)
        fill_linear(spec.linear_0, gate, gate_bias)
    else:
        fill_linear(spec.linear_0, weights, biases)
    fill_linear(spec.linear_1, network.narrow.weight, network.narrow.bias)
    fill_norm(spec.layer_norm, layer.feed_forward_residual.norm)


def fill_linear(spec: Any, weight: Tensor, bias: Tensor) -> None:
    spec.weight, spec.bias = numbers(weight), numbers(bias)


def fill_norm(spec: Any, norm: nn.Module) -> None:
    assert isinstance(norm, LayerNorm | RMSNorm)
    spec.gamma = numbers(norm.weight)
    if isinstance(norm, LayerNorm):
        spec.beta = numbers(norm.bias)


def numbers(tensor: Tensor) -> np.ndarray:
    """Copy a tensor to NumPy: the library quantizes arrays in place."""
    return tensor.detach().float().cpu().clone(memory_format=torch.contiguous_format).numpy()
