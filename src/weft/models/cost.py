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
    heads_width: tuple[int, ...],
    attention_steps: int = 1,
    vocab_size: int,
    sources: Int[np.ndarray, " pairs"],
    targets: Int[np.ndarray, " pairs"],
) -> dict[str, int]:
    """Multiply-adds of a Transformer over pairs of these lengths: source tokens with </s>, target tokens to predict.

    With d the width, F the entries of the matrices of a feed-forward network, V the target vocabulary, n steps of
    attention, L layers, and E, D and C the width of all heads (`heads_width`) of the encoder's and the decoder's
    self-attention and of the attention to the source (L d where none was cut out), a pair of S source and T target
    tokens takes

        encoder   S (4 d E + L_enc F) + 2 n S^2 E
        decoder   T (4 d D + 2 d C + L_dec F) + S 2 d C + 2 n T^2 D + 2 n T S C
        output    T V d

    One multiply-add is one product and its sum (two floating-point operations). Only matrix products count: looking up
    an embedding takes none, and biases, norms, activations, soft-max and dropout are left out. Attention counts whole,
    its masked half too, for that is what is computed. Padding does not count, and a layer that layer dropout may skip
    does.
    """
    source, target = int(sources.sum()), int(targets.sum())
    encoder, decoder, cross = heads_width
    seen = 2 * attention_steps * encoder * int((sources * sources).sum())
    seen_by_target = decoder * int((targets * targets).sum()) + cross * int((targets * sources).sum())
    of_encoder = source * (4 * width * encoder + layers[0] * feed_forward) + seen
    of_decoder = target * (4 * width * decoder + 2 * width * cross + layers[1] * feed_forward)
    of_decoder += 2 * source * width * cross + 2 * attention_steps * seen_by_target
    return {
        "embeddings": 0,
        "encoder": of_encoder,
        "decoder": of_decoder,
        "output": target * vocab_size * width,
    }
