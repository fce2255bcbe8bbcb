"""Positions: the papers' formulas, and sentences of any length where nothing has to be learned for each place."""

import math

import pytest
import torch

from weft.errors import UsageError
from weft.layers.positions import (
    LearnedPositions,
    RotaryPositions,
    SinusoidalPositions,
    Turn,
    rotations,
    sinusoids,
    turn_explicit,
)

ADDED = {"sinusoidal": SinusoidalPositions, "learned": lambda model_dim: LearnedPositions(200, model_dim)}


@pytest.mark.parametrize("position", [0, 1, 2, 17, 127, 128, 5000])
@pytest.mark.parametrize("model_dim", [2, 6, 7, 64])
@pytest.mark.parametrize("period", [10_000, 128 / (2 * math.pi)])
def test_every_value_is_the_papers_formula(position, model_dim, period):
    expected = [
        (math.sin if dim % 2 == 0 else math.cos)(position / period ** (dim // 2 * 2 / model_dim))
        for dim in range(model_dim)
    ]
    assert sinusoids(position + 1, model_dim, period=period)[position].tolist() == pytest.approx(expected, abs=1e-6)


def test_sinusoids_are_added_and_the_input_is_left_alone():
    x = torch.randn(2, 5, 6)
    before = x.clone()
    torch.testing.assert_close(SinusoidalPositions(6, period=20.0)(x), before + sinusoids(5, 6, period=20.0))
    assert torch.equal(x, before)


def test_learned_vectors_are_added_scaled_as_embeddings_are():
    positions, x = LearnedPositions(20, 16), torch.randn(2, 5, 16)
    torch.testing.assert_close(positions(x), x + 4 * positions.weight[:5])


def test_learned_vectors_start_with_variance_one():
    added = LearnedPositions(1000, 64)(torch.zeros(1, 1000, 64))
    assert added.std().item() == pytest.approx(1.0, abs=0.02)


def test_a_sentence_with_more_tokens_than_learned_positions_is_refused_in_words():
    positions = LearnedPositions(1200, 6)
    positions(torch.zeros(1, 1200, 6))
    for offset, time in ((0, 1201), (1200, 1)):
        with pytest.raises(UsageError, match=r"1,201 tokens .* the 1,200 positions .* model\.max_positions"):
            positions(torch.zeros(1, time, 6), offset)


@pytest.mark.parametrize(("offset", "time"), [(0, 300), (127, 1), (127, 2), (128, 1), (1000, 3)])
def test_no_sentence_is_too_long_for_the_table(offset, time):
    positions = SinusoidalPositions(6, period=50.0)
    added = positions(torch.zeros(1, time, 6), offset)[0]
    assert torch.equal(added, sinusoids(offset + time, 6, period=50.0)[offset:])


@pytest.mark.parametrize("kind", ADDED)
def test_an_offset_is_the_place_of_the_first_time_step(kind):
    positions, x = ADDED[kind](6), torch.randn(2, 9, 6)
    stepped = torch.cat([positions(x[:, time, None], time) for time in range(9)], dim=1)
    assert torch.equal(stepped, positions(x))


def test_a_table_that_grew_while_decoding_serves_training():
    positions = SinusoidalPositions(6)
    with torch.inference_mode():
        positions(torch.zeros(1, 200, 6))
    x = torch.randn(1, 200, 6, requires_grad=True)
    positions(x).square().sum().backward()
    assert x.grad is not None


def test_tables_are_no_part_of_the_weights():
    assert SinusoidalPositions(6).state_dict() == RotaryPositions(6).state_dict() == {}


@pytest.mark.parametrize("kind", ADDED)
def test_the_input_keeps_its_precision(kind):
    assert ADDED[kind](6)(torch.zeros(1, 3, 6, dtype=torch.bfloat16)).dtype == torch.bfloat16


# ---- rotary ----


def test_a_rotation_by_hand():
    x = torch.tensor([1.0, 2.0, 0.0, 0.0]).expand(1, 1, 4, 4)  # two planes, dimensions 0 with 2 and 1 with 3
    turned = RotaryPositions(4)(x)[0, 0]
    assert turned[0].tolist() == [1.0, 2.0, 0.0, 0.0]
    # position 3 turns the first plane by 3, the second by 3 / 10,000^(2/4) = 0.03
    expected = [math.cos(3), 2 * math.cos(0.03), math.sin(3), 2 * math.sin(0.03)]
    assert turned[3].tolist() == pytest.approx(expected, abs=1e-6)


def test_an_offset_is_the_position_of_the_first_vector_beyond_any_table():
    rotary = RotaryPositions(64)
    end = rotary.turns.size(1)
    x = torch.randn(1, 2, 3 * end, 64)
    whole = RotaryPositions(64)(x)
    for time in (0, 1, end - 1, end, 3 * end - 1):
        torch.testing.assert_close(rotary(x[:, :, time : time + 1], time), whole[:, :, time : time + 1])


def test_a_table_of_rotations_that_grew_while_decoding_serves_training():
    rotary = RotaryPositions(64)
    long = 2 * rotary.turns.size(1)
    with torch.inference_mode():
        rotary(torch.zeros(1, 1, long, 64))
    x = torch.randn(1, 1, long, 64, requires_grad=True)
    rotary(x).square().sum().backward()
    torch.testing.assert_close(x.grad, 2 * x.detach())  # a rotation changes no length


def test_rotations_of_bf16_are_rounded_once():
    x = torch.randn(2, 3, 5, 8).bfloat16()
    turned = RotaryPositions(8)(x)
    assert turned.dtype == torch.bfloat16
    assert torch.equal(turned, RotaryPositions(8)(x.float()).bfloat16())


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_a_turn_by_halves_is_the_equation_and_so_is_its_gradient(precision):
    cosine, sine = rotations(5, 8)
    # keys as attention has them: every second row of a projection that holds the values too
    keys = torch.randn(2, 5, 2, 3, 8, dtype=precision)[:, :, 0].transpose(1, 2).requires_grad_()
    above = torch.randn(2, 3, 5, 8, dtype=precision)
    turned = Turn.apply(keys, cosine, sine)
    gradient = torch.autograd.grad(turned, keys, above)[0]
    precise = keys.detach().float().requires_grad_()  # whose gradient is not rounded term by term
    expected = turn_explicit(precise, cosine, sine)
    torch.testing.assert_close(turned, expected.to(precision))
    torch.testing.assert_close(gradient, torch.autograd.grad(expected, precise, above.float())[0].to(precision))


def test_heads_of_odd_width_cannot_be_turned():
    with pytest.raises(ValueError, match="head_dim = 5 must be even"):
        RotaryPositions(5)
