"""Answers are compared with their references, and with one answer to all questions."""

import pytest

from weft.metrics.answers import score_answers


def test_exact_match_stands_next_to_the_answer_that_is_right_most_often() -> None:
    scores = score_answers(["London", "Rome ", "paris", "London"], ["London", "Rome", "Paris", "London "])
    assert scores.values() == {"exact_match": pytest.approx(0.75), "constant_answer": pytest.approx(0.5)}
    assert 'constant_answer: always "London"' in scores.table().text()
