"""The Ising model: lattices against all their states, and against Onsager's and Yang's solutions."""

import math
from itertools import product

import numpy as np
import pytest
import torch

from weft.models.memories.boltzmann import all_states
from weft.models.memories.ising import (
    CRITICAL,
    Ising,
    binder,
    chances_of_up,
    exact_energy,
    exact_heat_capacity,
    exact_magnetization,
    heat_capacity,
)

RULES = pytest.mark.parametrize("rule", ["metropolis", "heat-bath"])


def energies_of(spins: np.ndarray, field: float) -> np.ndarray:
    """E(s) (1.1) of rows of lattices, each bond counted once."""
    axes = range(1, spins.ndim)
    bonds = sum(spins * np.roll(spins, 1, axis) for axis in axes)
    return -(bonds + field * spins).sum(tuple(axes))


@RULES
@pytest.mark.parametrize("shape", [(10,), (8, 8)])
def test_the_energy_is_the_sum_over_bonds_1_1(rule: str, shape: tuple[int, ...]) -> None:
    lattice = Ising(shape, [1.0, 3.0, 9.0], field=0.3, rule=rule)  # type: ignore[arg-type]
    for _ in range(5):
        lattice.sweep()
        spins = np.where(lattice.state(), 1.0, -1.0)
        assert lattice.energy() * math.prod(shape) == pytest.approx(energies_of(spins, 0.3))
        assert lattice.magnetization() == pytest.approx(spins.reshape(3, -1).mean(1))


def test_a_flip_costs_twice_the_spin_times_its_local_field_1_2_1_3() -> None:
    lattice = Ising((4, 4), [9.0], field=0.7)
    lattice.sweep(3)
    for row, column in product(range(4), range(4)):
        color, place = (row + column) % 2, (0, row, column // 2)
        local = 2.0 * lattice.up_neighbors(color)[place] - 4 + 0.7  # (1.2): as many neighbors up less those down
        spin, before = 2.0 * lattice.up[color][place] - 1, lattice.energy()[0]
        lattice.up[color][place] ^= 1
        assert 16 * (lattice.energy()[0] - before) == pytest.approx(2 * spin * local)
        lattice.up[color][place] ^= 1


def test_metropolis_and_heat_bath_by_hand_1_5_1_6() -> None:
    down, up = chances_of_up(np.array([2.0]), 0.0, 4, "metropolis")
    # Delta E of a spin with all four neighbors against it is -8, with all four of its mind 8, with three of them 4
    assert [float(p[0]) for p in up] == pytest.approx([0, 0, 0, 1 - math.exp(-2), 1 - math.exp(-4)])
    assert [float(p[0]) for p in down] == pytest.approx([math.exp(-4), math.exp(-2), 1, 1, 1])
    (bath,) = chances_of_up(np.array([2.0]), 0.0, 4, "heat-bath")
    assert [float(p[0]) for p in bath] == pytest.approx([1 / (1 + math.exp(-h)) for h in (-4, -2, 0, 2, 4)])


@RULES
def test_detailed_balance_1_7(rule: str) -> None:
    temperatures, field = np.array([0.8, 2.0, 5.0]), 0.4
    chances = chances_of_up(temperatures, field, 4, rule)
    down, up = chances[0], chances[-1]
    for neighbors in range(5):
        local = 2 * neighbors - 4 + field
        p_up, p_down = np.exp(local / temperatures), np.exp(-local / temperatures)  # up to a common factor
        assert p_down * down[neighbors] == pytest.approx(p_up * (1 - up[neighbors]))


@RULES
def test_a_long_run_is_distributed_as_boltzmann_says_1_4(rule: str) -> None:
    states = all_states(4).numpy()
    p = torch.softmax(torch.tensor(-energies_of(states, 0.2) / 1.7), 0).numpy()
    ring = Ising((4,), [1.7] * 10_000, field=0.2, rule=rule)  # type: ignore[arg-type]
    ring.sweep(20)
    counts = np.zeros(16)
    for _ in range(100):
        ring.sweep(6)
        counts += np.bincount(ring.state() @ [8, 4, 2, 1], minlength=16)
    expected = counts.sum() * p
    assert counts.sum() == 1e6 and len(states) == 16
    assert float(((counts - expected) ** 2 / expected).sum()) < 37.7  # chi-square, 15 degrees, 1 in 1,000


@RULES
def test_a_lattice_of_four_by_four_is_its_65536_states_1_8(rule: str) -> None:
    temperatures = [1.8, CRITICAL, 3.0]
    states = all_states(16).numpy().reshape(-1, 4, 4)
    energies, magnetizations = energies_of(states, 0.0), states.mean((1, 2))
    lattice = Ising((4, 4), np.repeat(temperatures, 400).tolist(), rule=rule)  # type: ignore[arg-type]
    e, m = lattice.measure(1000, discard=100, every=2)
    capacity = heat_capacity(e, np.repeat(temperatures, 400), 16)
    for place, temperature in enumerate(temperatures):
        p = np.exp(-energies / temperature - (-energies / temperature).max())
        p /= p.sum()
        mean, square = p @ energies, p @ energies**2
        exact = [mean / 16, p @ np.abs(magnetizations), (square - mean**2) / 16 / temperature**2]
        found = [e.mean(0), np.abs(m).mean(0), capacity]
        for figure, value in zip(found, exact, strict=True):
            runs = figure.reshape(3, 400)[place]
            bias = 0.01 * value if figure is capacity else 0.0  # the mean of a short run is its own
            assert abs(runs.mean() - value) < 4 * runs.std() / 20 + bias


def test_a_long_ring_has_the_energy_of_an_endless_chain() -> None:
    e, _ = Ising((64,), [1.5] * 200, rule="heat-bath").measure(400, discard=100)
    means = e.mean(0)
    assert abs(means.mean() + math.tanh(1 / 1.5)) < 4 * means.std() / math.sqrt(200)


def test_the_exact_curves_of_the_square_lattice() -> None:
    assert pytest.approx(2.269185314) == CRITICAL
    assert exact_energy(CRITICAL) == pytest.approx(-math.sqrt(2), abs=1e-6)
    assert exact_magnetization(CRITICAL + 1e-9) == 0 and exact_magnetization(0.5) == pytest.approx(1, abs=1e-5)
    assert exact_magnetization(2.0) == pytest.approx(0.911319378)
    for temperature in (0.9, 1.8, 2.2, 2.6, 5.0):
        slope = (exact_energy(temperature + 1e-5) - exact_energy(temperature - 1e-5)) / 2e-5
        assert exact_heat_capacity(temperature) == pytest.approx(slope, rel=1e-6)


def test_a_large_lattice_follows_the_exact_curves() -> None:
    temperatures = np.repeat([1.8, 2.0], 8)
    e, m = Ising((32, 32), temperatures.tolist()).measure(300, discard=100)
    for place, temperature in enumerate((1.8, 2.0)):
        for runs, exact in ((e, exact_energy(temperature)), (np.abs(m), exact_magnetization(temperature))):
            means = runs.mean(0)[8 * place : 8 * place + 8]
            assert abs(means.mean() - exact) < 4 * means.std(ddof=1) / math.sqrt(8)


def test_binders_cumulant_tells_order_from_disorder() -> None:
    assert binder(np.array([[1.0], [-1.0]])) == pytest.approx(2 / 3)
    assert binder(np.random.default_rng(0).normal(size=(100_000, 1))) == pytest.approx(0, abs=0.02)


@pytest.mark.parametrize("shape", [(5,), (4, 6), (2, 2), (4, 4, 4)])
def test_a_lattice_that_has_no_two_colors_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="even length"):
        Ising(shape, [1.0])
