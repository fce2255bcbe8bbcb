"""Planted faults are counted at the rates at which they were planted, and good translations have none."""

import pytest

from weft.evaluating.faults import FAULTS, faults_table, find_faults, has_loop, script_of_references, shares_a_long_run

SOURCES = ["我有三个苹果。", "今天天气很好。", "他在哪里工作？", "她买了五本书。", "你好！", "我们去学校。"]
REFERENCES = [
    "I have three apples.",
    "The weather is fine today.",
    "Where does he work?",
    "She bought five books.",
    "Hello!",
    "We go to school.",
]


def faults_in(hypotheses: list[str]) -> dict[str, list[int]]:
    """Fault -> the places of the sentences that have it, without faults that none has."""
    found = find_faults(hypotheses, SOURCES, [REFERENCES], ("zh", "en")).found
    return {name: places for name, there in found.items() if (places := there.nonzero()[0].tolist())}


def planted(place: int, text: str) -> list[str]:
    return [text if number == place else line for number, line in enumerate(REFERENCES)]


def test_the_references_have_no_fault() -> None:
    assert faults_in(REFERENCES) == {}


@pytest.mark.parametrize(
    ("place", "text", "faults"),
    [
        (1, "", ["empty"]),
        (1, " \u3000", ["empty"]),
        (1, "今天天气很好。", ["copied", "wrong script"]),
        (1, "The weather 今天天气很好 is fine today and tomorrow", ["copied"]),
        (2, "Where does he work does he work does he work?", ["in a loop"]),
        (2, "Where, where, where, where?", ["in a loop"]),
        (0, "I have four apples.", ["other numbers"]),
        (0, "I have apples.", ["other numbers"]),
        (2, "他在哪儿做事？", ["wrong script"]),
        (4, "Hello to all of you who are here with me now!", ["too long"]),
    ],
)
def test_a_planted_fault_is_found_in_its_sentence_alone(place: int, text: str, faults: list[str]) -> None:
    assert faults_in(planted(place, text)) == {fault: [place] for fault in faults}


def test_a_sentence_in_the_other_script_of_chinese_is_converted_and_not_copied() -> None:
    found = find_faults(
        ["我们都知道这个问题。"], ["我們都知道這個問題。"], [["我们都知道这个问题。"]], ("zh-Hant", "zh-Hans")
    )
    assert not found.found["copied"].any()


@pytest.mark.parametrize(
    ("source", "text", "faults"),
    [
        ("see https://example.com/a/b?c=1", "见 https://example.com/a/b?c=1", []),
        ("Write to a.long.name@mail.example.org!", "请写信给a.long.name@mail.example.org！", []),
        ("https://example.com/a", "https://example.com/a", []),
        ("visit https://example.com/a", "visit https://example.com/a", ["copied", "wrong script"]),
        ("see www.a.de", "见 www.a.de www.a.de www.a.de www.a.de", ["in a loop"]),
    ],
)
def test_an_address_is_one_word_and_of_no_script(source: str, text: str, faults: list[str]) -> None:
    found = find_faults([text], [source], [["见 https://example.com/a/b?c=1"]], ("en", "zh")).found
    assert [name for name, there in found.items() if there.any()] == faults


def test_rates_count_sentences_and_the_table_sets_them_beside_the_references() -> None:
    found = find_faults(["", "", *REFERENCES[2:]], SOURCES, [REFERENCES], ("zh", "en"))
    assert found.rate("empty") == pytest.approx(2 / 6) and float(found.any.mean()) == pytest.approx(2 / 6)
    assert found.as_dict()["empty"] == {"sentences": 2, "rate": pytest.approx(1 / 3), "rate_of_references": 0.0}
    rows = {row[0]: row[1:] for row in faults_table({"ours": found}).rows}
    assert rows.keys() == {*FAULTS, "any of these"}
    assert rows["empty"] == ("33.3%", "0.0%")


def test_a_loop_that_the_source_has_too_is_a_translation() -> None:
    source, text = ["不，不，不，不！"], ["No, no, no, no!"]
    assert not find_faults(text, source, [text], ("zh", "en")).any.any()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("very very very good", False),
        ("very very very very good", True),
        ("a b a b", False),
        ("x a b a b a b", True),
        ("a b c a b c a b d", False),
        ("", False),
    ],
)
def test_three_times_the_same_row_is_a_loop_and_four_times_the_same_word(words: str, expected: bool) -> None:
    assert has_loop(words.split()) is expected


def test_five_words_in_a_row_are_copied_and_numbers_alone_are_not() -> None:
    assert shares_a_long_run(["a", "b", "c", "d", "e", "f"], ["x", "b", "c", "d", "e", "f"])
    assert not shares_a_long_run(["a", "b", "c", "d", "e", "f"], ["b", "c", "d", "e", "x", "f"])
    assert not shares_a_long_run(["1", "2", "3", "4", "5"], ["1", "2", "3", "4", "5"])


def test_a_script_is_wrong_where_nine_of_ten_references_are_in_the_other() -> None:
    simplified, traditional = ["我们学习汉语"] * 9, ["我們學習漢語"]
    assert script_of_references(simplified + traditional, "zh") == "simplified"
    assert script_of_references(simplified[:1] + traditional, "zh") == "keep"
    assert script_of_references(["你好"], "zh") == script_of_references(simplified, "en") == "keep"
    found = find_faults(["我們", "我们"], ["we", "we"], [simplified[:2]], ("en", "zh-CN"))
    assert found.found["wrong script"].tolist() == [True, False]


def test_a_sentence_that_one_set_lacks_is_held_against_the_other() -> None:
    found = find_faults(["Hello!"], ["你好！"], [[""], ["Hello!"]], ("zh", "en"))
    assert not found.any.any() and not any(there.any() for there in found.in_references.values())
