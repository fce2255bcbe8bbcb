"""Charts of braille patterns, dot by dot."""

import math
import time

from weft.figures.line_chart import Series
from weft.figures.terminal_chart import terminal_chart


def text(*series: Series, width: int, height: int) -> list[str]:
    lines = terminal_chart(series, width, height)
    assert len(lines) <= height and all(sum(len(part) for part, _ in line) <= width for line in lines)
    return ["".join(part for part, _ in line) for line in lines]


def test_a_straight_line_is_a_diagonal_of_dots() -> None:
    falling = Series("loss", [0, 1, 2, 3], [7, 4.667, 2.333, 0])  # in 2 x 2 characters, or 4 x 8 dots
    assert text(falling, width=6, height=3) == ["  7 ⢣⠀", "  0 ⠀⢇", "     3"]


def test_a_gap_joins_its_neighbors_and_what_is_not_finite_is_no_dot() -> None:
    with_gap = text(Series("a", [0, 1, 2], [1, math.nan, 1]), Series("b", [0], [math.inf]), width=12, height=4)
    assert with_gap == text(Series("a", [0, 2], [1, 1]), width=12, height=4)


def test_the_first_tenth_does_not_flatten_the_rest() -> None:
    loss = Series("loss", range(101), [1000.0, *(100 - x for x in range(1, 101))])
    assert text(loss, width=40, height=6)[0].startswith("90 ")


def test_a_first_value_of_any_size_takes_no_time() -> None:
    begin = time.process_time()
    text(Series("loss", range(101), [1e12, *(1 + x % 2 for x in range(100))]), width=80, height=30)
    assert time.process_time() - begin < 2  # dot by dot it would be hours


def test_each_dot_belongs_to_the_series_drawn_last() -> None:
    lines = terminal_chart([Series("a", [0, 9], [0, 0]), Series("b", [0, 9], [0, 9])], 20, 5)
    owners = {of for line in lines for _, of in line}
    assert owners == {None, 0, 1}
    assert [of for _, of in lines[-2]][:3] == [None, 1, 0]


def test_without_points_or_room_there_is_a_word() -> None:
    assert text(Series("a", [], []), width=20, height=9) == ["no data yet"]
    assert text(Series("a", [1], [1]), width=20, height=2) == ["no data yet"]
