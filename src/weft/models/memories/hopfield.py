"""The Hopfield network: memories as minima of an energy (Hopfield 1982).

    E(s) = - 1/2 s^T W s + theta . s                                      (1.9)
    update  s_i = sign(h_i),  h_i = sum_j W_ij s_j - theta_i              (1.10)
    Hebb    W = 1/N sum_mu xi^mu xi^mu^T,  W_ii = 0                       (1.11)

s are spins -1 and +1: the Ising model with couplings W. With states 0 and 1 and the same weights it would be another
network; `Hopfield.as_binary` returns the weights and thresholds that make it the same one (1.12).
"""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

States = Float[Tensor, "batch units"]
Energies = Float[Tensor, " batch"]
Weights = Float[Tensor, "units units"]
Thresholds = Float[Tensor, " units"]


def energy(states: States, weights: Weights, thresholds: Thresholds) -> Energies:
    """E(s) of each state (1.9)."""
    return -0.5 * ((states @ weights) * states).sum(-1) + states @ thresholds


def sweep(
    states: States, weights: Weights, thresholds: Thresholds, temperature: float = 0.0, clamped: int = 0
) -> States:
    """Update every unit once, one after the other in a random order, by heat bath (1.6) at this temperature.

    At temperature 0 it is (1.10), and no energy may rise, which is asserted; a unit in no field keeps its state. The
    first `clamped` units do not change. The weights are symmetric without self-coupling (`check_couplings`).
    """
    s = states.T.contiguous()  # (units, batch)
    fields = weights @ s - thresholds[:, None]
    for unit in (clamped + torch.randperm(len(s) - clamped)).tolist():
        field = fields[unit]
        if temperature:
            new = (torch.rand_like(field) < torch.sigmoid(2 * field / temperature)).to(s.dtype) * 2 - 1
        else:
            new = torch.where(field == 0, s[unit], field.sign())
        changed = (new != s[unit]).nonzero()[:, 0]
        if len(changed):
            change = (new - s[unit])[changed]
            s[unit] = new
            fields[:, changed] += weights[:, unit, None] * change
    after = s.T.contiguous()
    if not temperature:
        rounding = 1e-5 * float(weights.abs().sum())
        assert bool((energy(after, weights, thresholds) <= energy(states, weights, thresholds) + rounding).all())
    return after


def check_couplings(weights: Weights) -> None:
    """Raise ValueError for weights with which an update can raise the energy (1.9)."""
    if weights.diagonal().any() or (weights - weights.T).abs().max() > 1e-5 * weights.abs().max():
        raise ValueError(
            "expected symmetric weights with a zero diagonal; the energy of (W + W^T) / 2 without its diagonal differs "
            "from that of W by a constant"
        )


@dataclass(frozen=True)
class Hopfield:
    """A network of symmetric weights without self-coupling, else ValueError. States are rows of -1 and +1."""

    weights: Weights
    thresholds: Thresholds

    def __post_init__(self) -> None:
        check_couplings(self.weights)

    @classmethod
    def fit(cls, patterns: States, rule: Literal["hebb", "pseudo-inverse", "storkey"] = "hebb") -> "Hopfield":
        """Store the patterns at once.

        `hebb` (1.11) recalls 0.138 N random patterns with few errors (Amit, Gutfreund and Sompolinsky 1985).
        `pseudo-inverse` recalls fewer than N independent patterns exactly (Personnaz, Guyon and Dreyfus 1985).
        `storkey` needs only the pattern at hand, as Hebb's rule, and stores more (Storkey 1997).
        """
        if not patterns.is_floating_point():
            raise ValueError(f"expected patterns of floating point numbers, -1.0 and 1.0, not {patterns.dtype}")
        if rule == "pseudo-inverse":
            weights = torch.linalg.pinv(patterns.double()) @ patterns.double()
            alone = weights.diagonal() > 1 - 1e-10  # these units depend on no other: what couples them is rounding
            weights = weights.masked_fill(alone | alone[:, None], 0).to(patterns.dtype)
        elif rule == "storkey":
            weights = storkey(patterns)
        elif rule == "hebb":
            weights = patterns.T @ patterns / patterns.size(1)
        else:
            raise ValueError(f"rule {rule!r}: expected hebb, pseudo-inverse or storkey")
        return cls(weights.fill_diagonal_(0), patterns.new_zeros(patterns.size(1)))

    def energy(self, states: States) -> Energies:
        return energy(states, self.weights, self.thresholds)

    def recall(self, states: States, sweeps: int = 100) -> States:
        """Sweep until nothing changes, at most `sweeps` times: from each state down to a minimum of the energy."""
        for _ in range(sweeps):
            before, states = states, sweep(states, self.weights, self.thresholds)
            if torch.equal(before, states):
                break
        return states

    def recall_synchronously(self, states: States, steps: int = 100) -> tuple[States, int]:
        """Update all units at once until the states repeat, and return them with the period: 1, 2, or 0 for none yet.

        Such updates may raise the energy, but no cycle is longer than two states (Goles and Olivos 1981).
        """
        before = states
        for _ in range(steps):
            fields = states @ self.weights - self.thresholds
            new = torch.where(fields == 0, states, fields.sign())
            for period, earlier in ((1, states), (2, before)):
                if torch.equal(new, earlier):
                    return new, period
            before, states = states, new
        return states, 0

    def as_binary(self) -> tuple[Weights, Thresholds]:
        """W' = 4 W and theta' = 2 theta + 2 W 1, those of the network whose states V = (s + 1) / 2 are 0 and 1 (1.12).

        Its energy -1/2 V^T W' V + theta' . V differs from E(s) by a constant.
        """
        return 4 * self.weights, 2 * self.thresholds + 2 * self.weights.sum(1)


def storkey(patterns: States) -> Weights:
    """W_ij += (xi_i xi_j - xi_i h_ji - h_ij xi_j) / N for each pattern; h_ij sums W_ik xi_k over k not in {i, j}."""
    weights = patterns.new_zeros(patterns.size(1), patterns.size(1))
    for xi in patterns:
        own = weights.diagonal() * xi
        h = (weights @ xi - own)[:, None] - weights * xi + torch.diag(own)  # on the diagonal, i = j is left out once
        weights = weights + (xi[:, None] * xi - h * xi - (h * xi).T) / len(xi)
    return weights
