"""What a Transformer costs before it has run: its numbers and its multiply-adds, room by room.

The rooms are `embeddings` (positions that are learned among them), `encoder`, `decoder` and `output`. What is counted
follows from the modules' shapes; this file knows no clock and no machine.
"""

import numpy as np
from jaxtyping import Int
from torch import nn

from weft.models.transformer import Transformer

ROOMS = {
    "source_embedding": "embeddings",
    "target_embedding": "embeddings",
    "source_positions": "embeddings",
    "target_positions": "embeddings",
    "encoder": "encoder",
    "encoder_norm": "encoder",
    "decoder": "decoder",
    "decoder_norm": "decoder",
    "output": "output",
}
"""Part of the model -> the room that its numbers are counted in."""

PRODUCTS_IN_AN_UPDATE = 3
"""Matrix products of an update for each one of its forward pass.

Y = X W needs two more on the way back, dX = dY W^T and dW = X^T dY; the same holds for the two products of attention,
where both factors have a gradient.
"""


def parameters_by_room(model: Transformer) -> dict[str, int]:
    """Trainable numbers; a tied matrix counts once, in the first room that has it, so a tied output has none."""
    counted = dict.fromkeys(ROOMS.values(), 0)
    for name, parameter in model.named_parameters():  # each parameter once, under the first of its names
        counted[ROOMS[name.partition(".")[0]]] += parameter.numel()
    return counted


def multiply_adds_by_room(
    model: Transformer, sources: Int[np.ndarray, " pairs"], targets: Int[np.ndarray, " pairs"]
) -> dict[str, int]:
    """Multiply-adds of a forward pass over pairs of these lengths: source tokens with </s>, target tokens predicted.

    With E the numbers in the matrices of the encoder, D in those of the decoder, M in those of its matrices that look
    at the source, d the width, V the target vocabulary, and L layers, a pair of S source and T target tokens takes

        encoder   S E + L_enc 2 S^2 d
        decoder   T (D - M) + S M + L_dec (2 T^2 d + 2 T S d)
        output    T V d

    One multiply-add is one product and its sum (two floating-point operations). Only matrix products count: looking up
    an embedding takes none, and biases, norms, activations, soft-max and dropout are left out. Attention counts whole,
    its masked half too, for that is what is computed. Padding does not count, and a layer that layer dropout may leave
    out does.
    """
    source, target = int(sources.sum()), int(targets.sum())
    source_squared, target_squared = int((sources * sources).sum()), int((targets * targets).sum())
    width = model.config.model_dim
    encoder, decoder = matrix_entries(model.encoder), matrix_entries(model.decoder)
    of_memory = sum(matrix_entries(layer.get_submodule("cross_attention.key_value")) for layer in model.decoder)
    looked_at = target_squared + int((targets * sources).sum())
    return {
        "embeddings": 0,
        "encoder": source * encoder + len(model.encoder) * 2 * source_squared * width,
        "decoder": target * (decoder - of_memory) + source * of_memory + len(model.decoder) * 2 * looked_at * width,
        "output": target * matrix_entries(model.output),
    }


def matrix_entries(module: nn.Module) -> int:
    """Numbers in the matrices of all linear maps of a module: its multiply-adds for one token."""
    return sum(part.weight.numel() for part in module.modules() if isinstance(part, nn.Linear))
