"""Boltzmann machines, restricted and deep, against sums over all states."""

import math

import pytest
import torch
from torch import Tensor, nn

from weft.models.memories.boltzmann import BoltzmannMachine, all_states
from weft.models.memories.dbn import classifier, highest_hidden
from weft.models.memories.rbm import RBM


def random_rbm(visible: int = 5, hidden: int = 3, **settings: int) -> RBM:
    rbm = RBM(visible, hidden, **settings).double()
    for parameter in rbm.parameters():
        nn.init.normal_(parameter)
    return rbm


def exact_log_prob(rbm: RBM, v: Tensor) -> Tensor:
    """log p(v) from the energies of all pairs of states."""
    joint = [rbm.energy(every, h.expand(len(every), -1)) for h in all_states(3, 0.0) for every in [all_states(5, 0.0)]]
    with_v = [rbm.energy(v, h.expand(len(v), -1)) for h in all_states(3, 0.0)]
    return torch.stack(with_v).neg().logsumexp(0) - torch.stack(joint).neg().flatten().logsumexp(0)


@pytest.mark.parametrize("hidden", [0, 2])
def test_the_gradient_is_clamped_less_free_moments_1_14(hidden: int) -> None:
    machine = BoltzmannMachine(4, hidden).double()
    nn.init.normal_(machine.couplings)
    data = torch.randint(0, 2, (7, 4)).double() * 2 - 1
    (-machine.log_prob(data).mean()).backward()
    states = all_states(4 + hidden)
    p = machine.energy(states).neg().softmax(0).detach()
    of_row = p * (states[:, :4] == data[:, None]).all(-1)  # the states that complete each row of the data
    clamped = (of_row / of_row.sum(1, keepdim=True)).mean(0)
    expected = (states * (clamped - p)[:, None]).T @ states  # <s_i s_j> clamped, less free
    assert machine.couplings.grad is not None
    torch.testing.assert_close(-machine.couplings.grad, expected.triu(1))


def test_too_many_units_are_not_enumerated_together() -> None:
    with pytest.raises(ValueError, match="30 units"):
        BoltzmannMachine(20, 10).log_prob(torch.ones(1, 20))


def test_probabilities_of_a_boltzmann_machine_sum_to_one() -> None:
    assert float(BoltzmannMachine(4, 2).double().log_prob(all_states(4)).exp().sum().detach()) == pytest.approx(1)


def test_sampled_phases_have_the_exact_gradient_in_the_mean_and_learn() -> None:
    machine = BoltzmannMachine(3, 2).double()
    nn.init.normal_(machine.couplings, std=0.5)
    data = all_states(3)[[0, 7]].repeat(8000, 1)  # all down or all up
    exact = torch.autograd.grad(-machine.log_prob(data[:2]).mean(), machine.couplings)[0]
    sampled = torch.autograd.grad(machine.contrast(data).mean(), machine.couplings)[0]
    torch.testing.assert_close(sampled, exact, rtol=0, atol=0.05)
    optimizer = torch.optim.Adam(machine.parameters(), lr=0.1)
    for _ in range(60):
        optimizer.zero_grad()
        machine.contrast(data[:200]).mean().backward()
        optimizer.step()
    assert float(machine.log_prob(data[:2]).exp().sum().detach()) > 0.9


def test_energy_and_free_energy_of_a_restricted_machine_1_15_1_16() -> None:
    rbm, v = random_rbm(), all_states(5, 0.0)
    h = torch.tensor([[1.0, 0.0, 1.0]]).double()
    by_hand = -sum(rbm.visible_bias[i] for i in (0, 2)) - rbm.hidden_bias[0] - rbm.hidden_bias[2]
    by_hand = by_hand - sum(rbm.weight[i, j] for i in (0, 2) for j in (0, 2))
    torch.testing.assert_close(rbm.energy(torch.tensor([[1.0, 0, 1, 0, 0]]).double(), h)[0], by_hand)
    sums = torch.stack([rbm.energy(v, h.expand(32, -1)) for h in all_states(3, 0.0)]).neg().logsumexp(0)
    torch.testing.assert_close(rbm.free_energy(v), -sums)
    assert rbm.exact_log_z() == pytest.approx(float((-rbm.free_energy(v)).logsumexp(0).detach()))


def test_the_gradient_of_the_likelihood_is_data_less_model_1_17() -> None:
    rbm, v = random_rbm(), torch.randint(0, 2, (6, 5)).double()
    of_likelihood = torch.autograd.grad(-exact_log_prob(rbm, v).mean(), list(rbm.parameters()))
    every = all_states(5, 0.0)
    p = torch.softmax(-rbm.free_energy(every).detach(), 0)
    contrast = rbm.free_energy(v).mean() - p @ rbm.free_energy(every)
    torch.testing.assert_close(torch.autograd.grad(contrast, list(rbm.parameters())), of_likelihood)


@pytest.mark.parametrize("settings", [{"steps": 1}, {"steps": 3}, {"chains": 6}, {"chains": 4, "steps": 2}])
def test_contrastive_divergence_is_free_energy_of_data_less_that_of_samples_1_17(settings: dict[str, int]) -> None:
    rbm, v = random_rbm(**settings), torch.rand(6, 5).double()
    before = {name: value.clone() for name, value in rbm.state_dict().items()}
    torch.manual_seed(3)
    rbm.contrast(v).backward()
    rbm.load_state_dict(before)
    torch.manual_seed(3)
    with torch.no_grad():
        x, inputs = rbm.phases(v)
    p, samples = inputs.sigmoid(), x[6:]
    expected = -(v.T @ p[:6]) / 6 + samples.T @ p[6:] / len(samples)
    assert rbm.weight.grad is not None and rbm.visible_bias.grad is not None
    torch.testing.assert_close(rbm.weight.grad / 6, expected)
    torch.testing.assert_close(rbm.visible_bias.grad / 6, samples.mean(0) - v.mean(0))
    gradients = {name: parameter.grad for name, parameter in rbm.named_parameters() if parameter.grad is not None}
    rbm.load_state_dict(before)
    torch.manual_seed(3)
    rbm.update(v, rate=0.5)
    for name, parameter in rbm.named_parameters():
        torch.testing.assert_close(parameter.detach(), before[name] - 0.5 * gradients[name] / 6)


def test_gibbs_steps_sample_the_machines_distribution() -> None:
    rbm = random_rbm()
    v = rbm.gibbs(torch.zeros(100_000, 3).double(), 30)
    counts = torch.bincount((v @ torch.tensor([16.0, 8, 4, 2, 1]).double()).long(), minlength=32)
    expected = 1e5 * torch.softmax(-rbm.free_energy(all_states(5, 0.0)).detach(), 0)
    likely = expected > 5
    assert float(((counts - expected) ** 2 / expected)[likely].sum()) < 61  # chi-square, 31 degrees, 1 in 1,000


def test_chains_continue_where_they_ended() -> None:
    rbm, v = random_rbm(chains=10, steps=2), torch.ones(4, 5).double()
    rbm.contrast(v)
    assert rbm.chain.any() and "chain" in rbm.state_dict()
    ended = rbm.chain.clone()
    torch.manual_seed(3)
    expected = rbm.gibbs(ended, 2)
    torch.manual_seed(3)
    assert torch.equal(rbm.phases(v)[0][len(v) :], expected)


def test_the_pseudo_likelihood_is_that_of_each_unit_given_the_others() -> None:
    rbm, v = random_rbm(), torch.randint(0, 2, (4, 5)).double()
    each = torch.stack([rbm.pseudo_log_likelihood(v, torch.full((4,), unit)) for unit in range(5)]) / 5
    for unit in range(5):
        flipped = v.clone()
        flipped[:, unit] = 1 - v[:, unit]
        pair = torch.stack([exact_log_prob(rbm, v), exact_log_prob(rbm, flipped)])
        torch.testing.assert_close(each[unit], pair.log_softmax(0)[0])


def test_annealed_importance_sampling_finds_the_exact_log_z() -> None:
    rbm = random_rbm(40, 10)
    estimate, error = rbm.ais_log_z(torch.zeros(40), chains=200, temperatures=1000)
    assert 0 < error < 0.1 and abs(estimate - rbm.exact_log_z()) < 4 * error
    free = RBM(40, 10).double()
    nn.init.zeros_(free.weight)
    assert free.ais_log_z(torch.zeros(40), chains=2, temperatures=2)[0] == pytest.approx(50 * math.log(2))


def test_a_deep_network_is_its_machines_one_after_the_other() -> None:
    lower, higher = random_rbm(5, 4).float(), random_rbm(4, 3).float()
    machines, v = [lower, higher], torch.rand(6, 5)
    expected = higher.inputs(lower.inputs(v).sigmoid()).sigmoid().detach()
    torch.testing.assert_close(highest_hidden(machines, v), expected)
    network = classifier(machines, 10).eval()
    torch.testing.assert_close(network[:-1](v), expected)
    assert network(v).tolist() == [[0.0] * 10] * 6
