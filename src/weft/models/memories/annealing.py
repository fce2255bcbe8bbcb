"""Simulated annealing: cool a network slowly, and it ends in a low minimum (Kirkpatrick, Gelatt and Vecchi 1983).

T_t = T_0 (T_1 / T_0)^(t / (n - 1))   geometric                       (1.13)
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from weft.models.memories.hopfield import energy, sweep


def geometric(hot: float, cold: float, sweeps: int) -> list[float]:
    """Temperatures that fall by the same factor at each sweep."""
    return [hot * (cold / hot) ** (t / max(1, sweeps - 1)) for t in range(sweeps)]


def linear(hot: float, cold: float, sweeps: int) -> list[float]:
    """Temperatures that fall by the same amount at each sweep."""
    return [hot + (cold - hot) * t / max(1, sweeps - 1) for t in range(sweeps)]


@dataclass(frozen=True)
class Annealed:
    states: Float[Tensor, "batch units"]
    """The states after the last sweep."""
    best: Float[Tensor, "batch units"]
    """The state of lowest energy of each row, among those that sweeps ended in."""
    energies: Float[Tensor, "sweeps batch"]
    """The energies after each sweep."""


def anneal(
    states: Float[Tensor, "batch units"],
    weights: Float[Tensor, "units units"],
    thresholds: Float[Tensor, " units"],
    temperatures: Sequence[float],
    *,
    clamped: int = 0,
) -> Annealed:
    """Sweep once at each temperature (hopfield.py); a schedule that ends at 0 ends in a minimum.

    The energy is -1/2 s^T W s + theta . s of spins -1 and +1. Many problems can be written so: to cut a graph's edges
    A into as many as possible, let W = -A.
    """
    best, lowest, energies = states, energy(states, weights, thresholds), []
    for temperature in temperatures:
        states = sweep(states, weights, thresholds, temperature, clamped=clamped)
        energies.append(energy(states, weights, thresholds))
        is_lower = energies[-1] < lowest
        best, lowest = torch.where(is_lower[:, None], states, best), torch.minimum(energies[-1], lowest)
    return Annealed(states, best, torch.stack(energies))
