"""The modern Hopfield network, whose update is attention (Ramsauer et al. 2021, "Hopfield Networks is All You Need").

    E(x) = -1/beta log sum over mu of exp(beta xi^mu . x) + 1/2 x . x     (1.19)
    update  x = Xi^T softmax(beta Xi x)

Xi has a pattern a row, and states are real. With queries as states, keys as patterns and beta = 1/sqrt(d) one update is
softmax(Q K^T / sqrt(d)) K: the attention of layers/attention.py, with keys as values.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class ModernHopfield:
    patterns: Float[Tensor, "patterns dim"]
    beta: float

    def energy(self, states: Float[Tensor, "batch dim"]) -> Float[Tensor, " batch"]:
        """E(x) of (1.19)."""
        scores = self.beta * states @ self.patterns.T
        return -scores.logsumexp(1) / self.beta + 0.5 * states.square().sum(1)

    def weights(self, states: Float[Tensor, "batch dim"]) -> Float[Tensor, "batch patterns"]:
        """How much each pattern contributes to the update."""
        return torch.softmax(self.beta * states @ self.patterns.T, 1)

    def update(self, states: Float[Tensor, "batch dim"], steps: int = 1) -> Float[Tensor, "batch dim"]:
        """The states after `steps` updates, none of which raises the energy."""
        for _ in range(steps):
            states = self.weights(states) @ self.patterns
        return states


def effective_patterns(weights: Float[Tensor, "*rows patterns"]) -> Float[Tensor, "*rows"]:
    """exp of the entropy of each row: 1 for one pattern, M for the mean of M patterns."""
    return torch.special.entr(weights).sum(-1).exp()


def regime(
    effective: Float[Tensor, " rows"], allowed: Float[Tensor, " rows"]
) -> Literal["retrieving", "clustering", "averaging"]:
    """What an attention head does, from the `effective_patterns` of some queries, of which each may see `allowed` keys.

    `retrieving`: half of the queries take less than two keys' worth. `averaging`: half take more than half of their
    keys. Otherwise `clustering`: means of some keys, metastable states of the energy. Queries of one key do not count.
    """
    effective, allowed = effective[allowed > 1], allowed[allowed > 1]
    if not len(effective) or float((effective / allowed).median()) > 0.5:
        return "averaging"
    return "retrieving" if float(effective.median()) < 2 else "clustering"
