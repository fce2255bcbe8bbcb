"""What stands in a corpus twice is found by numbers, as it would be by comparing every pair with every other."""

import random

import numpy as np

from weft.data.doctor.copies import band_keys, find_in, first_alike, near_duplicates


def test_the_first_of_equal_keys_stands_for_all_and_nothing_equals_nothing() -> None:
    assert first_alike(np.array([7, 5, 7, 0, 0, 5], np.uint64)).tolist() == [0, 1, 0, 3, 4, 1]


def test_keys_are_found_in_others_with_their_places() -> None:
    keys, held = np.array([3, 0, 9, 4], np.uint64), np.array([4, 3, 0], np.uint64)
    assert find_in(keys, held).tolist() == [1, -1, -1, 0]
    assert find_in(keys, np.array([], np.uint64)).tolist() == [-1] * 4


def test_pairs_that_share_nine_of_ten_words_are_found_and_those_that_share_half_are_not() -> None:
    draw = random.Random(1)
    words = [f"w{number}" for number in range(5000)]
    base = [draw.sample(words, 20) for _ in range(300)]
    nearly = [[*text[:19], draw.choice(words)] for text in base]  # 19 of 21 words are common
    half = [[*text[:14], *draw.sample(words, 6)] for text in base]  # 14 of 26
    texts = [*base, *nearly, *half]
    found = near_duplicates(band_keys(texts, [[] for _ in texts]))
    assert np.mean(found[300:600] == np.arange(300)) > 0.8
    assert np.mean(found[600:] == np.arange(300)) < 0.1
    assert (found[:300] == np.arange(300)).all()


def test_other_pairs_have_other_keys() -> None:
    assert band_keys([["一"]], [["one"]]).tolist() != band_keys([["二"]], [["two"]]).tolist()
