"""All states of a small network, for sums that are exact."""

import torch
from jaxtyping import Float
from torch import Tensor

MOST_UNITS = 24
"""2^24 states of 24 numbers take 3 GB; more units than that are not enumerated."""


def all_states(
    units: int, low: float = -1.0, *, first: int = 0, count: int | None = None
) -> Float[Tensor, "states units"]:
    """Every state of this many units, each `low` or 1, in fp64; the first unit changes slowest.

    `first` and `count` select a block of the list. Raises ValueError for more than MOST_UNITS units.
    """
    if units > MOST_UNITS:
        raise ValueError(f"{units} units have 2^{units} states; at most {MOST_UNITS} units can be enumerated")
    end = 2**units if count is None else min(2**units, first + count)
    places = torch.arange(units - 1, -1, -1)
    bits = (torch.arange(first, end)[:, None] >> places) & 1
    return low + (1.0 - low) * bits.double()


def boltzmann(energies: Float[Tensor, " states"], temperature: float = 1.0) -> Float[Tensor, " states"]:
    """p(s) = exp(-E(s) / T) / Z, where Z sums over the given states (1.4)."""
    return torch.softmax(-energies / temperature, -1)
