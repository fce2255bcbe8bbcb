"""Training losses that are too low to be true, and their likely cause."""

import torch
from jaxtyping import Int
from torch import Tensor

from weft.models.language_model import Autoregressive
from weft.text.vocabulary import FIRST_PIECE

FAR_BELOW = 0.5
"""A training loss below this share of the validation loss is named."""
ROUNDING = 1e-2
"""Difference of vectors, compared with their size, that is not taken for a change."""


def with_other_end(tokens: Int[Tensor, "batch time"], vocab_size: int) -> Int[Tensor, "batch time"]:
    """Exchange every token of the second half for another piece of the vocabulary."""
    half, pieces = tokens.size(1) // 2, vocab_size - FIRST_PIECE
    other = FIRST_PIECE + (tokens - FIRST_PIECE + max(1, pieces // 3)) % pieces
    return torch.cat([tokens[:, :half], other[:, half:]], dim=1)


def sees_later_tokens(network: Autoregressive, tokens: Int[Tensor, "1 time"]) -> bool:
    """Whether vectors of the first half of a text change when only tokens of its second half do.

    This is the fault of a wrong mask, or of an operation that mixes places, such as a reshape. It lowers the loss of
    training and of validation alike, because both show the network all tokens; a search cannot.
    """
    half, changed = tokens.size(1) // 2, with_other_end(tokens, len(network.output.weight))
    with torch.inference_mode():
        before, after = (network(each)[:, :half].float() for each in (tokens, changed))
    return bool((before - after).abs().max() > ROUNDING * before.abs().max())


def suspicion(network: Autoregressive, tokens: Int[Tensor, "1 time"], training: float, validation: float) -> str | None:
    """What is wrong with these losses, in nats a piece; None if nothing is. `tokens` are some of the held-out text."""
    if tokens.size(1) > 3 and sees_later_tokens(network, tokens):
        return (
            "the network sees the pieces that it is to predict, since its vectors change when only later pieces do, so "
            f"its losses are too low to be true (in training {training:.3f} nats); look for a wrong mask, or for an "
            "operation that mixes places, such as a reshape"
        )
    if training < FAR_BELOW * validation:
        return (
            f"the training loss of {training:.3f} nats is far below the validation loss of {validation:.3f}: the "
            "network learns the training text by heart; more text, more dropout or fewer epochs help"
        )
    return None
