"""Length penalties: a sum of log-probabilities falls with every piece, so unequal hypotheses need a fair measure.

Each is a divisor of the summed log-probability, given the hypothesis's length (pieces and </s>) and the source's length
(pieces). All grow with the hypothesis's length, which gives search its bound: since a sum of log-probabilities can only
fall, no open hypothesis can ever score above its present sum divided by the divisor at the maximum length.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

# (hypothesis lengths, source lengths that broadcast against them, power) -> divisors, one for each hypothesis
LengthPenalty = Callable[[Tensor, Tensor, float], Tensor]


def no_penalty(length: Int[Tensor, "*n"], source_length: Int[Tensor, "*#n"], power: float) -> Float[Tensor, "*n"]:
    """1: the score is the plain sum, which favors short translations."""
    return torch.ones_like(length, dtype=torch.float32)


def fixed_power(length: Int[Tensor, "*n"], source_length: Int[Tensor, "*#n"], power: float) -> Float[Tensor, "*n"]:
    """length^p; p = 1 is the mean log-probability."""
    return length.float() ** power


def gnmt(length: Int[Tensor, "*n"], source_length: Int[Tensor, "*#n"], power: float) -> Float[Tensor, "*n"]:
    """((5 + length) / 6)^alpha (Wu et al. 2016, equation 14)."""
    return ((5 + length).float() / 6) ** power


def adaptive(length: Int[Tensor, "*n"], source_length: Int[Tensor, "*#n"], power: float) -> Float[Tensor, "*n"]:
    """length^p with p = 0.5 + 0.01 min(source length, 30), so from 0.5 to 0.8: long sources punish length less."""
    return length.float() ** (0.5 + 0.01 * source_length.clamp(max=30))


LENGTH_PENALTIES: dict[str, LengthPenalty] = {
    "none": no_penalty,
    "fixed": fixed_power,
    "gnmt": gnmt,
    "adaptive": adaptive,
}
