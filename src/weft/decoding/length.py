"""Length penalties: a sum of log-probabilities falls with every piece, so unequal hypotheses need a fair measure.

Each is a divisor of the summed log-probability, given the hypothesis's length (pieces and </s>) and the source's length
(pieces). All grow with the hypothesis's length, which gives search its bound: since a sum of log-probabilities can only
fall, no open hypothesis can ever score above its present sum divided by the divisor at the maximum length.
"""

from collections.abc import Callable

from jaxtyping import Float, Int
from torch import Tensor

# (hypothesis lengths, source lengths, power) -> divisor; the arguments broadcast against each other
LengthPenalty = Callable[[Tensor, Tensor, float], Tensor]


def no_penalty(length: Int[Tensor, "*n"], source_length: Int[Tensor, "*m"], power: float) -> Float[Tensor, "*k"]:
    """The plain sum, which favors short translations."""
    return (length + source_length).float() * 0 + 1


def fixed_power(length: Int[Tensor, "*n"], source_length: Int[Tensor, "*m"], power: float) -> Float[Tensor, "*k"]:
    """length^p; p = 1 is the mean log-probability."""
    return (length + 0 * source_length).float() ** power


def gnmt(length: Int[Tensor, "*n"], source_length: Int[Tensor, "*m"], power: float) -> Float[Tensor, "*k"]:
    """((5 + length) / 6)^alpha (Wu et al. 2016, equation 14)."""
    return ((5 + length + 0 * source_length).float() / 6) ** power


def adaptive(length: Int[Tensor, "*n"], source_length: Int[Tensor, "*m"], power: float) -> Float[Tensor, "*k"]:
    """length^p with p = 0.5 + 0.01 min(source length, 30), kept within [0.5, 0.8]: long sources punish length less."""
    return length.float() ** (0.5 + 0.01 * source_length.clamp(max=30)).clamp(0.5, 0.8)


LENGTH_PENALTIES: dict[str, LengthPenalty] = {
    "none": no_penalty,
    "fixed": fixed_power,
    "gnmt": gnmt,
    "adaptive": adaptive,
}
