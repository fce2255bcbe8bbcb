"""Length penalties, at lengths that can be checked by hand."""

import pytest
import torch

from weft.decoding.length import LENGTH_PENALTIES, Scoring


def divisor(name: str, length: int, source_length: int, power: float = 1.0) -> float:
    return float(LENGTH_PENALTIES[name](torch.tensor([length]), torch.tensor([source_length]), power))


@pytest.mark.parametrize(
    ("name", "length", "source_length", "power", "expected"),
    [
        ("none", 7, 12, 0.5, 1.0),
        ("average", 9, 100, 0.3, 9.0),
        ("average", 9, 5, 2.0, 9.0),  # whatever the power
        ("fixed", 9, 100, 1.0, 9.0),
        ("fixed", 9, 100, 0.5, 3.0),
        ("fixed", 9, 100, 0.0, 1.0),
        ("gnmt", 1, 100, 0.6, 1.0),
        ("gnmt", 19, 100, 0.5, 2.0),
        ("gnmt", 13, 100, 2.0, 9.0),
        ("adaptive", 16, 0, 1.0, 16**0.5),
        ("adaptive", 16, 1, 1.0, 16**0.51),
        ("adaptive", 16, 10, 1.0, 16**0.6),
        ("adaptive", 16, 10, 3.0, 16**0.6),  # whatever the power
        ("adaptive", 16, 29, 1.0, 16**0.79),
        ("adaptive", 16, 30, 1.0, 16**0.8),
        ("adaptive", 16, 100, 1.0, 16**0.8),  # no more from thirty pieces on
    ],
)
def test_the_divisor_by_hand(name: str, length: int, source_length: int, power: float, expected: float) -> None:
    assert divisor(name, length, source_length, power) == pytest.approx(expected)


def test_a_word_reward_by_hand_is_added_after_the_division() -> None:
    scoring = Scoring("fixed", 0.5, word_reward=0.25)
    assert float(scoring(torch.tensor(-6.0), torch.tensor(9), torch.tensor(4))) == pytest.approx(-6 / 3 + 9 * 0.25)


@pytest.mark.parametrize("name", LENGTH_PENALTIES)
def test_every_penalty_grows_with_the_length_so_that_search_has_a_bound(name):
    divisors = LENGTH_PENALTIES[name](torch.arange(1, 200), torch.tensor([25]), 0.7)
    assert (divisors.diff() >= 0).all()


@pytest.mark.parametrize("name", LENGTH_PENALTIES)
def test_the_hypotheses_of_a_sentence_share_its_source_length(name):
    lengths, source_lengths = torch.tensor([[3, 4], [5, 6]]), torch.tensor([[8], [20]])
    expected = [[divisor(name, length, source) for length in row] for row, source in (([3, 4], 8), ([5, 6], 20))]
    torch.testing.assert_close(LENGTH_PENALTIES[name](lengths, source_lengths, 1.0), torch.tensor(expected))
