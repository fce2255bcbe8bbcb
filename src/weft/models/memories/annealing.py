"""Simulated annealing: cool a network slowly, and it ends in a low minimum (Kirkpatrick, Gelatt and Vecchi 1983).

T_t = T_0 (T_1 / T_0)^(t / (n - 1))   geometric                       (1.13)
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from weft.models.memories.hopfield import States, Thresholds, Weights, check_couplings, energy, sweep


def geometric(hot: float, cold: float, sweeps: int) -> list[float]:
    """Temperatures above 0 that fall by the same factor at each sweep; 0 cannot be reached so, and is a ValueError."""
    if min(hot, cold) <= 0:
        raise ValueError(f"expected temperatures above 0, not {hot} and {cold}; add a last sweep at 0 to the schedule")
    return [hot * (cold / hot) ** (t / max(1, sweeps - 1)) for t in range(sweeps)]


def anneal(
    states: States, weights: Weights, thresholds: Thresholds, temperatures: Sequence[float], clamped: int = 0
) -> tuple[States, Float[Tensor, "sweeps batch"]]:
    """Sweep once at each temperature; returns the last states, and the energies after each sweep.

    The energy is -1/2 s^T W s + theta . s of spins -1 and +1 (hopfield.py), W symmetric with a zero diagonal, else
    ValueError. Many problems can be written so: to cut as many of a graph's edges A as possible, let W = -A. End a
    schedule with 0 to end in a minimum.
    """
    check_couplings(weights)
    energies = []
    for temperature in temperatures:
        states = sweep(states, weights, thresholds, temperature, clamped)
        energies.append(energy(states, weights, thresholds))
    return states, torch.stack(energies)
