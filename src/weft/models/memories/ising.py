"""The Ising model on a ring or a square lattice without edges (Ising 1925), and its exact solution.

    E(s) = - sum over neighbors s_i s_j - h sum s_i                       (1.1)
    local field  h_i = sum of the neighbors of s_i + h                    (1.2)
    a flip of s_i costs  Delta E = 2 s_i h_i                              (1.3)
    p(s) = exp(-E(s) / T) / Z                                             (1.4)
    Metropolis  accepts a flip with min(1, exp(-Delta E / T))             (1.5)
    heat bath   draws s_i = +1 with 1 / (1 + exp(-2 h_i / T))             (1.6)

The coupling and Boltzmann's constant are 1, so temperatures and energies are in units of the coupling.

Neighbors of a black site are white, so all black sites can be updated at once given the white ones, and then the white
ones. The two colors are stored apart. `Ising` holds replicas, each at a temperature of its own.
"""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, UInt8, UInt32

CRITICAL = 2 / math.log(1 + math.sqrt(2))
"""The temperature of the phase transition on the square lattice, 2.26919 (Kramers and Wannier 1941)."""


class Ising:
    """Replicas of a lattice of spins, all up at first: `shape` is (length,) of a ring or (length, length), even.

    On a ring choose the heat bath: Metropolis accepts every flip that costs nothing, so that domain walls march in step
    and rarely meet.
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
        of_color = (len(temperatures), *shape[:-1], shape[-1] // 2)
        self.up = [np.ones(of_color, np.uint8) for _ in range(2)]
        """1 where a spin is up; site (row, column) is in up[(row + column) % 2] at (row, column // 2)."""
        chances = chances_of_up(np.asarray(temperatures, float), field, self.neighbors, rule)
        trailing = (1,) * len(shape)
        self.thresholds = [
            [np.clip(p * 2.0**32, 0, 2**32 - 1).astype(np.uint32).reshape(-1, *trailing) for p in given if p.min() > 0]
            for given in chances
        ]
        self.never = [sum(not p.min() > 0 for p in given) for given in chances]
        self.forgets = rule == "heat-bath"

    def sweep(self, sweeps: int = 1) -> None:
        """Update every spin once, or `sweeps` times."""
        for _ in range(sweeps):
            for color in range(2):
                count, old = self.up_neighbors(color), self.up[color]
                draws = self.random.integers(0, 2**32, old.shape, dtype=np.uint32)
                least = self.least_count(draws, 0)
                if not self.forgets:
                    least = np.where(old, self.least_count(draws, 1), least)
                self.up[color] = (count >= least).view(np.uint8)

    def least_count(self, draws: UInt32[np.ndarray, "*sites"], now: int) -> UInt8[np.ndarray, "*sites"]:
        """How many neighbors must be up for this draw to set the spin up, if it is `now` down (0) or up (1).

        The chance of being set up rises with the number of neighbors that are, so the chances that a draw reaches are
        those of the smallest numbers.
        """
        least = np.full(draws.shape, self.never[now], np.uint8)
        for threshold in self.thresholds[now]:
            least += draws >= threshold
        return least

    def up_neighbors(self, color: int) -> UInt8[np.ndarray, "*sites"]:
        """The number of neighbors that are up, of every site of a color."""
        other = self.up[1 - color]
        if other.ndim == 2:
            return other + np.roll(other, 1 - 2 * color, -1)
        count = other + np.roll(other, 1, 1)
        count += np.roll(other, -1, 1)
        for parity in range(2):  # of two neighbors in the row one has the same index, the other is left or right of it
            count[:, parity::2] += np.roll(other[:, parity::2], 1 if parity == color else -1, -1)
        return count

    def magnetization(self) -> Float[np.ndarray, " replicas"]:
        """The mean of the spins, between -1 and 1."""
        up = sum(each.reshape(len(each), -1).sum(1, dtype=np.int64) for each in self.up)
        return 2 * np.asarray(up) / self.spins - 1

    def energy(self) -> Float[np.ndarray, " replicas"]:
        """E / N (1.1): every bond has one end that is black."""
        is_up, count = self.up[0].astype(bool), self.up_neighbors(0)
        aligned = np.where(is_up, count, self.neighbors - count).reshape(len(count), -1).sum(1, dtype=np.int64)
        bonds = self.spins * self.neighbors // 2
        return (bonds - 2 * aligned) / self.spins - self.field * self.magnetization()

    def state(self) -> Bool[np.ndarray, "replicas ..."]:
        """True where a spin is up, in the order of the lattice."""
        black, white = self.up
        whole = np.stack([black, white], -1)
        if black.ndim == 3:
            whole[:, 1::2] = whole[:, 1::2, :, ::-1]
        return whole.reshape(*black.shape[:-1], -1).astype(bool)

    def measure(
        self, sweeps: int, *, discard: int = 0, every: int = 1
    ) -> tuple[Float[np.ndarray, "samples replicas"], Float[np.ndarray, "samples replicas"]]:
        """Energy and magnetization per spin after every `every` sweeps, the first `discard` sweeps left out."""
        self.sweep(discard)
        energies, magnetizations = [], []
        for _ in range(sweeps // every):
            self.sweep(every)
            energies.append(self.energy())
            magnetizations.append(self.magnetization())
        return np.array(energies), np.array(magnetizations)


def chances_of_up(
    temperatures: Float[np.ndarray, " replicas"], field: float, neighbors: int, rule: str
) -> tuple[list[Float[np.ndarray, " replicas"]], list[Float[np.ndarray, " replicas"]]]:
    """The chance that an update leaves a spin up, for each number of neighbors up: of spins down, of spins up."""
    local = [2 * up - neighbors + field for up in range(neighbors + 1)]  # (1.2)
    if rule == "heat-bath":
        chances = [1 / (1 + np.exp(-2 * h / temperatures)) for h in local]
        return chances, chances
    accept = [[np.exp(np.minimum(0.0, -2 * spin * h / temperatures)) for h in local] for spin in (-1, 1)]
    return accept[0], [1 - flip for flip in accept[1]]


def heat_capacity(
    energies: Float[np.ndarray, "samples replicas"], temperatures: Sequence[float], spins: int
) -> Float[np.ndarray, " replicas"]:
    """(<E^2> - <E>^2) / (N T^2) from energies per spin (1.8)."""
    return energies.var(0) * spins / np.square(temperatures)


def binder(magnetizations: Float[np.ndarray, "samples replicas"]) -> Float[np.ndarray, " replicas"]:
    """U = 1 - <m^4> / (3 <m^2>^2): equal for all sizes at the critical temperature, 0.611 (Binder 1981)."""
    return 1 - (magnetizations**4).mean(0) / (3 * (magnetizations**2).mean(0) ** 2)


def exact_magnetization(temperature: float) -> float:
    """|m| of the infinite square lattice (Yang 1952)."""
    return 0.0 if temperature >= CRITICAL else (1 - math.sinh(2 / temperature) ** -4) ** 0.125


def exact_energy(temperature: float) -> float:
    """E / N of the infinite square lattice (Onsager 1944)."""
    twice = 2 / temperature
    first, _ = elliptic(2 * math.sinh(twice) / math.cosh(twice) ** 2)
    return -1 / math.tanh(twice) * (1 + 2 / math.pi * (2 * math.tanh(twice) ** 2 - 1) * first)


def exact_heat_capacity(temperature: float) -> float:
    """C / N of the infinite square lattice (Onsager 1944), the derivative of `exact_energy`."""
    twice = 2 / temperature
    tanh2 = math.tanh(twice) ** 2
    first, second = elliptic(2 * math.sinh(twice) / math.cosh(twice) ** 2)
    inner = first - second - (1 - tanh2) * (math.pi / 2 + (2 * tanh2 - 1) * first)
    return twice**2 / tanh2 / math.pi * inner


def elliptic(modulus: float) -> tuple[float, float]:
    """The complete elliptic integrals K(k) and E(k), by the arithmetic-geometric mean."""
    a, b, c, power, square = 1.0, math.sqrt(max(1e-300, 1 - modulus**2)), modulus, 0.5, 0.5 * modulus**2
    while abs(c) > 1e-15:
        a, b, c = (a + b) / 2, math.sqrt(a * b), (a - b) / 2
        power *= 2
        square += power * c**2
    first = math.pi / (2 * a)
    return first, first * (1 - square)


def exact_ring_energy(temperature: float, length: int) -> float:
    """E / N of a ring without a field, from the eigenvalues of its transfer matrix."""
    tanh = math.tanh(1 / temperature)
    return -(tanh + tanh ** (length - 1)) / (1 + tanh**length)
