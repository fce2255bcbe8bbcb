"""What a network costs before it has run, by part: `embeddings` (learned positions included), `encoder`, `decoder`,
`output`, and parts of other networks by their own names. Multiply-adds are counted by `ModelSettings.multiply_adds`.
"""

from torch import nn

PARTS = {
    "source_embedding": "embeddings",
    "target_embedding": "embeddings",
    "source_positions": "embeddings",
    "target_positions": "embeddings",
    "encoder_norm": "encoder",
    "decoder_norm": "decoder",
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
