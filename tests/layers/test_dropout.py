"""Dropout by random bytes: the probability is a 256th, and apart from that it is the paper's."""

import math

import pytest
import torch
from torch.nn import functional as F

from weft.layers.dropout import Dropout, drop_explicit
from weft.layers.fast.byte_dropout import drop_by_bytes, dropped_values, kept_mask, rectify_and_drop


def rounded_probability(probability: float) -> float:
    """The probability with which `drop_by_bytes` really drops."""
    return dropped_values(probability) / 256


@pytest.mark.parametrize(
    ("probability", "rounded"),
    [(0.0, 0.0), (0.001, 1 / 256), (0.1, 26 / 256), (0.25, 64 / 256), (0.5, 0.5), (0.999, 255 / 256), (1.0, 1.0)],
)
def test_probabilities_are_rounded_to_the_nearest_256th_but_never_to_none_or_all(probability, rounded):
    assert rounded_probability(probability) == rounded


@pytest.mark.parametrize("probability", [1 / 256, 0.1, 0.5, 0.9, 255 / 256])
def test_what_is_kept_is_scaled_by_the_rounded_probability_exactly(probability):
    values = drop_by_bytes(torch.ones(100_000), probability).unique().tolist()
    assert values == [0.0, pytest.approx(1 / (1 - rounded_probability(probability)), rel=1e-6)]


@pytest.mark.parametrize("drop", [drop_by_bytes, drop_explicit])
@pytest.mark.parametrize("dropped", [1, 26, 128, 230, 255])
def test_as_many_are_dropped_as_the_probability_says(drop, dropped):
    count, probability = 1_000_000, dropped / 256
    zeros = int((drop(torch.ones(count), probability) == 0).sum())
    deviation = math.sqrt(count * probability * (1 - probability))
    assert abs(zeros - count * probability) < 4 * deviation


def test_the_mean_is_kept():
    x = torch.full((1_000_000,), 3.0)
    deviation = 3 * math.sqrt(26 / 230 / 1_000_000)  # sqrt(p / (1 - p) / n)
    assert float(drop_by_bytes(x, 0.1).mean()) == pytest.approx(3.0, abs=4 * deviation)


def test_the_bytes_of_a_random_word_are_dropped_alike_and_independently():
    dropped = (drop_by_bytes(torch.ones(800_000), 0.25) == 0).view(-1, 8).double()
    covariance = dropped.T.cov()  # of the eight bytes of a word
    expected = 0.25 * 0.75 * torch.eye(8, dtype=torch.float64)
    assert dropped.mean(0).tolist() == pytest.approx([0.25] * 8, abs=4 * math.sqrt(0.25 * 0.75 / 100_000))
    assert float((covariance - expected).abs().amax()) < 5 * 0.25 * 0.75 / math.sqrt(100_000)


def test_probabilities_that_round_to_none_or_all():
    x = torch.randn(7, 3)
    assert torch.equal(drop_by_bytes(x, 0.0), x)
    assert torch.equal(drop_by_bytes(x, 1.0), torch.zeros(7, 3))


@pytest.mark.parametrize("shape", [(), (1,), (7,), (8,), (3, 5), (2, 3, 5), (0, 4)])
def test_any_shape_can_be_dropped(shape):
    x = torch.ones(shape)
    dropped = drop_by_bytes(x, 0.5)
    assert dropped.shape == shape
    assert set(dropped.flatten().tolist()) <= {0.0, 2.0}


def test_an_input_that_is_not_contiguous_is_dropped_in_its_own_order():
    x = torch.arange(1.0, 13).view(3, 4).T
    dropped = drop_by_bytes(x, 0.5)
    assert torch.equal(dropped[dropped != 0], 2 * x[dropped != 0])


def test_the_same_seed_drops_the_same_elements():
    def dropped(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return drop_by_bytes(torch.ones(1000), 0.3)

    assert torch.equal(dropped(7), dropped(7))
    assert not torch.equal(dropped(7), dropped(8))


def test_gradients_flow_where_activations_did():
    x = torch.randn(1000, requires_grad=True)
    dropped = drop_by_bytes(x, 0.5)
    dropped.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, torch.where(dropped == 0, 0.0, 2.0))


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("probability", [0.0, 0.1, 0.5, 1.0])
def test_relu_and_dropout_in_one_are_the_two_one_after_the_other_and_so_are_their_gradients(probability, precision):
    x = torch.randn(50, 30, dtype=precision, requires_grad=True)
    above = torch.randn(50, 30, dtype=precision)
    results = []
    for form in (rectify_and_drop, lambda x, probability: drop_by_bytes(F.relu(x), probability)):
        torch.manual_seed(5)
        dropped = form(x, probability)
        results.append((dropped, torch.autograd.grad(dropped, x, above)[0]))
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)


def test_evaluation_and_probability_zero_are_the_identity():
    x = torch.randn(100)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0).train()(x) is x
    assert (Dropout(0.5).train()(x) == 0).any()


def test_bf16_stays_bf16():
    assert drop_by_bytes(torch.ones(10, dtype=torch.bfloat16), 0.1).dtype == torch.bfloat16


def test_four_activations_at_the_corners_of_a_rectangle_are_dropped_as_independently_as_any_two():
    # Words 0, 1, side and side + 1 are made from two words of each row: the worst four that there are.
    side, count, probability = 50, 20_000, 0.25
    corners = [8 * word for word in (0, 1, side, side + 1)]
    dropped = torch.stack([(kept_mask(torch.empty(8 * side**2), 64) == 0)[corners] for _ in range(count)]).double()
    expected = probability * (1 - probability) * torch.eye(4, dtype=torch.float64)
    assert float((dropped.T.cov() - expected).abs().amax()) < 5 * probability * (1 - probability) / math.sqrt(count)


def test_dropping_onto_a_residual_is_dropping_and_adding():
    x, residual = torch.randn(2, 30, requires_grad=True), torch.randn(2, 30, requires_grad=True)
    dropout = Dropout(0.3).train()
    torch.manual_seed(1)
    apart = residual + dropout(x)
    torch.manual_seed(1)
    at_once = dropout(x, onto=residual)
    torch.testing.assert_close(at_once, apart)
    gradients = [torch.autograd.grad(y.square().sum(), (x, residual)) for y in (at_once, apart)]
    torch.testing.assert_close(*gradients)
    assert torch.equal(dropout.eval()(x, onto=residual), residual + x)


@pytest.mark.parametrize("probability", [-0.1, 1.5, math.nan])
def test_what_is_no_probability_is_refused(probability):
    with pytest.raises(ValueError, match="must be a probability"):
        Dropout(probability)


def test_the_scale_is_exact_in_bf16_too():
    x = torch.full((4096,), 230.0, dtype=torch.bfloat16)  # 230 / (1 - 26 / 256) = 256
    assert drop_by_bytes(x, 0.1).unique().tolist() == [0.0, 256.0]
