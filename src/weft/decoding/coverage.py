"""The coverage penalty (Wu et al. 2016, equation 14): what is lost by source tokens that a translation never looked at.

    penalty = weight * sum over source tokens of log(min(attention that the token had in all steps, 1))

It is 0 where every token had its share, and never positive, so the bounds of beam search hold with it.
"""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from weft.decoding.step import AttendingStepFunction

LEAST_ATTENTION = 1e-6
"""A token that had less counts as having had so much: no single token makes a translation impossible."""


@dataclass(frozen=True)
class Coverage:
    """How much coverage is worth, and the model that tells where it looks."""

    weight: float
    model: AttendingStepFunction

    def at_first(self, beam_size: int) -> Float[Tensor, "sentences beam source"]:
        """Nothing; padding is covered from the beginning."""
        return (~self.model.source_mask()).float()[:, None].repeat(1, beam_size, 1)

    def newest(self, beam_size: int) -> Float[Tensor, "sentences beam source"]:
        """What the last step adds."""
        return self.model.source_attention().unflatten(0, (-1, beam_size))

    def score(self, coverage: Float[Tensor, "sentences beam source"]) -> Float[Tensor, "sentences beam"]:
        return self.weight * coverage.clamp(LEAST_ATTENTION, 1.0).log().sum(-1)
