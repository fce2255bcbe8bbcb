"""The Hopfield network and simulated annealing, against all states of small networks."""

import inspect
import math
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from weft.models.memories.annealing import anneal, geometric
from weft.models.memories.boltzmann import all_states
from weft.models.memories.hopfield import Hopfield, energy, sweep
from weft.models.memories.ising import chances_of_up


def random_patterns(patterns: int, units: int) -> Tensor:
    return torch.randint(0, 2, (patterns, units)).double() * 2 - 1


def random_network(units: int) -> Hopfield:
    weights = torch.randn(units, units, dtype=torch.float64).triu(1)
    return Hopfield(weights + weights.T, torch.randn(units, dtype=torch.float64))


def test_energy_and_hebbs_rule_by_hand_1_9_1_11() -> None:
    network = Hopfield.fit(torch.tensor([[1.0, 1.0, -1.0]]))
    assert network.weights.mul(3).tolist() == [[0, 1, -1], [1, 0, -1], [-1, -1, 0]]
    assert network.energy(torch.tensor([[1.0, 1.0, -1.0], [1.0, 1.0, 1.0]])).tolist() == pytest.approx([-1.0, 1 / 3])


def test_recall_ends_where_no_flip_lowers_the_energy_1_10() -> None:
    network, states = random_network(9), all_states(9)
    ends = network.recall(states)
    assert bool((network.energy(ends) <= network.energy(states) + 1e-12).all())
    for unit in range(9):
        flipped = ends.clone()
        flipped[:, unit] *= -1
        assert bool((network.energy(flipped) >= network.energy(ends)).all())
    minima = torch.unique(ends, dim=0)
    assert 1 < len(minima) < 20 and network.energy(minima).min() == network.energy(states).min()


def test_the_energy_falls_with_every_sweep_and_each_flip_by_its_field() -> None:
    network = random_network(30)
    states, before = random_patterns(50, 30), None
    for _ in range(5):
        now = network.energy(states)
        assert before is None or bool((now <= before + 1e-9).all())
        before, states = now, sweep(states, network.weights, network.thresholds)


def test_updating_all_at_once_may_alternate_and_raise_the_energy() -> None:
    network = Hopfield(torch.tensor([[0.0, 1.0], [1.0, 0.0]]), torch.zeros(2))
    unlike = torch.tensor([[1.0, -1.0]])
    ends, period = network.recall_synchronously(unlike)
    assert period == 2 and ends.abs().sum() == 2 and network.energy(ends).item() == 1
    assert network.recall_synchronously(torch.tensor([[1.0, 1.0]]))[1] == 1
    assert network.energy(network.recall(unlike)).item() == -1  # one unit after the other finds the minimum
    strong = Hopfield(torch.eye(3) - 1, torch.zeros(3))
    alike = torch.ones(1, 3)
    assert strong.energy(alike).item() == 3 and strong.recall_synchronously(alike)[1] == 2


def test_a_network_of_zeros_and_ones_is_the_same_only_with_its_thresholds_1_12() -> None:
    network, states = random_network(8), all_states(8)
    weights, thresholds = network.as_binary()
    bits = (states + 1) / 2
    difference = energy(bits, weights, thresholds) - network.energy(states)
    torch.testing.assert_close(difference, difference[:1].expand_as(difference))
    updated = states @ network.weights > network.thresholds
    assert torch.equal(bits @ weights > thresholds, updated)
    assert not torch.equal(bits @ network.weights > network.thresholds, updated)


def test_hebb_recalls_damaged_patterns_and_almost_all_exactly_below_n_over_2_log_n() -> None:
    patterns = random_patterns(round(400 / (2 * math.log(400))), 400).float()
    network = Hopfield.fit(patterns)
    assert (network.recall(patterns) == patterns).all(1).float().mean() >= 0.8
    damaged = torch.where(torch.rand_like(patterns) < 0.1, -patterns, patterns)
    assert float((network.recall(damaged) * patterns).mean()) > 0.99


def test_the_pseudo_inverse_recalls_as_many_patterns_as_units_less_one() -> None:
    for units in (300, 40):
        patterns = random_patterns(units - 1, units)
        assert torch.linalg.matrix_rank(patterns) == units - 1
        assert torch.equal(Hopfield.fit(patterns, "pseudo-inverse").recall(patterns), patterns)
    assert not torch.equal(Hopfield.fit(patterns).recall(patterns), patterns)


def test_the_pseudo_inverse_recalls_patterns_that_differ_in_one_unit() -> None:
    patterns = random_patterns(10, 40)
    patterns = torch.cat([patterns, patterns[:1]])
    patterns[10, 7] *= -1
    for dtype in (torch.float32, torch.float64):
        network = Hopfield.fit(patterns.to(dtype), "pseudo-inverse")
        assert not network.weights[7].any()  # no other unit tells which of the two it is
        assert torch.equal(network.recall(patterns.to(dtype)), patterns.to(dtype))


@pytest.mark.parametrize("weights", [[[-3.0, 1.0], [1.0, 0.0]], [[0.0, 1.0], [2.0, 0.0]], [[0.0, 1e-7], [2e-7, 0.0]]])
def test_couplings_with_which_the_energy_can_rise_are_refused(weights: list[list[float]]) -> None:
    for use in (lambda w: Hopfield(w, torch.zeros(2)), lambda w: anneal(torch.ones(1, 2), w, torch.zeros(2), [1.0])):
        with pytest.raises(ValueError, match="symmetric weights with a zero diagonal"):
            use(torch.tensor(weights))
    rounded = 1e4 * torch.tensor([[0.0, 1.0], [1.0 + 2**-23, 0.0]])
    assert Hopfield(rounded, torch.zeros(2)).weights is rounded
    with pytest.raises(AssertionError):
        states = random_patterns(100, 30).float()
        sweep(states, torch.randn(30, 30), torch.zeros(30))


def test_rules_and_temperatures_that_do_not_exist_are_refused() -> None:
    rule: Any = "pseudo_inverse"
    fit: Any = inspect.unwrap(Hopfield.fit.__func__)  # without the check of its annotations
    with pytest.raises(ValueError, match="expected hebb, pseudo-inverse or storkey"):
        fit(Hopfield, torch.ones(1, 2), rule)
    with pytest.raises(ValueError, match="expected metropolis or heat-bath"):
        chances_of_up(np.array([2.0]), 0.0, 4, rule)
    with pytest.raises(ValueError, match="above 0"):
        geometric(4.0, 0.0, 5)


def test_storkeys_rule_is_its_sums_and_stores_more_than_hebbs() -> None:
    patterns = random_patterns(3, 5)
    weights = torch.zeros(5, 5).double()
    for xi in patterns:
        h = torch.zeros(5, 5).double()
        for i, j, k in product(range(5), repeat=3):
            h[i, j] += weights[i, k] * xi[k] if k not in (i, j) else 0.0
        change = [[xi[i] * xi[j] - xi[i] * h[j, i] - h[i, j] * xi[j] for j in range(5)] for i in range(5)]
        weights = weights + torch.tensor(change).double() / 5
    torch.testing.assert_close(Hopfield.fit(patterns, "storkey").weights, weights.fill_diagonal_(0))
    patterns = random_patterns(20, 100)
    hebb, ours = ((Hopfield.fit(patterns, rule).recall(patterns) == patterns).all(1) for rule in ("hebb", "storkey"))
    assert ours.sum() > hebb.sum()


def test_schedules_cool_from_hot_to_cold_1_13() -> None:
    assert geometric(8.0, 1.0, 4) == pytest.approx([8, 4, 2, 1])
    assert geometric(3.0, 1.0, 1) == [3.0]


def test_annealing_cuts_a_graph_as_well_as_trying_all_cuts_does() -> None:
    edges = (torch.rand(12, 12) < 0.5).double().triu(1)
    weights, thresholds = -(edges + edges.T), torch.zeros(12).double()
    lowest = energy(all_states(12), weights, thresholds).min()
    annealed, energies = anneal(random_patterns(50, 12), weights, thresholds, [*geometric(3.0, 0.2, 60), 0.0])
    torch.testing.assert_close(energies[-1], energy(annealed, weights, thresholds))
    assert energies.shape == (61, 50) and energies[-1].min() == lowest
    _, quenched = anneal(random_patterns(50, 12), weights, thresholds, [0.0] * 5)
    assert energies[-1].mean() < quenched[-1].mean()


def test_sweeps_at_a_temperature_sample_boltzmanns_distribution() -> None:
    network = random_network(4)
    states = random_patterns(100_000, 4)
    for _ in range(40):
        states = sweep(states, network.weights, network.thresholds, 3.0)
    counts = torch.bincount(((states + 1) / 2 @ torch.tensor([8.0, 4, 2, 1]).double()).long(), minlength=16)
    expected = 1e5 * torch.softmax(-network.energy(all_states(4)) / 3.0, 0)
    assert float(((counts - expected) ** 2 / expected).sum()) < 37.7  # chi-square, 15 degrees, 1 in 1,000


def test_units_that_are_clamped_stay() -> None:
    network, states = random_network(6), random_patterns(100, 6)
    after = sweep(states, network.weights, network.thresholds, 5.0, clamped=2)
    assert torch.equal(after[:, :2], states[:, :2]) and not torch.equal(after[:, 2:], states[:, 2:])


def test_too_many_units_are_not_enumerated() -> None:
    assert torch.equal(all_states(3, 0.0, first=3, count=2), torch.tensor([[0, 1, 1], [1, 0, 0]]).double())
    with pytest.raises(ValueError, match="at most 24"):
        all_states(25)
