"""Two systems on the same sentences: planted differences are found where they were planted."""

from pathlib import Path

import numpy as np
import pytest

from weft.data.corpus import ParallelText
from weft.errors import CorpusError
from weft.evaluating.comparison import (
    LENGTH,
    RARITY,
    SCRIPT,
    TWIN,
    System,
    by_script,
    by_size,
    compare,
    read_translations,
)
from weft.metrics.translation import score_translations, sentence_scores

NOUNS = {"苹果": "apples", "书": "books", "梨": "pears", "問題": "problems", "朋友": "friends"}
NUMBERS = {"三": "three", "四": "four", "五": "five", "六": "six"}
SOURCES = [f"我有{number}个{noun}。" for number in NUMBERS for noun in NOUNS]
REFERENCES = [f"I have {number} {noun}." for number in NUMBERS.values() for noun in NOUNS.values()]
PAIRS = ParallelText(SOURCES, [(reference,) for reference in REFERENCES], {"test.tsv": "0" * 64})
GOOD = System("good", REFERENCES, {"sha256": "1" * 64})
# Wrong in the five sentences with six of something, a little in all and most in the last.
BAD = System(
    "bad",
    [line.replace("six", "sixteen") for line in REFERENCES[:-1]] + ["Friends"],
    {"sha256": "2" * 64},
)


def test_scores_are_those_of_each_system_alone() -> None:
    found = compare([GOOD, BAD], PAIRS, ("zh", "en"))
    for system, scores in zip(found.systems, found.scores, strict=True):
        assert scores.values() == score_translations(system.hypotheses, [REFERENCES], "en").values()
    assert found.scores[1]["chrf"].interval is not None
    (tests,) = found.tests
    assert tests["chrf"].difference == found.scores[1]["chrf"].value - found.scores[0]["chrf"].value < 0
    assert tests["chrf"].bootstrap_p < 0.05


def test_the_sentences_that_changed_most_come_first_and_equal_ones_not_at_all() -> None:
    ((first, *others),) = compare([GOOD, BAD], PAIRS, ("zh", "en")).changed
    assert (first.number, first.source, first.baseline, first.other) == (20, SOURCES[-1], REFERENCES[-1], "Friends")
    *_, (_, chrf) = sentence_scores(BAD.hypotheses, [REFERENCES], "en")
    assert first.gain == pytest.approx(chrf - 100)
    assert sorted(changed.number for changed in others) == [16, 17, 18, 19]


def test_buckets_hold_every_sentence_once_and_score_what_they_hold() -> None:
    training = ParallelText(SOURCES[:10], [(reference,) for reference in REFERENCES[:10]], {})
    found = compare([GOOD, BAD], PAIRS, ("zh", "en"), training=training)
    for kind in (LENGTH, RARITY, SCRIPT, TWIN):
        members = [bucket.members for bucket in found.buckets if bucket.kind == kind]
        assert np.sum(members, axis=0).tolist() == [1] * len(PAIRS), kind
    named = {(bucket.kind, bucket.name): bucket for bucket in found.buckets}
    traditional = named[SCRIPT, "mixed"].members.nonzero()[0].tolist()
    assert traditional == [3, 8, 13, 18]  # 問題 beside 个
    seen = named[TWIN, "source in --train"]
    assert seen.members.nonzero()[0].tolist() == list(range(10)) and seen.scores["chrf"] == [100.0, 100.0]
    unknown = named[RARITY, "0"]  # 五 and 六 do not stand in the training sources
    assert unknown.members.nonzero()[0].tolist() == list(range(10, 20))
    lines = [system.hypotheses[10:] for system in (GOOD, BAD)]
    expected = [score_translations(some, [REFERENCES[10:]], "en")["sacrebleu"].value for some in lines]
    assert unknown.scores["sacrebleu"] == pytest.approx(expected)


def test_a_pair_that_is_nearly_one_that_was_trained_on_is_told_from_a_new_one() -> None:
    sources = ["我昨天在学校的图书馆里看见了你的老师和他的朋友。", "天气很好。"] * 6
    targets = ["Yesterday I saw your teacher and his friend in the library of the school.", "Fine weather."] * 6
    training = ParallelText(
        ["我昨天在学校的图书馆里看见了你的老师和她的朋友。"],
        [("Yesterday I saw your teacher and her friend in the library of the school.",)],
        {},
    )
    pairs = ParallelText(sources, [(target,) for target in targets], {})
    systems = [System(name, targets, {"sha256": "0"}) for name in "ab"]
    found = {
        bucket.name: bucket.members
        for bucket in compare(systems, pairs, ("zh", "en"), training=training).buckets
        if bucket.kind == TWIN
    }
    assert found["nearly the same pair"].tolist() == [True, False] * 6
    assert found["new"].tolist() == [False, True] * 6


def test_sizes_fall_into_buckets_up_to_each_limit() -> None:
    found = by_size(np.array([0, 5, 6, 10, 11]), (5, 10))
    assert {name: there.tolist() for name, there in found.items()} == {
        "at most 5": [True, True, False, False, False],
        "6 to 10": [False, False, True, True, False],
        "11 and more": [False, False, False, False, True],
    }


def test_scripts_are_told_apart_by_the_characters_of_one_of_them() -> None:
    found = by_script(["我们", "我們", "我們们", "好"])
    assert [there.tolist().index(True) for there in found.values()] == [0, 1, 2, 3]


def test_fewer_than_ten_sentences_are_compared_without_tests_and_the_reason_is_said() -> None:
    few = ParallelText(SOURCES[:3], PAIRS.references[:3], {})
    systems = [System(one.name, one.hypotheses[:3], one.origin) for one in (GOOD, BAD)]
    found = compare(systems, few, ("zh", "en"))
    assert found.tests == [] and found.as_dict(5)["tests"] == {}
    assert "intervals: none: 3 sentences, and resampling needs at least 10" in found.tables()[0].notes


def test_translations_must_be_as_many_as_the_pairs(tmp_path: Path) -> None:
    (tmp_path / "out.txt").write_text("one\n\nthree\n", encoding="utf-8")
    assert read_translations(tmp_path / "out.txt", "out", 3).hypotheses == ["one", "", "three"]
    with pytest.raises(CorpusError, match="has 3 lines; the data has 4 pairs"):
        read_translations(tmp_path / "out.txt", "out", 4)
