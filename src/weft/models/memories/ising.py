"""The Ising model on a ring or a square lattice without edges (Ising 1925), and its exact solution.

    E(s) = - sum over neighbors s_i s_j - h sum s_i                       (1.1)
    local field  h_i = sum of the neighbors of s_i + h                    (1.2)
    a flip of s_i costs  Delta E = 2 s_i h_i                              (1.3)
    p(s) = exp(-E(s) / T) / Z                                             (1.4)
    Metropolis  accepts a flip with min(1, exp(-Delta E / T))             (1.5)
    heat bath   draws s_i = +1 with 1 / (1 + exp(-2 h_i / T))             (1.6)
    both keep   p(s) w(s -> s') = p(s') w(s' -> s), detailed balance      (1.7)

The coupling and Boltzmann's constant are 1, so temperatures and energies are in units of the coupling. Neighbors of a
black site are white, so all black sites can be updated at once given the white ones, and then the white ones.
"""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, UInt8

CRITICAL = 2 / math.log(1 + math.sqrt(2))
"""The temperature of the phase transition on the square lattice, 2.26919 (Kramers and Wannier 1941)."""


Replicas = Float[np.ndarray, " replicas"]
Samples = Float[np.ndarray, "samples replicas"]


class Ising:
    """Replicas of a lattice of spins, each at its temperature, all up at first.

    `shape` is (length,) of a ring or (length, length), even. On a ring choose the heat bath: Metropolis accepts every
    flip that costs nothing, so that domain walls march in step and rarely meet.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        temperatures: Sequence[float],
        *,
        field: float = 0.0,
        rule: Literal["metropolis", "heat-bath"] = "metropolis",
        seed: int = 0,
    ) -> None:
        if len(shape) not in (1, 2) or len(set(shape)) > 1 or shape[0] % 2 or shape[0] < 4:
            raise ValueError(f"expected (length,) or (length, length) with an even length of at least 4, not {shape}")
        self.field, self.spins, self.neighbors = field, math.prod(shape), 2 * len(shape)
        self.random = np.random.Generator(np.random.SFC64(seed))
        self.up = [np.ones((len(temperatures), *shape[:-1], shape[-1] // 2), np.uint8) for _ in range(2)]
        """1 where a spin is up: site (row, column) is in up[(row + column) % 2], of the two colors, at column // 2."""
        chances = np.array(chances_of_up(np.asarray(temperatures, float), field, self.neighbors, rule))
        numbers = np.minimum(chances * 2.0**32, 2**32 - 1).astype(np.uint32)
        self.thresholds = numbers.reshape(*chances.shape, *(1 for _ in shape))

    def sweep(self, sweeps: int = 1) -> None:
        """Update every spin once, or `sweeps` times."""
        for color in (0, 1) * sweeps:
            old = self.up[color]
            draws = self.random.integers(0, 2**32, old.shape, dtype=np.uint32)
            # The chance to be up rises with the number of neighbors that are; a draw says how many it takes.
            takes = [np.zeros(old.shape, np.uint8) for _ in self.thresholds]
            for number, given in zip(takes, self.thresholds, strict=True):
                for chance in given:
                    number += draws >= chance
            needed = np.where(old, takes[1], takes[0]) if len(takes) == 2 else takes[0]
            self.up[color] = (self.up_neighbors(color) >= needed).view(np.uint8)

    def up_neighbors(self, color: int) -> UInt8[np.ndarray, "..."]:
        """The number of neighbors that are up, of every site of a color."""
        other = self.up[1 - color]
        if other.ndim == 2:
            return other + np.roll(other, 1 - 2 * color, -1)
        count = other + np.roll(other, 1, 1)
        count += np.roll(other, -1, 1)
        for parity in range(2):  # of two neighbors in the row one has the same index, the other is left or right of it
            count[:, parity::2] += np.roll(other[:, parity::2], 1 if parity == color else -1, -1)
        return count

    def magnetization(self) -> Replicas:
        """The mean of the spins, between -1 and 1."""
        return np.mean([2 * up.reshape(len(up), -1).mean(1) - 1 for up in self.up], 0)

    def energy(self) -> Replicas:
        """E / N (1.1): every bond has one black end."""
        aligned = np.where(self.up[0], self.up_neighbors(0), self.neighbors - self.up_neighbors(0))
        share = aligned.reshape(len(aligned), -1).mean(1) / self.neighbors
        return self.neighbors / 2 * (1 - 2 * share) - self.field * self.magnetization()

    def state(self) -> Bool[np.ndarray, "replicas ..."]:
        """True where a spin is up, in the order of the lattice."""
        whole = np.stack(self.up, -1)
        if whole.ndim == 4:
            whole[:, 1::2] = whole[:, 1::2, :, ::-1]
        return whole.reshape(*whole.shape[:-2], -1).astype(bool)

    def measure(self, sweeps: int, *, discard: int = 0, every: int = 1) -> tuple[Samples, Samples]:
        """Energy and magnetization per spin after every `every` sweeps, the first `discard` sweeps left out."""
        self.sweep(discard)
        energies, magnetizations = [], []
        for _ in range(sweeps // every):
            self.sweep(every)
            energies.append(self.energy())
            magnetizations.append(self.magnetization())
        return np.array(energies), np.array(magnetizations)


def chances_of_up(temperatures: Replicas, field: float, neighbors: int, rule: str) -> list[list[Replicas]]:
    """The chance that an update leaves a spin up, for each number of neighbors up: a list for spins that are down and
    one for those up; for the heat bath, which does not look at the spin, one list."""
    local = [2 * up - neighbors + field for up in range(neighbors + 1)]  # (1.2)
    if rule == "heat-bath":
        return [[1 / (1 + np.exp(-2 * h / temperatures)) for h in local]]
    if rule != "metropolis":
        raise ValueError(f"rule {rule!r}: expected metropolis or heat-bath")
    accept = [[np.exp(np.minimum(0.0, -2 * spin * h / temperatures)) for h in local] for spin in (-1, 1)]
    return [accept[0], [1 - flip for flip in accept[1]]]


def heat_capacity(energies: Samples, temperatures: Replicas, spins: int) -> Replicas:
    """(<E^2> - <E>^2) / (N T^2) from energies per spin (1.8)."""
    return energies.var(0) * spins / np.square(temperatures)


def binder(magnetizations: Samples) -> Replicas:
    """U = 1 - <m^4> / (3 <m^2>^2): equal for all sizes at the critical temperature, 0.611 (Binder 1981)."""
    return 1 - (magnetizations**4).mean(0) / (3 * (magnetizations**2).mean(0) ** 2)


def exact_magnetization(temperature: float) -> float:
    """|m| of the infinite square lattice (Yang 1952)."""
    return 0.0 if temperature >= CRITICAL else (1 - math.sinh(2 / temperature) ** -4) ** 0.125


def exact_energy(temperature: float) -> float:
    """E / N of the infinite square lattice (Onsager 1944)."""
    tanh = math.tanh(2 / temperature)
    return -(1 + 2 / math.pi * (2 * tanh**2 - 1) * elliptic(temperature)[0]) / tanh


def exact_heat_capacity(temperature: float) -> float:
    """C / N of the infinite square lattice (Onsager 1944), the derivative of `exact_energy`."""
    tanh, (first, second) = math.tanh(2 / temperature), elliptic(temperature)
    inner = first - second - (1 - tanh**2) * (math.pi / 2 + (2 * tanh**2 - 1) * first)
    return (2 / temperature / tanh) ** 2 / math.pi * inner


def elliptic(temperature: float) -> tuple[float, float]:
    """The complete elliptic integrals K(k) and E(k) of k = 2 sinh(2/T) / cosh(2/T)^2, by arithmetic-geometric means."""
    modulus = 2 * math.sinh(2 / temperature) / math.cosh(2 / temperature) ** 2
    a, b, c, power, square = 1.0, math.sqrt(max(1e-300, 1 - modulus**2)), modulus, 0.5, 0.5 * modulus**2
    while abs(c) > 1e-15:
        a, b, c, power = (a + b) / 2, math.sqrt(a * b), (a - b) / 2, 2 * power
        square += power * c**2
    first = math.pi / (2 * a)
    return first, first * (1 - square)
