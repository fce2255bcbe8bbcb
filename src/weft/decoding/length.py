"""Length penalties: a sum of log-probabilities falls with every piece, so hypotheses of unequal length need scores.

A length penalty is a divisor of the summed log-probability, given the hypothesis's length (pieces and </s>) and the
source's length (pieces). All grow with the hypothesis's length; so does a word reward, which is added. That gives
search its bound: since a sum of log-probabilities can only fall, no open hypothesis can score above its current sum
at the maximum length.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

# (hypothesis lengths, source lengths that broadcast against them, power) -> divisors, one for each hypothesis
LengthPenalty = Callable[[Tensor, Tensor, float], Tensor]

LENGTH_PENALTIES: dict[str, LengthPenalty] = {
    # 1: the score is the plain sum, which favors short translations.
    "none": lambda length, source_length, power: torch.ones_like(length, dtype=torch.float32),
    # length: the score is the mean log-probability of a piece.
    "average": lambda length, source_length, power: length.float(),
    # length^p; p = 1 is `average`.
    "fixed": lambda length, source_length, power: length.float() ** power,
    # ((5 + length) / 6)^alpha (Wu et al. 2016, equation 14).
    "gnmt": lambda length, source_length, power: ((5 + length).float() / 6) ** power,
    # length^p with p = 0.5 + 0.01 min(source length, 30), so from 0.5 to 0.8: long sources punish length less.
    "adaptive": lambda length, source_length, power: length.float() ** (0.5 + 0.01 * source_length.clamp(max=30)),
}


@dataclass(frozen=True)
class Scoring:
    """How hypotheses of unequal length are ranked: log_prob / divisor + word_reward * length.

    The reward of a word (He et al. 2016; Murray and Chiang 2018) is in nats a piece, </s> counted as in the divisors.
    """

    length_penalty: str = "none"
    length_power: float = 1.0
    word_reward: float = 0.0

    def __call__(
        self, log_prob: Float[Tensor, "*n"], length: Int[Tensor, "*#n"], source_length: Int[Tensor, "*#n"]
    ) -> Float[Tensor, "*n"]:
        score = log_prob / LENGTH_PENALTIES[self.length_penalty](length, source_length, self.length_power)
        return score + self.word_reward * length if self.word_reward else score


PLAIN_SUM = Scoring()
"""The log-probability itself."""
