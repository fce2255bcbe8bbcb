"""Length penalties, at lengths that can be checked by hand."""

import pytest
import torch

from weft.decoding.length import LENGTH_PENALTIES, Scoring


def divisor(name: str, length: int, source_length: int, power: float = 1.0) -> float:
    return float(LENGTH_PENALTIES[name](torch.tensor([length]), torch.tensor([source_length]), power))


def test_no_penalty_divides_by_one():
    assert divisor("none", 7, 12, 0.5) == 1.0


def test_a_fixed_power_of_the_length():
    assert divisor("fixed", 9, 100, 1.0) == 9.0
    assert divisor("fixed", 9, 100, 0.5) == pytest.approx(3.0)
    assert divisor("fixed", 9, 100, 0.0) == 1.0


def test_gnmt_is_five_plus_the_length_over_six():
    assert divisor("gnmt", 1, 100, 0.6) == 1.0
    assert divisor("gnmt", 19, 100, 0.5) == pytest.approx(2.0)
    assert divisor("gnmt", 13, 100, 2.0) == pytest.approx(9.0)


@pytest.mark.parametrize(
    ("source_length", "power"), [(0, 0.5), (1, 0.51), (10, 0.6), (29, 0.79), (30, 0.8), (100, 0.8)]
)
def test_the_adaptive_power_follows_the_source_up_to_thirty_pieces(source_length, power):
    assert divisor("adaptive", 16, source_length) == pytest.approx(16**power)


def test_the_adaptive_penalty_has_no_power_of_its_own():
    assert divisor("adaptive", 16, 10, 1.0) == divisor("adaptive", 16, 10, 3.0)


def test_average_is_the_length_whatever_the_power() -> None:
    assert divisor("average", 9, 100, 0.3) == divisor("average", 9, 5, 2.0) == 9.0


def test_a_word_reward_by_hand_is_added_after_the_division() -> None:
    scoring = Scoring("fixed", 0.5, word_reward=0.25)
    assert float(scoring(torch.tensor(-6.0), torch.tensor(9), torch.tensor(4))) == pytest.approx(-6 / 3 + 9 * 0.25)


@pytest.mark.parametrize("scoring", [Scoring(), Scoring("gnmt", 1.0, 0.5), Scoring("adaptive", 1.0, 2.0)])
def test_a_score_never_falls_by_length_alone(scoring: Scoring) -> None:
    scores = scoring(torch.full((199,), -3.0), torch.arange(1, 200), torch.tensor([25]))
    assert (scores.diff() >= 0).all()


@pytest.mark.parametrize("name", LENGTH_PENALTIES)
def test_every_penalty_grows_with_the_length_so_that_search_has_a_bound(name):
    divisors = LENGTH_PENALTIES[name](torch.arange(1, 200), torch.tensor([25]), 0.7)
    assert (divisors.diff() >= 0).all()


@pytest.mark.parametrize("name", LENGTH_PENALTIES)
def test_the_hypotheses_of_a_sentence_share_its_source_length(name):
    lengths, source_lengths = torch.tensor([[3, 4], [5, 6]]), torch.tensor([[8], [20]])
    expected = [[divisor(name, length, source) for length in row] for row, source in (([3, 4], 8), ([5, 6], 20))]
    torch.testing.assert_close(LENGTH_PENALTIES[name](lengths, source_lengths, 1.0), torch.tensor(expected))
