"""Sinusoidal positions: the paper's formula, for sentences of any length."""

import math

import pytest
import torch

from weft.layers.positions import SinusoidalPositions, sinusoids


@pytest.mark.parametrize("position", [0, 1, 2, 17, 127, 128, 5000])
@pytest.mark.parametrize("model_dim", [2, 6, 7, 64])
def test_every_value_is_the_papers_formula(position, model_dim):
    expected = [
        (math.sin if dim % 2 == 0 else math.cos)(position / 10_000 ** (dim // 2 * 2 / model_dim))
        for dim in range(model_dim)
    ]
    assert sinusoids(position + 1, model_dim)[position].tolist() == pytest.approx(expected, abs=1e-6)


def test_some_values_by_hand():
    table = sinusoids(2, 4)
    assert table[0].tolist() == [0.0, 1.0, 0.0, 1.0]
    assert table[1].tolist() == pytest.approx([0.841471, 0.540302, 0.0099998, 0.99995], abs=1e-6)  # sin 1, cos 1, 0.01


def test_positions_are_added_and_the_input_is_left_alone():
    x = torch.randn(2, 5, 6)
    before = x.clone()
    torch.testing.assert_close(SinusoidalPositions(6)(x), before + sinusoids(5, 6))
    assert torch.equal(x, before)


@pytest.mark.parametrize(("offset", "time"), [(0, 300), (127, 1), (127, 2), (128, 1), (1000, 3)])
def test_no_sentence_is_too_long_for_the_table(offset, time):
    positions = SinusoidalPositions(6)
    added = positions(torch.zeros(1, time, 6), offset)[0]
    assert torch.equal(added, sinusoids(offset + time, 6)[offset:])


def test_an_offset_is_the_place_of_the_first_time_step():
    positions, x = SinusoidalPositions(6), torch.randn(2, 9, 6)
    stepped = torch.cat([positions(x[:, time, None], time) for time in range(9)], dim=1)
    assert torch.equal(stepped, positions(x))


def test_a_table_that_grew_while_decoding_serves_training():
    positions = SinusoidalPositions(6)
    with torch.inference_mode():
        positions(torch.zeros(1, 200, 6))
    x = torch.randn(1, 200, 6, requires_grad=True)
    positions(x).square().sum().backward()
    assert x.grad is not None


def test_the_table_is_no_part_of_the_weights():
    assert SinusoidalPositions(6).state_dict() == {}


def test_the_input_keeps_its_precision():
    assert SinusoidalPositions(6)(torch.zeros(1, 3, 6, dtype=torch.bfloat16)).dtype == torch.bfloat16
