"""What makes a rotation of queries and keys one by their positions, and the faults that each property finds.

A property is a function of an implementation, `turn(x, offset)`. The implementations of weft have all of them. The
faults are those of public solutions of CS224N's assignment on rotary positions; most of them train without complaint.
"""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from weft.layers.positions import RotaryPositions, rotations, turn_explicit

HEADS, TIME, WIDTH = 3, 40, 8
Turning = Callable[[Tensor, int], Tensor]


def explicit(x: Tensor, offset: int) -> Tensor:
    cosine, sine = rotations(offset + x.size(2), x.size(-1))[:, offset:]
    return turn_explicit(x, cosine, sine)


def by_angles(x: Tensor, positions: Tensor, frequencies: Tensor) -> Tensor:
    """A plain form, of which the faults are variants: every pair of halves is a complex number."""
    turned = torch.complex(*x.chunk(2, dim=-1)) * torch.exp(1j * positions * frequencies)
    return torch.cat([turned.real, turned.imag], dim=-1)


def positions_of(x: Tensor, offset: int) -> Tensor:
    return torch.arange(offset, offset + x.size(2))[:, None]


EXPONENTS = torch.arange(0, WIDTH, 2) / WIDTH
FREQUENCIES = 10_000.0**-EXPONENTS


@pytest.mark.parametrize("offset", [0, 7, RotaryPositions(WIDTH).turns.size(1)])
def test_the_form_that_the_faults_are_variants_of_is_a_rotation_without_them(offset: int) -> None:
    x = torch.randn(2, HEADS, TIME, WIDTH)
    expected = by_angles(x, positions_of(x, offset), FREQUENCIES)
    for turn in (RotaryPositions(WIDTH), explicit):
        torch.testing.assert_close(turn(x, offset), expected, rtol=1e-4, atol=1e-4)


# ---- the properties ----


def identity_at_position_0(turn: Turning) -> None:
    x = torch.randn(2, HEADS, TIME, WIDTH)
    torch.testing.assert_close(turn(x, 0)[:, :, 0], x[:, :, 0])


def norm_kept(turn: Turning) -> None:
    x = torch.randn(2, HEADS, TIME, WIDTH)
    torch.testing.assert_close(turn(x, 100).norm(dim=-1), x.norm(dim=-1))


def scores_depend_on_the_distance_alone(turn: Turning) -> None:
    query, key = torch.randn(2, 1, HEADS, TIME, WIDTH)
    scores, shifted = (turn(query, offset) @ turn(key, offset).mT for offset in (0, 64))
    torch.testing.assert_close(shifted, scores, rtol=1e-4, atol=1e-4)
    alike = turn(query[:, :, :1].expand_as(query), 0) @ turn(key[:, :, :1].expand_as(key), 0).mT
    for distance in (-TIME + 1, -7, 0, 1, 20):
        along = alike.diagonal(distance, dim1=-2, dim2=-1)
        torch.testing.assert_close(along, along[..., :1].expand_as(along), rtol=1e-4, atol=1e-4)
    assert alike[0, 0, 0].std() > 0.1  # and they do depend on it


def frequencies_fall_from_1(turn: Turning) -> None:
    """Pair i is turned at position 1 by 10,000^(-2i / d)."""
    units = torch.eye(WIDTH)[: WIDTH // 2, None, None].expand(-1, 1, 2, -1)  # (pair, 1, time, d)
    turned = turn(units, 0)[:, 0, 1]  # (pair, d)
    real, imaginary = (half.diagonal() for half in turned.chunk(2, dim=-1))
    torch.testing.assert_close(torch.atan2(imaginary, real), FREQUENCIES)
    assert (FREQUENCIES.diff() < 0).all()


def heads_untouched(turn: Turning) -> None:
    x = torch.randn(2, HEADS, TIME, WIDTH)
    for order in ([1, 2, 0], [2]):
        torch.testing.assert_close(turn(x[:, order], 3), turn(x, 3)[:, order])


def times_not_mixed(turn: Turning) -> None:
    x = torch.randn(1, HEADS, TIME, WIDTH)
    other = x.clone()
    other[:, :, 17] += 1
    changed = (turn(x, 0) != turn(other, 0)).any(-1)
    assert changed.nonzero()[:, 2].unique().tolist() == [17]


def step_by_step_as_the_whole(turn: Turning) -> None:
    x = torch.randn(2, HEADS, TIME, WIDTH)
    steps = [turn(x[:, :, time : time + 1], 7 + time) for time in range(TIME)]
    torch.testing.assert_close(torch.cat(steps, dim=2), turn(x, 7))


PROPERTIES = [
    identity_at_position_0,
    norm_kept,
    scores_depend_on_the_distance_alone,
    frequencies_fall_from_1,
    heads_untouched,
    times_not_mixed,
    step_by_step_as_the_whole,
]


@pytest.mark.parametrize("holds", PROPERTIES)
@pytest.mark.parametrize("turn", [RotaryPositions(WIDTH), explicit], ids=["on a CPU", "on a GPU"])
def test_rotary_positions_have_every_property(turn: Turning, holds: Callable[[Turning], None]) -> None:
    holds(turn)


# ---- the faults ----


def upside_down(x: Tensor, offset: int) -> Tensor:
    """The hand-out's own docstring has this sign: 21.6 and 12.2 % of the birth places where others have 31."""
    return by_angles(x, positions_of(x, offset), 10_000.0**EXPONENTS)


def of_heads(x: Tensor, offset: int) -> Tensor:
    """(batch, heads, time, d) taken for (batch, time, heads, d): 14.8 %."""
    return by_angles(x.transpose(1, 2), positions_of(x.transpose(1, 2), offset), FREQUENCIES).transpose(1, 2)


def reshaped(x: Tensor, offset: int) -> Tensor:
    """(d, time) read as (time, d) without turning back: a training loss of 0.029, since the future leaks, and 0.0 %."""
    return by_angles(x, positions_of(x, offset), FREQUENCIES).mT.reshape(x.shape)


def off_by_one(x: Tensor, offset: int) -> Tensor:
    """Pairs counted from 1 in 10,000^(-2i / d): 17.2 %."""
    return by_angles(x, positions_of(x, offset), 10_000.0 ** -(EXPONENTS + 2 / WIDTH))


def exchanged(x: Tensor, offset: int) -> Tensor:
    """Sines where the cosines belong."""
    cosine, sine = rotations(offset + x.size(2), x.size(-1))[:, offset:]
    return turn_explicit(x, sine.abs(), cosine)


FAULTS: dict[Turning, Callable[[Turning], None]] = {
    upside_down: frequencies_fall_from_1,
    of_heads: heads_untouched,
    reshaped: times_not_mixed,
    off_by_one: frequencies_fall_from_1,
    exchanged: identity_at_position_0,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_is_found_by_a_property(fault: Turning) -> None:
    with pytest.raises(AssertionError):
        FAULTS[fault](fault)
