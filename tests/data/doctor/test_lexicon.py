"""The lexicon learns which words stand for each other, by the numbers of a model written with loops."""

import math
from collections import defaultdict

import numpy as np
import pytest

from weft.data.doctor.lexicon import FEWEST, ITERATIONS, Cells, learn, sums

PAIRS = [
    ("我 有 狗", "i have dogs"),
    ("我 有 猫", "i have cats"),
    ("你 有 狗", "you have dogs"),
    ("你 有 猫", "you have cats"),
    ("我 爱 你", "i love you"),
    ("你 爱 狗", "you love dogs"),
    ("狗 爱 猫", "dogs love cats"),
    ("我 爱 猫", "i love cats"),
    ("猫 爱 我", "cats love me"),
] * FEWEST


def tokens(side: int) -> list[list[str]]:
    return [pair[side].split() for pair in PAIRS]


def model_1(sources: list[list[str]], targets: list[list[str]]) -> dict[tuple[str, str], float]:
    """t(target | source) by expectation and maximization, one word at a time; one occurrence taken from each count."""
    t: dict[tuple[str, str], float] = defaultdict(lambda: 1.0)
    counts: dict[tuple[str, str], float] = {}
    totals: dict[str, float] = {}
    for _ in range(ITERATIONS):
        counts, totals = defaultdict(float), defaultdict(float)
        for source, target in zip(sources, targets, strict=True):
            for e in target:
                whole = sum(t[f, e] for f in source)
                for f in source:
                    counts[f, e] += t[f, e] / whole
                    totals[f] += t[f, e] / whole
        t = defaultdict(float, {(f, e): count / totals[f] for (f, e), count in counts.items()})
    return {(f, e): max(count - 1, 0) / totals[f] for (f, e), count in counts.items()}


def test_the_probabilities_are_those_of_model_1_less_one_occurrence() -> None:
    sources, targets = tokens(0), tokens(1)
    lexicon = learn(sources, targets)
    assert lexicon is not None
    forward, backward = model_1(sources, targets), model_1(targets, sources)
    found = dict(zip(lexicon.keys.tolist(), zip(lexicon.forward, lexicon.backward, strict=True), strict=True))
    size = len(lexicon.target.frequency)
    for f, e in forward:
        key = lexicon.source.numbers[f] * size + lexicon.target.numbers[e]
        assert found.get(key, (0.0, 0.0)) == pytest.approx((forward[f, e], backward[e, f]), abs=2e-4)


def test_a_pair_that_belongs_together_scores_above_one_that_does_not() -> None:
    lexicon = learn(tokens(0), tokens(1))
    assert lexicon is not None
    right, wrong = lexicon.explain([["我", "有", "狗"]] * 2, [["i", "have", "dogs"], ["you", "love", "cats"]]).scores()
    assert right > 0.5 > 0 > wrong


def test_words_that_nobody_knows_say_nothing() -> None:
    lexicon = learn(tokens(0), tokens(1))
    assert lexicon is not None
    assert lexicon.explain([["鱼"], []], [["fish"], []]).scores().tolist() == [0, 0]


def test_too_few_pairs_teach_nothing() -> None:
    assert learn([["我"]], [["i"]]) is None
    # Every word of one side meets every word of the other once, and of what is seen once, nothing is kept.
    assert (
        learn([[source] for source in "甲乙丙丁" for _ in range(4)], [[target] for _ in range(4) for target in "abcd"])
        is None
    )


def test_every_word_of_a_pair_meets_every_word_of_the_other_side() -> None:
    cells = Cells.of(np.array([2, 0, 1]), np.array([1, 3, 2]))
    assert list(zip(cells.source.tolist(), cells.target.tolist(), strict=True)) == [(0, 0), (1, 0), (2, 4), (2, 5)]


def test_runs_are_summed_also_where_they_are_empty() -> None:
    assert sums(np.array([1, 2, 4], np.float32), np.array([2, 0, 1])).tolist() == [3, 0, 4]
    assert math.isclose(sums(np.array([], np.float32), np.array([0]))[0], 0)


def test_pairs_are_explained_in_batches_as_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lexicon = learn(tokens(0), tokens(1))
    assert lexicon is not None
    sources, targets = [[], *tokens(0)[:9], []], [["i"], *tokens(1)[:9], []]
    at_once = lexicon.explain(sources, targets)
    monkeypatch.setattr("weft.data.doctor.lexicon.CELLS_AT_ONCE", 10)
    in_batches = lexicon.explain(sources, targets)
    assert in_batches.source.tolist() == at_once.source.tolist()
    assert in_batches.target.tolist() == at_once.target.tolist()
    assert lexicon.explain([], []).scores().tolist() == []
