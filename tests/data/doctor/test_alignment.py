"""How right pairs are told from wrong ones, and how stretches that are out of step become blocks."""

import numpy as np
import pytest

from weft.data.doctor.alignment import Block, Learned, joined
from weft.data.doctor.lexicon import learn


@pytest.mark.parametrize(
    ("right", "wrong", "separation"),
    [([2, 3], [0, 1], 1.0), ([0, 1], [2, 3], 0.0), ([1, 1, 1], [1, 1], 0.5), ([1, 2], [1, 1], 0.75)],
)
def test_separation_is_the_chance_that_a_right_pair_scores_higher_and_a_tie_is_half(
    right: list[float], wrong: list[float], separation: float
) -> None:
    lexicon = learn([["一"], ["二"]] * 4, [["one"], ["two"]] * 4)
    assert lexicon is not None
    scores = np.array(right, np.float32), np.array(wrong, np.float32)
    assert Learned(lexicon, [], [], *scores).separation() == separation


def test_blocks_that_nearly_touch_are_one_and_one_inside_another_takes_nothing_from_it() -> None:
    assert joined([Block(130, 140, 1), Block(0, 100, 1), Block(50, 60, 1), Block(110, 120, 2)]) == [
        Block(0, 100, 1),
        Block(110, 120, 2),
        Block(130, 140, 1),
    ]
    assert joined([Block(0, 100, 1), Block(50, 60, 1), Block(115, 140, 1)]) == [Block(0, 140, 1)]
