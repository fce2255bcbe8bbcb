"""All states of a small network, for sums that are exact."""

import torch
from jaxtyping import Float
from torch import Tensor


def all_states(
    units: int, low: float = -1.0, first: int = 0, count: int | None = None
) -> Float[Tensor, "states units"]:
    """Every state of up to 24 units, each `low` or 1, in fp64; or `count` of them from number `first` on."""
    if units > 24:
        raise ValueError(f"{units} units have 2^{units} states; at most 24 units can be enumerated")
    numbers = torch.arange(first, 2**units if count is None else min(2**units, first + count))
    return low + (1.0 - low) * ((numbers[:, None] >> torch.arange(units - 1, -1, -1)) & 1).double()
