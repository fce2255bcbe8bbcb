"""Several models as one step function: the mean of their probabilities."""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from weft.decoding.step import StepFunction


class Ensemble:
    """A step function of several over the same sentences and the same target vocabulary.

    The probability of a piece is the mean of the members' probabilities, which is a distribution (the mean of
    log-probabilities is not). Each member may read its own form of the source.
    """

    def __init__(self, members: Sequence[StepFunction]) -> None:
        self.members = members

    def step(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        log_probs = torch.stack([member.step(tokens) for member in self.members])  # (members, rows, vocab)
        return log_probs.logsumexp(0) - math.log(len(self.members))

    def reorder(self, rows: Int[Tensor, " new_rows"]) -> None:
        for member in self.members:
            member.reorder(rows)
