"""What a network costs before it has run: its parameters and its multiply-adds, by part.

The parts are `embeddings` (learned positions included), `encoder`, `decoder`, `output`, and of other networks what they
are called there. What is counted follows from shapes alone.
"""

import numpy as np
from jaxtyping import Int
from torch import nn

PARTS = {
    "source_embedding": "embeddings",
    "target_embedding": "embeddings",
    "source_positions": "embeddings",
    "target_positions": "embeddings",
    "embedding": "embeddings",
    "positions": "embeddings",
    "norm": "layers",
    "encoder_norm": "encoder",
    "decoder_norm": "decoder",
    "convolution": "encoder",
    "begin": "decoder",
    "attention": "decoder",
    "combine": "decoder",
    "gate": "decoder",
}
"""Submodule -> the part in which its parameters are counted, where that has another name."""

PRODUCTS_IN_AN_UPDATE = 3
"""Matrix products of an update for each one of its forward pass.

Y = X W needs two more on the way back, dX = dY W^T and dW = X^T dY; the same holds for the two products of attention,
where both factors have a gradient.
"""


def parameters_by_part(network: nn.Module) -> dict[str, int]:
    """Trainable numbers; a tied matrix counts once, in the first part that has it, so a tied output has none."""
    counted = {
        PARTS.get(name, name): 0 for name, child in network.named_children() if any(True for _ in child.parameters())
    }
    for name, parameter in network.named_parameters():  # each parameter once, under the first of its names
        submodule = name.partition(".")[0]
        counted[PARTS.get(submodule, submodule)] += parameter.numel()
    return counted


def multiply_adds(
    *,
    width: int,
    feed_forward: int,
    layers: tuple[int, int],
    attention_steps: int = 1,
    vocab_size: int,
    sources: Int[np.ndarray, " pairs"],
    targets: Int[np.ndarray, " pairs"],
) -> dict[str, int]:
    """Multiply-adds of a Transformer over pairs of these lengths: source tokens with </s>, target tokens to predict.

    With d the width, F the entries of the matrices of a feed-forward network, V the target vocabulary, n steps of
    attention and L layers, a pair of S source and T target tokens takes

        encoder   L_enc (S (4 d^2 + F) + 2 n S^2 d)
        decoder   L_dec (T (6 d^2 + F) + S 2 d^2 + 2 n T^2 d + 2 n T S d)
        output    T V d

    One multiply-add is one product and its sum (two floating-point operations). Only matrix products count: looking up
    an embedding takes none, and biases, norms, activations, soft-max and dropout are left out. Attention counts whole,
    its masked half too, for that is what is computed. Padding does not count, and a layer that layer dropout may skip
    does.
    """
    source, target, square = int(sources.sum()), int(targets.sum()), width**2
    seen_by_source = attention_steps * int((sources * sources).sum())
    seen_by_target = attention_steps * (int((targets * targets).sum()) + int((targets * sources).sum()))
    of_encoder = source * (4 * square + feed_forward) + 2 * seen_by_source * width
    of_decoder = target * (6 * square + feed_forward) + 2 * source * square + 2 * seen_by_target * width
    return {
        "embeddings": 0,
        "encoder": layers[0] * of_encoder,
        "decoder": layers[1] * of_decoder,
        "output": target * vocab_size * width,
    }
