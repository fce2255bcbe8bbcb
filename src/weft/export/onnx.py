"""A Transformer as two ONNX graphs, which weft.engines.onnx describes and runs.

The graphs are written node by node, as the model's forward pass reads, rather than traced from it: they hold what is
computed and nothing of how PyTorch arrives at it. Knows no text.
"""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from weft.engines.onnx import ENCODER, STEP
from weft.errors import UsageError, needing
from weft.layers.attention import MultiHeadAttention
from weft.layers.embedding import TokenEmbedding
from weft.layers.norm import LayerNorm, RMSNorm
from weft.layers.positions import LearnedPositions, SinusoidalPositions, rotations
from weft.layers.residual import Residual
from weft.models.transformer import DecoderLayer, EncoderLayer, Transformer, TransformerConfig

OPSET, IR_VERSION = 18, 8
"""Versions of 2022, which all runtimes since then read."""
LARGEST_FILE = 2**31 - 2**20
"""Bytes of a file: an ONNX file is one protocol buffer, which holds at most 2 GiB."""

Turns = tuple[str, str]
"""The cosines and signed sines by which rotary positions rotate queries and keys, (time, head_dim) each."""


def write_onnx(
    model: Any,
    folder: Path,
    precision: str,
    longest: int,
    graphs: tuple[Callable[..., None], Callable[..., None]],
) -> None:
    """Write encoder.onnx and step.onnx into an existing folder, with room for `longest` positions. `graphs` are the
    functions that write the two.

    `int8` stores matrices in 8 bits, a scale for each row, and multiplies them by activations that are rounded to 8
    bits as they come. Raises MissingExtraError without the library, UsageError for weights that one file cannot hold.
    """
    with needing("ONNX", "export"):
        import onnx  # pyright: ignore[reportMissingImports]
    with torch.no_grad():
        for name, write, embedding in (
            (ENCODER, graphs[0], model.source_embedding),
            (STEP, graphs[1], model.target_embedding),
        ):
            graph = Graph(onnx, is_int8=precision == "int8")
            write(graph, model, longest)
            if (size := sum(len(tensor.raw_data) for tensor in graph.stored.values())) > LARGEST_FILE:
                raise UsageError(
                    f"the weights of {name} take {size:,} bytes; an ONNX file holds at most {LARGEST_FILE:,}"
                )
            (folder / name).write_bytes(graph.serialized(vocab_size=embedding.weight.size(0)))


def encoder_graph(graph: "Graph", model: Transformer, longest: int) -> None:
    """Write Transformer.encode, and the source's keys and values for every decoder layer."""
    tokens = graph.input("tokens", np.int64, "sentences", "source")
    mask = graph.op("Not", graph.op("Equal", tokens, graph.integers(model.padding_id)))
    graph.output(mask, "source_mask", np.bool_, "sentences", "source")
    mask = graph.op("Unsqueeze", mask, graph.integers(1, 2))  # (sentences, 1, 1, source)
    time = graph.op("Shape", tokens, attributes={"start": 1})

    def first(table: Tensor) -> str:
        return graph.op("Slice", graph.tensor(table), graph.integers(0), time)

    x = embedded(graph, model.source_embedding, tokens, model.source_positions, longest, first)
    layers = cast("list[EncoderLayer]", list(model.encoder))
    turns = rotary_tables(layers[0].attention, longest, first)
    for layer in layers:
        x = encoder_layer(graph, x, layer, mask, turns, model.config)
    memory = graph.norm(x, model.encoder_norm)
    for number, layer in enumerate(cast("list[DecoderLayer]", list(model.decoder))):
        attention = layer.cross_attention
        both = graph.linear(memory, attention.key_value)
        key, value = (graph.heads(part, attention) for part in graph.split(both, 2))
        heads, width = attention.num_heads, attention.head_dim
        graph.output(graph.upright(key), f"source_key_{number}", np.float32, "sentences", heads, width, "source")
        graph.output(value, f"source_value_{number}", np.float32, "sentences", heads, "source", width)


def encoder_layer(
    graph: "Graph", x: str, layer: EncoderLayer, mask: str, turns: Turns | None, config: TransformerConfig
) -> str:
    """EncoderLayer.forward"""

    def self_attention(y: str) -> str:
        query, key, value = graph.query_key_value(y, layer.attention, turns)
        attended = graph.attend(query, graph.upright(key), value, mask, layer.attention.head_dim)
        return graph.joined(attended, layer.attention, 0, 0)

    x = graph.residual(x, layer.attention_residual, self_attention)
    return graph.feed_forward(x, layer, config.activation)


def step_graph(graph: "Graph", model: Transformer, longest: int) -> None:
    """Write TransformerState.step: one new position for each row, (sentences, rows_per_sentence) in cross-attention."""
    given = graph.input("tokens", np.int64, "sentences", "rows_per_sentence")
    tokens = graph.op("Reshape", given, graph.integers(-1, 1))  # (rows, 1)
    mask = graph.input("source_mask", np.bool_, "sentences", "source")
    mask = graph.op("Unsqueeze", mask, graph.integers(1, 2))
    rows = graph.op("Shape", given)
    place = graph.op("Shape", "key_0", attributes={"start": 3})  # how many tokens there are already

    def newest(table: Tensor) -> str:
        return graph.op("Gather", graph.tensor(table), place)

    x = embedded(graph, model.target_embedding, tokens, model.target_positions, longest, newest)
    layers = cast("list[DecoderLayer]", list(model.decoder))
    turns = rotary_tables(layers[0].self_attention, longest, newest)
    for number, layer in enumerate(layers):
        x = decoder_layer(graph, x, layer, number, rows, mask, turns, model.config)
    x = graph.op("Reshape", graph.norm(x, model.decoder_norm), graph.integers(-1, model.config.model_dim))
    log_probs = graph.op("LogSoftmax", graph.linear(x, model.output), attributes={"axis": -1})
    graph.output(log_probs, "log_probs", np.float32, "rows", model.output.out_features)


def decoder_layer(
    graph: "Graph",
    x: str,
    layer: DecoderLayer,
    number: int,
    rows: str,
    mask: str,
    turns: Turns | None,
    config: TransformerConfig,
) -> str:
    """DecoderLayer.step; `rows` is (sentences, rows_per_sentence)."""
    heads, width = layer.self_attention.num_heads, layer.self_attention.head_dim
    written_key = graph.input(f"key_{number}", np.float32, "rows", heads, width, "time")
    written_value = graph.input(f"value_{number}", np.float32, "rows", heads, "time", width)
    of_source = layer.cross_attention.num_heads
    source_key = graph.input(f"source_key_{number}", np.float32, "sentences", of_source, width, "source")
    source_value = graph.input(f"source_value_{number}", np.float32, "sentences", of_source, "source", width)

    def self_attention(y: str) -> str:
        query, key, value = graph.query_key_value(y, layer.self_attention, turns)
        key = graph.op("Concat", written_key, graph.upright(key), attributes={"axis": 3})
        value = graph.op("Concat", written_value, value, attributes={"axis": 2})
        graph.output(key, f"new_key_{number}", np.float32, "rows", heads, width, "new_time")
        graph.output(value, f"new_value_{number}", np.float32, "rows", heads, "new_time", width)
        attended = graph.attend(query, key, value, None, width)
        return graph.joined(attended, layer.self_attention, -1, 1)

    def cross_attention(y: str) -> str:
        attention = layer.cross_attention
        query = graph.linear(y, attention.query)
        shape = graph.op("Concat", rows, graph.integers(attention.width), attributes={"axis": 0})
        query = graph.heads(graph.op("Reshape", query, shape), attention)
        attended = graph.attend(query, source_key, source_value, mask, width)
        return graph.joined(attended, attention, -1, 1)

    x = graph.residual(x, layer.self_attention_residual, self_attention)
    x = graph.residual(x, layer.cross_attention_residual, cross_attention)
    return graph.feed_forward(x, layer, config.activation)


def embedded(
    graph: "Graph",
    embedding: TokenEmbedding,
    tokens: str,
    positions: SinusoidalPositions | LearnedPositions | None,
    longest: int,
    part: Callable[[Tensor], str],
) -> str:
    """Scaled embeddings plus positions; `part` selects rows of the table of all positions."""
    x = graph.op("Mul", graph.rows_of(embedding.weight, tokens), graph.number(embedding.scale))
    if positions is None:
        return x
    nothing = torch.zeros(1, longest, embedding.weight.size(1))
    return graph.op("Add", x, part(positions(nothing)[0]))


def rotary_tables(attention: MultiHeadAttention, longest: int, part: Callable[[Tensor], str]) -> Turns | None:
    """The rotations of queries and keys in every layer; None unless positions are rotary."""
    if attention.rotary is None:
        return None
    cosine, sine = rotations(longest, attention.head_dim)
    return part(cosine), part(sine)


class Graph:
    """Nodes in the order of computation. Every method adds some and returns the name of the result."""

    def __init__(self, onnx: Any, *, is_int8: bool) -> None:
        self.onnx = onnx
        self.is_int8 = is_int8
        self.nodes: list[Any] = []
        self.stored: dict[str, Any] = {}
        self.matrices: dict[Tensor, tuple[str, str | None]] = {}
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def serialized(self, vocab_size: int) -> bytes:
        """Return the file, checked by ONNX."""
        helper = self.onnx.helper
        graph = helper.make_graph(self.nodes, "weft", self.inputs, self.outputs, list(self.stored.values()))
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="weft")
        helper.set_model_props(model, {"vocab_size": str(vocab_size)})
        self.onnx.checker.check_model(model)
        return model.SerializeToString()

    def input(self, name: str, kind: type[np.generic], *shape: int | str) -> str:
        self.inputs.append(self._value(name, kind, shape))
        return name

    def output(self, value: str, name: str, kind: type[np.generic], *shape: int | str) -> None:
        self.nodes.append(self.onnx.helper.make_node("Identity", [value], [name]))
        self.outputs.append(self._value(name, kind, shape))

    def _value(self, name: str, kind: type[np.generic], shape: Sequence[int | str]) -> Any:
        helper = self.onnx.helper
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(kind)), shape)

    def op(self, kind: str, *inputs: str, attributes: dict[str, Any] | None = None) -> str:
        return self.ops(kind, *inputs, results=1, attributes=attributes)[0]

    def ops(self, kind: str, *inputs: str, results: int, attributes: dict[str, Any] | None = None) -> list[str]:
        """Add an operator with several results."""
        names = [f"{kind}_{len(self.nodes)}_{number}" for number in range(results)]
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, names, **(attributes or {})))
        return names

    def constant(self, value: np.ndarray) -> str:
        name = f"constant_{len(self.stored)}"
        self.stored[name] = self.onnx.numpy_helper.from_array(value, name)
        return name

    def integers(self, *values: int) -> str:
        return self.constant(np.array(values, dtype=np.int64))

    def number(self, value: float) -> str:
        return self.constant(np.array(value, dtype=np.float32))

    def tensor(self, tensor: Tensor) -> str:
        return self.constant(tensor.detach().float().cpu().contiguous().numpy())

    def matrix(self, weight: Tensor) -> tuple[str, str | None]:
        """A matrix (rows, columns), stored once, and in int8 the scales (rows, 1)."""
        if weight not in self.matrices:  # a dict compares tensors as objects
            if self.is_int8:
                rounded, scale = in_8_bits(weight)
                self.matrices[weight] = self.constant(rounded.cpu().numpy()), self.tensor(scale)
            else:
                self.matrices[weight] = self.tensor(weight), None
        return self.matrices[weight]

    def times(self, x: str, weight: Tensor) -> str:
        """x W^T."""
        matrix, scale = self.matrix(weight)
        turned = self.op("Transpose", matrix, attributes={"perm": [1, 0]})
        if scale is None:
            return self.op("MatMul", x, turned)
        rounded, step, zero = self.rounded(x)
        product = self.op("MatMulInteger", rounded, turned, *(self.constant(np.array(z, np.uint8)) for z in (0, 128)))
        # The product counts `zero` too much in every x, which adds `zero` times the sum of a row of W.
        sums = self.tensor((in_8_bits(weight)[0].float() - 128).sum(1))
        exact = self.op("Sub", self.float_of(product), self.op("Mul", zero, sums))
        by_row = self.op("Reshape", scale, self.integers(-1))
        return self.op("Mul", exact, self.op("Mul", by_row, step))

    def rounded(self, x: str) -> tuple[str, str, str]:
        """Quantize x to unsigned 8 bits; return it with the step and the zero point of each row.

        With one step for all rows (DynamicQuantizeLinear) a translation would depend on the other rows of its batch.
        """
        low = self.op("Min", self.op("ReduceMin", x, self.integers(-1)), self.number(0.0))
        high = self.op("Max", self.op("ReduceMax", x, self.integers(-1)), self.number(1e-12))
        step = self.op("Div", self.op("Sub", high, low), self.number(255.0))
        zero = self.op("Round", self.op("Neg", self.op("Div", low, step)))
        moved = self.op("Add", self.op("Round", self.op("Div", x, step)), zero)
        bounded = self.op("Clip", moved, self.number(0.0), self.number(255.0))
        return self.op("Cast", bounded, attributes={"to": self.onnx.TensorProto.UINT8}), step, zero

    def rows_of(self, weight: Tensor, tokens: str) -> str:
        """The rows of a matrix for these tokens."""
        matrix, scale = self.matrix(weight)
        rows = self.op("Gather", matrix, tokens)
        if scale is None:
            return rows
        return self.op("Mul", self.op("Sub", self.float_of(rows), self.number(128.0)), self.op("Gather", scale, tokens))

    def float_of(self, x: str) -> str:
        return self.op("Cast", x, attributes={"to": self.onnx.TensorProto.FLOAT})

    def linear(self, x: str, linear: nn.Linear) -> str:
        product = self.times(x, linear.weight)
        return product if linear.bias is None else self.op("Add", product, self.tensor(linear.bias))

    def norm(self, x: str, norm: nn.Module) -> str:
        if isinstance(norm, LayerNorm):
            given = {"axis": -1, "epsilon": norm.eps}
            return self.op("LayerNormalization", x, self.tensor(norm.weight), self.tensor(norm.bias), attributes=given)
        if isinstance(norm, RMSNorm):
            squares = self.op("ReduceMean", self.op("Mul", x, x), self.integers(-1))
            size = self.op("Sqrt", self.op("Add", squares, self.number(norm.eps or 0.0)))
            return self.op("Mul", self.op("Div", x, size), self.tensor(norm.weight))
        return x  # nn.Identity, after a post-norm stack

    def split(self, x: str, parts: int) -> list[str]:
        return self.ops("Split", x, results=parts, attributes={"axis": -1, "num_outputs": parts})

    def activate(self, x: str, activation: str) -> str:
        match activation:
            case "relu" | "reglu":
                return self.op("Relu", x)
            case "elu":
                return self.op("Elu", x)
            case "glu":
                return self.op("Sigmoid", x)
            case "silu" | "swiglu":
                return self.op("Mul", x, self.op("Sigmoid", x))
            case "gelu" | "geglu":
                bend = self.op("Erf", self.op("Div", x, self.number(math.sqrt(2))))
                return self.op("Mul", self.op("Mul", x, self.op("Add", bend, self.number(1.0))), self.number(0.5))
            case _:
                raise ValueError(f"unknown activation {activation}")

    def feed_forward(self, x: str, layer: EncoderLayer | DecoderLayer, activation: str) -> str:
        network = layer.feed_forward

        def sublayer(y: str) -> str:
            wide = self.linear(y, network.widen)
            if not network.is_gated:
                return self.linear(self.activate(wide, activation), network.narrow)
            value, gate = self.split(wide, 2)
            return self.linear(self.op("Mul", value, self.activate(gate, activation)), network.narrow)

        return self.residual(x, layer.feed_forward_residual, sublayer)

    def heads(self, x: str, attention: MultiHeadAttention) -> str:
        """(batch, time, model) -> (batch, heads, time, head_dim)"""
        shape = self.integers(0, 0, attention.num_heads, attention.head_dim)  # 0: as it is
        return self.op("Transpose", self.op("Reshape", x, shape), attributes={"perm": [0, 2, 1, 3]})

    def upright(self, x: str) -> str:
        """(batch, heads, time, head_dim) -> (batch, heads, head_dim, time), as keys are kept"""
        return self.op("Transpose", x, attributes={"perm": [0, 1, 3, 2]})

    def attend(self, query: str, key: str, value: str, mask: str | None, head_dim: int) -> str:
        """softmax(Q K^T / sqrt(head_dim)) V, the keys upright; (batch, heads, query, head_dim)"""
        scores = self.op("MatMul", self.op("Div", query, self.number(math.sqrt(head_dim))), key)
        if mask is not None:
            lowest = self.number(float(np.finfo(np.float32).min))
            scores = self.op("Where", mask, scores, lowest)
        return self.op("MatMul", self.op("Softmax", scores, attributes={"axis": -1}), value)

    def joined(self, attended: str, attention: MultiHeadAttention, *shape: int) -> str:
        """(batch, heads, query, head_dim) -> `shape` and the model's dimension"""
        side_by_side = self.op("Transpose", attended, attributes={"perm": [0, 2, 1, 3]})
        flat = self.op("Reshape", side_by_side, self.integers(*shape, attention.width))
        return self.linear(flat, attention.output)

    def query_key_value(self, x: str, attention: MultiHeadAttention, turns: Turns | None) -> tuple[str, str, str]:
        """Queries, keys and values of self-attention in one product, (batch, heads, time, head_dim) each."""
        weight = torch.cat([attention.query.weight, attention.key_value.weight])
        bias = torch.cat([attention.query.bias, attention.key_value.bias])
        product = self.op("Add", self.times(x, weight), self.tensor(bias))
        query, key, value = (self.heads(part, attention) for part in self.split(product, 3))
        return self.rotated(query, turns), self.rotated(key, turns), value

    def rotated(self, x: str, turns: Turns | None) -> str:
        """RotaryPositions.forward"""
        if turns is None:
            return x
        cosine, sine = turns
        first, second = self.split(x, 2)
        other = self.op("Concat", second, first, attributes={"axis": -1})
        return self.op("Add", self.op("Mul", x, cosine), self.op("Mul", other, sine))

    def residual(self, x: str, residual: Residual, sublayer: Callable[[str], str]) -> str:
        if residual.norm_first:
            return self.op("Add", x, sublayer(self.norm(x, residual.norm)))
        return self.norm(self.op("Add", x, sublayer(x)), residual.norm)


def in_8_bits(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Quantize a matrix (rows, columns) to bytes; return it with the scale (rows, 1) of its rows.

    The bytes are unsigned, with 128 for 0: products of unsigned numbers are exact on every processor, those of signed
    and unsigned ones saturate on some.
    """
    scale = weight.abs().amax(1, keepdim=True).clamp(min=1e-12) / 127
    return ((weight / scale).round() + 128).to(torch.uint8), scale
