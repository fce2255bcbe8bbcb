"""Dense memories, modern Hopfield networks, and the attention that they are."""

import math

import pytest
import torch
from torch import Tensor

from weft.layers.attention import MultiHeadAttention, attend_explicit, attend_fused
from weft.layers.fast.short_attention import attend_short
from weft.models.memories.boltzmann import all_states
from weft.models.memories.dense import DenseMemory
from weft.models.memories.hopfield import Hopfield
from weft.models.memories.modern import ModernHopfield, effective_patterns, regime


def random_patterns(patterns: int, units: int) -> Tensor:
    return torch.randint(0, 2, (patterns, units)).double() * 2 - 1


def test_a_dense_memory_of_power_two_is_hopfields_network_1_18() -> None:
    patterns, states = random_patterns(3, 9), all_states(9)
    dense, network = DenseMemory(patterns, power=2), Hopfield.fit(patterns)
    difference = dense.energy(states) - 18 * network.energy(states)  # N times twice the energy, and the diagonal
    torch.testing.assert_close(difference, difference[:1].expand_as(difference))


@pytest.mark.parametrize("power", [2, 3, 4, None])
def test_no_update_one_after_the_other_raises_the_energy_of_a_dense_memory_1_18(power: int | None) -> None:
    memory, states = DenseMemory(random_patterns(4, 8), power), all_states(8)
    by_hand = states @ memory.patterns.T
    by_hand = -by_hand.exp().sum(1) if power is None else -(by_hand**power).sum(1)
    energy = memory.energy(states)
    torch.testing.assert_close(energy, -(-by_hand).log() if power is None else by_hand)
    after = memory.update(states)
    assert bool((memory.energy(after) <= energy + 1e-9).all())
    assert torch.equal(memory.update(memory.patterns), memory.patterns) or power == 2


def test_high_powers_do_not_overflow() -> None:
    patterns = random_patterns(5, 1000).float()
    damaged = torch.where(torch.rand_like(patterns) < 0.1, -patterns, patterns)
    assert torch.equal(DenseMemory(patterns, 20).update(damaged), patterns)


def test_the_steeper_the_energy_the_more_is_stored() -> None:
    patterns = random_patterns(150, 40)
    damaged = torch.where(torch.rand(150, 40) < 0.1, -patterns, patterns)
    recalled = [
        float((DenseMemory(patterns, n).update(damaged) == patterns).all(1).float().mean()) for n in (2, 3, None)
    ]
    assert recalled[0] < 0.05 < recalled[1] < recalled[2] and recalled[2] > 0.95


@pytest.mark.parametrize("attend", [attend_explicit, attend_fused, attend_short])
def test_an_update_is_attention_1_19(attend) -> None:
    query, key = torch.randn(2, 3, 5, 16), torch.randn(2, 3, 40, 16)
    attended = attend(query, key, key)
    for row in range(2):
        for head in range(3):
            memory = ModernHopfield(key[row, head], beta=1 / math.sqrt(16))
            torch.testing.assert_close(memory.update(query[row, head]), attended[row, head], rtol=0, atol=1e-6)


def test_attention_that_settles_is_a_modern_hopfield_network_with_the_beta_of_each_head() -> None:
    attention = MultiHeadAttention(12, 3, steps=3, learns_beta=True).eval()
    assert attention.log_beta is not None
    attention.log_beta.data = torch.tensor([0.0, 0.7, -0.5])
    query, key = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 6, 4)
    with torch.no_grad():
        settled = attend_explicit(attention.settle(query, key), key, key)
    for head, beta in enumerate((0.5, 0.5 * math.exp(0.7), 0.5 * math.exp(-0.5))):
        expected = ModernHopfield(key[0, head], beta).update(query[0, head], steps=3)
        torch.testing.assert_close(settled[0, head], expected, rtol=0, atol=1e-6)


def test_no_update_raises_the_energy_and_its_gradient_is_the_step_1_19() -> None:
    memory = ModernHopfield(torch.randn(20, 6).double(), beta=2.0)
    states = torch.randn(50, 6).double().requires_grad_()
    (slope,) = torch.autograd.grad(memory.energy(states).sum(), states)
    torch.testing.assert_close(states - slope, memory.update(states))
    x = states.detach()
    for _ in range(10):
        assert bool((memory.energy(memory.update(x)) <= memory.energy(x) + 1e-12).all())
        x = memory.update(x)
    torch.testing.assert_close(memory.update(states.detach(), steps=10), x)


def test_ten_thousand_patterns_are_told_apart_at_beta_1_and_averaged_at_that_of_attention() -> None:
    patterns = torch.nn.functional.normalize(torch.randn(10_000, 64), dim=1) * 8
    query = patterns[:500] + torch.randn(500, 64)
    retrieved = {}
    for beta in (1.0, 1 / math.sqrt(64)):
        memory = ModernHopfield(patterns, beta)
        found = torch.nn.functional.cosine_similarity(memory.update(query), patterns[:500])
        retrieved[beta] = float((found > 0.99).float().mean())
        allowed = torch.full((500,), 10_000.0)
        assert regime(effective_patterns(memory.weights(query)), allowed) == (
            "retrieving" if beta == 1 else "clustering"
        )
    assert retrieved[1.0] >= 0.99 and retrieved[1 / 8] <= 0.05


def test_a_head_retrieves_clusters_or_averages() -> None:
    one, few, all_ = torch.eye(8)[:3], torch.tensor([[0.3, 0.3, 0.4, 0, 0, 0, 0, 0]] * 3), torch.full((3, 8), 1 / 8)
    allowed = torch.full((3,), 8.0)
    assert effective_patterns(one).tolist() == [1, 1, 1]
    assert effective_patterns(all_).tolist() == pytest.approx([8, 8, 8])
    regimes = [regime(effective_patterns(weights), allowed) for weights in (one, few, all_)]
    assert regimes == ["retrieving", "clustering", "averaging"]
    assert regime(effective_patterns(one), torch.ones(3)) == "averaging"  # queries that have no choice say nothing
