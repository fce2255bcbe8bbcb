"""A recurrent translator as two ONNX graphs, node by node, like the Transformer's (onnx.py).

The layers are ONNX's own LSTM, GRU and RNN, whose gates stand in another order. A state is handed from step to step as
(rows, 1, width), at first with no time, in place of which what the encoder gave is taken.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from weft.errors import Problem
from weft.export.onnx import Graph
from weft.layers.embedding import TokenEmbedding
from weft.layers.linear import Linear
from weft.layers.recurrence import CELLS, Recurrence
from weft.models.recurrent import RecurrentSeq2Seq, Stack

OPERATORS = {"rnn": "RNN", "lstm": "LSTM", "gru": "GRU"}
GATES = {"rnn": [0], "lstm": [0, 2, 1, 3], "gru": [1, 0, 2]}
"""Our gates in ONNX's order: i, o, f, g and z, r, n."""


def refusals(model: RecurrentSeq2Seq, precision: str) -> Iterator[Problem]:
    """Yield what cannot be written."""
    if precision == "int8":
        yield Problem("--precision", 'int8 is not written for kind = "recurrent"; take fp32')
    for key in ("coverage", "copying"):
        if getattr(model.config, key):
            yield Problem(f"model.{key}", "is not written to ONNX")


def encoder_graph(graph: Graph, model: RecurrentSeq2Seq, longest: int) -> None:
    """Write RecurrentSeq2Seq.encode, and the source as the attention meets it."""
    tokens = graph.input("tokens", np.int64, "sentences", "source")
    mask = graph.op("Not", graph.op("Equal", tokens, graph.integers(model.padding_id)))
    graph.output(mask, "source_mask", np.bool_, "sentences", "source")
    counted = graph.op("Cast", mask, attributes={"to": graph.onnx.TensorProto.INT32})
    lengths = graph.op("ReduceSum", counted, graph.integers(1), attributes={"keepdims": 0})
    x = embedded(graph, model.source_embedding, tokens)
    if model.convolution is not None:
        kept = graph.op("Mul", x, graph.float_of(graph.op("Unsqueeze", mask, graph.integers(2))))
        x = convolved(graph, kept, model.convolution, model.config.convolution)
    ends: list[list[str]] = []

    def layer(number: int, below: str) -> str:
        out, end = recurrent(graph, below, layer_of(model.encoder, number), lengths=lengths)
        ends.append(end)
        return out

    memory = stacked(graph, x, model.encoder, layer)
    states = CELLS[model.config.cell].states
    for number, project in enumerate(each for each in model.begin if isinstance(each, Linear)):
        end = ends[model.config.begins_with(number // states)][number % states]
        graph.output(graph.linear(end, project), f"begin_{number}", np.float32, "sentences", project.out_features)
    if model.config.input_feeding:
        sentences = graph.op("Shape", tokens, attributes={"end": 1})
        shape = graph.op("Concat", sentences, graph.integers(model.config.output_width), attributes={"axis": 0})
        nothing = graph.op("Expand", graph.tensor(torch.zeros(1, 1)), shape)
        graph.output(nothing, "begin_fed", np.float32, "sentences", model.config.output_width)
    if model.attention is not None:
        keys = memory if model.attention.key is None else graph.linear(memory, model.attention.key)
        width = model.config.hidden_dim
        graph.output(keys, "source_key", np.float32, "sentences", "source", width)
        graph.output(memory, "source_value", np.float32, "sentences", "source", model.config.memory_width)


def step_graph(graph: Graph, model: RecurrentSeq2Seq, longest: int) -> None:
    """Write Writing.step: one token for each row, (sentences, rows_per_sentence) in the attention."""
    given = graph.input("tokens", np.int64, "sentences", "rows_per_sentence")
    mask = graph.input("source_mask", np.bool_, "sentences", "source")
    x = embedded(graph, model.target_embedding, graph.op("Reshape", given, graph.integers(-1, 1)))
    config, rows = model.config, graph.op("Shape", given)
    if config.input_feeding:
        fed = newest_state(graph, "fed", rows, model.config.output_width)
        x = graph.op("Concat", x, fed, attributes={"axis": -1})
    states = CELLS[config.cell].states

    def layer(number: int, below: str) -> str:
        names = [str(number * states + each) for each in range(states)]
        begin = [newest_state(graph, name, rows, config.hidden_dim) for name in names]
        out, end = recurrent(graph, below, layer_of(model.decoder, number), begin=begin)
        for name, state in zip(names, end, strict=True):
            keep_state(graph, name, state, config.hidden_dim)
        return out

    hidden = stacked(graph, x, model.decoder, layer)  # (rows, 1, hidden)
    if model.attention is not None:
        context = attended(graph, hidden, model, mask, rows)
        hidden = graph.op("Concat", context, hidden, attributes={"axis": -1})
    combined = graph.op("Tanh", graph.linear(hidden, model.combine))
    if config.input_feeding:
        keep_state(graph, "fed", graph.op("Squeeze", combined, graph.integers(1)), model.config.output_width)
    logits = graph.linear(graph.op("Squeeze", combined, graph.integers(1)), model.output)
    log_probs = graph.op("LogSoftmax", logits, attributes={"axis": -1})
    graph.output(log_probs, "log_probs", np.float32, "rows", model.output.out_features)


def attended(graph: Graph, hidden: str, model: RecurrentSeq2Seq, mask: str, rows: str) -> str:
    """SourceAttention.forward, (rows, 1, memory)."""
    assert model.attention is not None
    width = model.config.hidden_dim
    keys = graph.input("source_key", np.float32, "sentences", "source", width)
    values = graph.input("source_value", np.float32, "sentences", "source", model.config.memory_width)
    query = graph.op("Reshape", hidden, graph.op("Concat", rows, graph.integers(width), attributes={"axis": 0}))
    if model.attention.query is not None and model.attention.weight is not None:
        query = graph.op("Unsqueeze", graph.linear(query, model.attention.query), graph.integers(2))
        together = graph.op("Tanh", graph.op("Add", query, graph.op("Unsqueeze", keys, graph.integers(1))))
        scores = graph.op("Squeeze", graph.linear(together, model.attention.weight), graph.integers(3))
    else:
        upright = graph.op("Transpose", keys, attributes={"perm": [0, 2, 1]})
        scores = graph.op("Mul", graph.op("MatMul", query, upright), graph.number(model.attention.scale))
    lowest = graph.number(float(np.finfo(np.float32).min))
    scores = graph.op("Where", graph.op("Unsqueeze", mask, graph.integers(1)), scores, lowest)
    context = graph.op("MatMul", graph.op("Softmax", scores, attributes={"axis": -1}), values)
    return graph.op("Reshape", context, graph.integers(-1, 1, model.config.memory_width))


def newest_state(graph: Graph, name: str, rows: str, width: int) -> str:
    """A state after the last step, (rows, 1, width): the one that was kept, else the sentence's first."""
    begin = graph.input(f"begin_{name}", np.float32, "sentences", width)
    kept = graph.input(f"state_{name}", np.float32, "rows", "time", width)
    shape = graph.op("Concat", rows, graph.integers(width), attributes={"axis": 0})
    for_rows = graph.op("Expand", graph.op("Unsqueeze", begin, graph.integers(1)), shape)
    first = graph.op("Reshape", for_rows, graph.integers(-1, 1, width))
    both = graph.op("Concat", first, kept, attributes={"axis": 1})
    return graph.op("Gather", both, graph.integers(-1), attributes={"axis": 1})


def keep_state(graph: Graph, name: str, state: str, width: int) -> None:
    """Hand a state (rows, width) to the next step."""
    kept = graph.op("Unsqueeze", state, graph.integers(1))
    graph.output(kept, f"new_state_{name}", np.float32, "rows", "new_time", width)


def embedded(graph: Graph, embedding: TokenEmbedding, tokens: str) -> str:
    return graph.op("Mul", graph.rows_of(embedding.weight, tokens), graph.number(embedding.scale))


def convolved(graph: Graph, x: str, convolution: Linear, window: int) -> str:
    """The convolution of RecurrentSeq2Seq.encode, whose matrix has the window as its inner dimension."""
    before = (window - 1) // 2
    padded = graph.op("Pad", x, graph.integers(0, before, 0, 0, window - 1 - before, 0))
    time = graph.op("Shape", x, attributes={"start": 1, "end": 2})
    shifted = []
    for place in range(window):
        end = graph.op("Add", time, graph.integers(place))
        shifted.append(graph.op("Slice", padded, graph.integers(place), end, graph.integers(1)))
    together = graph.op("Concat", *shifted, attributes={"axis": -1})
    weight = convolution.weight.unflatten(1, (-1, window)).transpose(1, 2).flatten(1)
    return graph.op("Add", graph.times(together, weight), graph.tensor(convolution.bias))


def stacked(graph: Graph, x: str, stack: Stack, layer: Callable[[int, str], str]) -> str:
    """Stack.forward"""
    for number, gate in enumerate(stack.gates):
        y, is_last = layer(number, x), number + 1 == len(stack.gates)
        inputs, outputs = layer_of(stack, number).weight.size(1), stack.width
        if stack.connections == "dense" and not is_last:
            x = graph.op("Concat", x, y, attributes={"axis": -1})
        elif stack.connections == "residual" and inputs == outputs:
            x = graph.op("Add", x, y)
        elif isinstance(gate, Linear):
            share = graph.op("Sigmoid", graph.linear(x, gate))
            x = graph.op("Add", x, graph.op("Mul", share, graph.op("Sub", y, x)))
        else:
            x = y
    return x


def recurrent(
    graph: Graph, x: str, layer: Recurrence, *, lengths: str = "", begin: Sequence[str] = ()
) -> tuple[str, list[str]]:
    """Recurrence.forward: the outputs (batch, time, outputs) and the last states (batch, state); `begin` holds states
    (batch, 1, width)."""
    order, directions = GATES[layer.cell], layer.directions

    def gates(parameter: Tensor) -> Tensor:
        return parameter.detach().unflatten(0, (directions, len(order), -1))[:, order].flatten(1, 2)

    of_state = torch.zeros_like(gates(layer.bias))
    if layer.recurrent_bias is not None:
        of_state[:, -layer.width :] = layer.recurrent_bias.detach().unflatten(0, (directions, -1))
    weights = [gates(layer.weight), gates(layer.recurrent_weight), torch.cat([gates(layer.bias), of_state], 1)]
    by_time = graph.op("Transpose", x, attributes={"perm": [1, 0, 2]})
    states = [graph.op("Transpose", state, attributes={"perm": [1, 0, 2]}) for state in begin]
    out, *ends = graph.ops(
        OPERATORS[layer.cell],
        *(by_time, *map(graph.tensor, weights), lengths, *states),
        results=1 + CELLS[layer.cell].states,
        attributes={
            "hidden_size": layer.width,
            "direction": "bidirectional" if directions == 2 else "forward",
            **({"linear_before_reset": 1} if layer.cell == "gru" else {}),
        },
    )
    turned = graph.op("Transpose", out, attributes={"perm": [2, 0, 1, 3]})  # (batch, time, directions, width)
    width = directions * layer.width
    joined = [
        graph.op("Reshape", graph.op("Transpose", end, attributes={"perm": [1, 0, 2]}), graph.integers(-1, width))
        for end in ends
    ]
    return graph.op("Reshape", turned, graph.integers(0, 0, width)), joined


def layer_of(stack: Stack, number: int) -> Recurrence:
    layer = stack.layers[number]
    assert isinstance(layer, Recurrence)
    return layer
