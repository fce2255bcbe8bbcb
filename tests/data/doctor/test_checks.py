"""Each check names the pairs that have the fault, and no other."""

import pytest

from weft.data.doctor.checks import check
from weft.data.measures import tokens


def found(pairs: list[tuple[str, str]], languages: tuple[str, str] = ("zh", "en")) -> dict[str, list[int]]:
    """Kind of fault -> places of the pairs that have it."""
    sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
    checked = check(sources, targets, [*map(tokens, sources)], [*map(tokens, targets)], languages)
    return {kind: places.tolist() for kind, places in checked.found.items() if len(places)}


def test_a_side_of_signs_alone_has_no_words_and_an_empty_one_is_told_as_empty() -> None:
    pairs = [("……", "I do not know."), ("你好。", "?!"), ("你好。", " "), ("3", "3."), ("好。", "Ω")]
    assert found(pairs) == {"empty": [2], "no words": [0, 1]}


def test_a_foreign_sentence_is_in_a_wrong_language_and_an_address_beside_english_is_not() -> None:
    pairs = [("看。", "Look: https://example.de/der/die/und/ist."), ("看。", "Das ist nicht der Bahnhof.")]
    assert found(pairs) == {"wrong language": [1]}


def test_what_traditional_and_simplified_have_alike_is_no_copy_and_a_sentence_that_was_not_converted_is() -> None:
    long = "這是一個很大的問題，我們都知道。"
    pairs = [("這個問題", "这个问题"), ("你好。", "你好。"), (long, long)]
    assert found(pairs, ("zh-Hant", "zh-Hans")) == {"copy": [2]}


def test_numbers_are_noted_in_digits() -> None:
    sources, targets = ["3万亿美元", "身高1.85米"], ["$30", "He is 6.07 feet tall."]
    notes = check(sources, targets, [*map(tokens, sources)], [*map(tokens, targets)], ("zh", "en")).other_numbers
    assert notes == {0: "30, 3,000,000,000,000", 1: "1.85, 6.07"}


def test_khmer_divides_words_by_a_space_without_width_that_is_strange_in_chinese() -> None:
    assert found([("ភាសា\u200bខ្មែរ", "the Khmer language"), ("ភាសា\x01ខ្មែរ", "the Khmer language")], ("km", "en")) == {
        "control": [1]
    }
    assert found([("中文\u200b。", "the Chinese language")]) == {"control": [0]}


@pytest.mark.parametrize("mark", list("\u200e\u200f\u202e\u2066\u2069\u061c\ufffc\u180e\ufff9\U000e0001\u200b"))
def test_a_mark_that_nobody_sees_is_found(mark: str) -> None:
    assert found([("你好。", f"Hel{mark}lo."), ("你好。", "Hello.")]) == {"control": [0]}


def test_what_a_language_is_written_with_is_not_strange() -> None:
    assert found([("\u200fשלום\u200f!", "Hello!"), ("سلام\u202c.", "Hello!")], ("he", "en")) == {"wrong language": [1]}
    assert (
        found(
            [("می\u200cروم", "I am going"), ("👨\u200d👩\u200d👧 好", "a family 🏴\U000e0067\U000e0062\U000e007f")],
            ("fa", "en"),
        ).get("control")
        is None
    )


@pytest.mark.parametrize(
    ("text", "is_repetition"),
    [
        ("(掌声)(掌声)(掌声)(掌声)", True),
        ("（掌声） （掌声） （掌声） （掌声）", True),
        ("[Applause][Applause][Applause][Applause]", True),
        ("【笑】【笑】【笑】【笑】", True),
        ("thank you thank you thank you thank you", True),
        ("we do not know, we do not know, we do not know, we do not know.", True),
        ("谢谢大家，谢谢大家，谢谢大家，谢谢大家", True),
        ("(掌声)(笑声)(掌声)(笑声)", False),
        ("(a) one (b) two (c) three (d) four", False),
        ("thank you very much, thank you", False),
        ("very very very long", False),
    ],
)
def test_a_phrase_or_a_remark_four_times_is_a_repetition(text: str, is_repetition: bool) -> None:
    assert ("repetition" in found([(text, text)])) == is_repetition
