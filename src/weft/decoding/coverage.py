"""The coverage penalty (Wu et al. 2016, equation 14): the price of source tokens that received no attention.

    penalty = weight * sum over source tokens of log(min(attention that the token received in all steps, 1))

It is 0 where every token had its share, and never positive, so the bounds of beam search hold with it.
"""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from weft.decoding.step import AttendingStepFunction

LEAST_ATTENTION = 1e-6
"""The attention of a token counts as at least this much, so that no single token makes a translation impossible."""


@dataclass(frozen=True)
class Coverage:
    """The weight of the penalty, and the step function that tells its attention."""

    weight: float
    model: AttendingStepFunction

    def at_first(self, beam_size: int) -> Float[Tensor, "sentences beam source"]:
        """The coverage before the first step: 0 for tokens, 1 for padding."""
        return (~self.model.source_mask()).float()[:, None].repeat(1, beam_size, 1)

    def newest(self, beam_size: int) -> Float[Tensor, "sentences beam source"]:
        """The attention of the last step, to be added to the coverage."""
        return self.model.source_attention().unflatten(0, (-1, beam_size))

    def score(self, coverage: Float[Tensor, "sentences beam source"]) -> Float[Tensor, "sentences beam"]:
        return self.weight * coverage.clamp(LEAST_ATTENTION, 1.0).log().sum(-1)
