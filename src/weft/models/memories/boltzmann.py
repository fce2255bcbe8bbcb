"""The Boltzmann machine: a Hopfield network at temperature 1, with hidden units and a learning rule.

Ackley, Hinton and Sejnowski 1985, "A learning algorithm for Boltzmann machines".

    p(v) = sum over h of exp(-E(v, h)) / Z
    d log p(v) / d W_ij = <s_i s_j>_clamped - <s_i s_j>_free              (1.14)

The clamped phase holds the visible units at the data, the free phase holds nothing.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from weft.models.memories.annealing import anneal
from weft.models.memories.hopfield import Energies, States, Weights, energy

TEMPERATURES = (4.0, 2.8, 2.0, 1.4, *(1.0,) * 16)
"""Sweeps from hot to the temperature of the model, for a phase that is sampled."""


def all_states(
    units: int, low: float = -1.0, first: int = 0, count: int | None = None
) -> Float[Tensor, "states units"]:
    """Every state of up to 24 units, each `low` or 1, in fp64; or `count` of them from number `first` on."""
    if units > 24:
        raise ValueError(f"{units} units have 2^{units} states; at most 24 units can be enumerated")
    numbers = torch.arange(first, 2**units if count is None else min(2**units, first + count))
    return low + (1.0 - low) * ((numbers[:, None] >> torch.arange(units - 1, -1, -1)) & 1).double()


class BoltzmannMachine(nn.Module):
    """Spins -1 and +1, the visible ones first, each coupled to every other."""

    def __init__(self, visible: int, hidden: int = 0) -> None:
        super().__init__()
        self.visible, self.hidden = visible, hidden
        self.couplings = nn.Parameter(0.1 * torch.randn(visible + hidden, visible + hidden))
        """Only those above the diagonal count."""
        self.biases = nn.Parameter(torch.zeros(visible + hidden))

    def weights(self) -> Weights:
        upper = self.couplings.triu(1)
        return upper + upper.T

    def energy(self, states: States) -> Energies:
        """E(s) = -1/2 s^T W s - b . s."""
        return energy(states, self.weights(), -self.biases)

    def log_prob(self, visible: Float[Tensor, "batch visible"]) -> Float[Tensor, " batch"]:
        """log p(v), by enumeration: a sum over all states of the hidden units, less one over all states.

        Raises:
            ValueError: for more than 24 units.
        """
        hidden, free = (all_states(units).to(visible.dtype) for units in (self.hidden, len(self.biases)))
        clamped = torch.cat([visible.repeat_interleave(len(hidden), 0), hidden.repeat(len(visible), 1)], 1)
        return self.energy(clamped).neg().view(len(visible), -1).logsumexp(1) - self.energy(free).neg().logsumexp(0)

    def contrast(self, visible: Float[Tensor, "batch visible"]) -> Float[Tensor, " batch"]:
        """E of an annealed clamped sample less E of an annealed free one; its mean gradient is minus (1.14)."""
        weights, thresholds = self.weights().detach(), -self.biases.detach()
        random = torch.randint(0, 2, (len(visible), len(self.biases))).to(visible.dtype) * 2 - 1
        beginning = torch.cat([visible, random[:, self.visible :]], 1)
        clamped, _ = anneal(beginning, weights, thresholds, TEMPERATURES, clamped=self.visible)
        free, _ = anneal(random, weights, thresholds, TEMPERATURES)
        return self.energy(clamped) - self.energy(free)
