"""The largest few of many numbers, by blocks: `topk` is the plain form."""

import pytest
import torch
from torch.testing import assert_close

from weft.decoding.largest import BLOCK, FEWEST_BLOCKS, largest


@pytest.mark.parametrize("count", [1, 6, 17])
@pytest.mark.parametrize("numbers", [5, BLOCK * FEWEST_BLOCKS - 1, BLOCK * FEWEST_BLOCKS, 2100, 8003, 24_000])
def test_the_largest_of_a_row_are_those_of_topk(numbers: int, count: int) -> None:
    x = torch.randn(7, numbers, generator=torch.Generator().manual_seed(numbers))
    count = min(count, numbers)
    assert_close(largest(x, count), tuple(x.topk(count, dim=1)), rtol=0, atol=0)


@pytest.mark.parametrize("first", [0, 63, 64, 4031, 4090])
def test_neighbours_and_the_last_numbers_of_a_row_are_found(first: int) -> None:
    x = torch.zeros(2, 4096 - 2)
    x[1, first : first + 4] = torch.tensor([1.0, 4.0, 3.0, 2.0])
    values, places = largest(x, 4)
    assert values[1].tolist() == [4.0, 3.0, 2.0, 1.0]
    assert places[1].tolist() == [first + 1, first + 2, first + 3, first]


def test_minus_infinity_is_taken_where_nothing_else_is_left() -> None:
    x = torch.full((3, 5000), -torch.inf)
    x[:, 4321] = 0.0
    values, places = largest(x, 3)
    assert values.tolist() == [[0.0, -torch.inf, -torch.inf]] * 3
    assert places[:, 0].tolist() == [4321] * 3 and all(len(set(row)) == 3 for row in places.tolist())


def test_a_nan_is_seen() -> None:
    x = torch.randn(2, 5000)
    x[0, 1234] = torch.nan
    assert largest(x, 2)[0].isnan().tolist() == [[True, False], [False, False]]


def test_equal_numbers_are_chosen_the_same_way_alone_and_among_others() -> None:
    x = torch.randint(0, 40, (64, 8000), generator=torch.Generator().manual_seed(1)).float()
    together = largest(x, 6)[1]
    assert all(torch.equal(largest(x[row : row + 1], 6)[1][0], together[row]) for row in range(64))
