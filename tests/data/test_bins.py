"""Histograms, counted by hand."""

from weft.data.bins import MOST_BINS, binned


def test_a_limit_belongs_to_its_bin_and_the_last_bin_is_open() -> None:
    assert binned([[0, 5, 6, 10, 11, 99], [5]], [5, 10]) == ([5, 10], [[2, 2, 2], [1, 0, 0]])


def test_limits_of_equal_distance_are_chosen_so_that_few_numbers_are_beyond_them() -> None:
    limits, (counts,) = binned([range(1, 101)])
    assert limits == [10, 20, 30, 40, 50, 60, 70, 80, 90, 100] and counts == [10] * 10 + [0]
    limits, (counts,) = binned([[1] * 999 + [1_000_000]])
    assert limits == [1] and counts == [999, 1]
    assert all(len(binned([range(most)])[0]) < MOST_BINS for most in range(2, 3000, 97))


def test_no_numbers_have_bins_without_any() -> None:
    assert binned([[], []]) == ([1], [[0, 0], [0, 0]])
