"""Means of weights by hand, and that looking at them changes nothing."""

import pytest
import torch
from torch import nn

from weft.training.averaging import Weights, follow, holding, mean, put, weights_of


def number(value: float) -> nn.Linear:
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, value)
    return model


def test_the_average_forgets_quickly_at_first_and_then_as_its_decay_says() -> None:
    model, average = number(1.0), {"weight": torch.tensor([[0.0]])}
    follow(average, model, decay=0.5, step=1)  # min(0.5, 2/11)
    assert average["weight"].item() == pytest.approx(9 / 11)
    follow(average, model, decay=0.5, step=100)  # min(0.5, 101/110)
    assert average["weight"].item() == pytest.approx((9 / 11 + 1) / 2)


def test_the_average_of_weights_that_stand_still_is_these_weights() -> None:
    model = number(0.3)
    average = weights_of(model)
    for step in range(1, 50):
        follow(average, model, decay=0.9, step=step)
    assert torch.equal(average["weight"], model.weight)


def test_an_average_is_matched_by_name_in_whatever_order_it_was_stored() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    forward, backward = weights_of(model), dict(reversed(weights_of(model).items()))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter))
    for average in (forward, backward):
        follow(average, model, decay=0.9, step=3)
    assert all(torch.equal(forward[name], backward[name]) for name in forward)


def test_the_mean_of_three() -> None:
    found = mean({"a": torch.tensor([value]), "b": torch.tensor([[10 * value]])} for value in (1.0, 2.0, 6.0))
    assert {name: tensor.item() for name, tensor in found.items()} == {"a": 3.0, "b": 30.0}


def test_the_mean_loses_nothing_to_rounding_on_the_way() -> None:
    # In fp32 the sum of 2^24 and 1 is 2^24.
    found = mean({"a": torch.tensor([value])} for value in (2.0**24, 1.0, 1.0))
    assert found["a"].item() == (2**24 + 2) / 3


def test_a_mean_leaves_its_parts_alone() -> None:
    parts: list[Weights] = [{"a": torch.tensor([float(n)], dtype=torch.float64)} for n in (1, 3)]
    assert mean(parts)["a"].item() == 2.0
    assert [part["a"].item() for part in parts] == [1.0, 3.0]


def test_a_model_gets_its_own_weights_back_bit_for_bit_even_after_an_error() -> None:
    model = number(1 / 3)
    before = model.weight.detach().clone()
    with pytest.raises(RuntimeError), holding({"weight": torch.tensor([[2.0]])}, model) as own:
        assert model.weight.item() == 2.0 and torch.equal(own["weight"], before)
        raise RuntimeError
    assert torch.equal(model.weight, before)


def test_a_tied_matrix_is_put_and_taken_once() -> None:
    first, second = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
    second.weight = first.weight
    model = nn.Sequential(first, second)
    assert weights_of(model).keys() == {"0.weight"}
    put({"0.weight": torch.eye(2)}, model)
    assert torch.equal(second.weight, torch.eye(2))


def test_weights_that_lack_one_are_refused() -> None:
    with pytest.raises(KeyError, match="weight"):
        put({}, number(1.0))
