"""Keys: equal for texts that are the same to a reader, different for all others, whatever stands beside them."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.data.keys import PARTITIONS, Partitions, keys_of, pair_keys

TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("Hello, world!", "hello world"),
        ("Ｈｅｌｌｏ　１２", "hello 12"),
        ("他們會來嗎？", "他们会来吗"),
        ("It's 5 o'clock.", "its5oclock"),
        ("ÉCOLE", "école"),
        ("e\u0301cole", "école"),
        ("שָׁלוֹם", "שלום"),  # vowel points, which are seldom written
        ("我 ❤\ufe0f 你", "我❤你"),
        ("1,000,000", "1000000"),
        ("1, 2 und 3 : 4", "1 2 und 3 4"),
        ("１０：３０", "10:30"),
        ("1990–95", "1990-95"),
        ("COVID-19 - a well-known name", "Covid 19, a well known name"),
        ("C + D # 5", "c d 5"),
        ("On page 5.", "on page 5"),
        ("他看著我，甚麼都不瞭解。", "他看着我，什么都不了解"),
        ("妳的計畫", "你的计划"),
        ("ｶﾞｽ", "ガス"),
        ("ΟΔΟΣ", "οδος"),
        ("５％", "5 %"),
        ("2 + 3 = 5", "2+3=5"),
        ("￥5", "¥ 5"),
        ("他说~", "他说"),
    ],
)
def test_punctuation_case_width_script_and_spaces_do_not_count(left: str, right: str) -> None:
    one, other = keys_of([left, right])
    assert one == other != 0


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("ab", "ba"),
        ("a", "aa"),
        ("我爱你", "你爱我"),
        ("1", "一"),
        ("ecole", "école"),
        ("a", ""),
        ("जाता", "जाती"),
        ("ตา", "ตี"),
        ("q\u0303", "q"),
        ("1.5", "15"),
        ("1,5", "15"),
        ("1.5", "1:5"),
        ("10:30", "1030"),
        ("１０：３０", "1030"),
        ("1/2", "12"),
        ("3-1", "31"),
        ("-5 °C", "5 °C"),
        ("零下（−5）", "零下（5）"),
        ("C++", "C"),
        ("C++", "C+"),
        ("C#", "C"),
        ("Ｃ＋＋语言", "Ｃ语言"),
        ("2+3=？", "2×3=？"),
        ("$5", "€5"),
        ("5%", "5"),
        ("3 < 5", "3 > 5"),
    ],
)
def test_letters_signs_within_numbers_and_names_and_their_order_do_count(left: str, right: str) -> None:
    one, other = keys_of([left, right])
    assert one != other


def test_a_text_without_letters_and_digits_has_the_key_zero() -> None:
    assert keys_of(["", "?!", "，。", " \t", "🙂"]).tolist() == [0] * 5
    assert keys_of([]).tolist() == []


@given(st.lists(TEXTS, max_size=8), TEXTS, st.lists(TEXTS, max_size=8))
def test_a_key_does_not_depend_on_the_texts_beside_it(before: list[str], text: str, after: list[str]) -> None:
    assert keys_of([*before, text, *after])[len(before)] == keys_of([text])[0]


def plain_key(text: str) -> str:
    """The same rule for text of few letters, letter by letter."""
    return "".join(c.lower() for place, c in enumerate(text) if c.isalnum() or is_sign(text, place))


def is_sign(text: str, place: int) -> bool:
    before, sign, after = text[:place], text[place], text[place + 1 :]
    is_within_number = before[-1:].isdecimal() and after[:1].isdecimal()
    if sign == "+":
        is_beside_number = any(
            s[-1:].isdecimal() for s in (before, before.removesuffix(" "), after[:1], after.removeprefix(" ")[:1])
        )
        return is_beside_number or before[-1:].isalpha() or (before[-1:] == "+" and before[-2:-1].isalpha())
    if sign == "-":
        return is_within_number or (after[:1].isdecimal() and not (before[-1:].isalnum() or before[-1:] == "-"))
    ends_three = after[:3].isdecimal() and len(after[:3]) == 3 and not after[3:4].isdecimal()
    return sign == "," and is_within_number and not ends_three


@given(st.lists(st.text(st.sampled_from("aAb1-+, "), max_size=7), min_size=2, max_size=40))
def test_keys_are_equal_exactly_where_the_plain_keys_are(texts: list[str]) -> None:
    keys, plain = keys_of(texts).tolist(), [plain_key(text) for text in texts]
    for i in range(len(texts)):
        for j in range(i):
            assert (keys[i] == keys[j]) == (plain[i] == plain[j])


def test_two_hundred_thousand_texts_have_as_many_keys() -> None:
    assert len(np.unique(keys_of([f"{number:x}" for number in range(200_000)]))) == 200_000


def test_the_sides_of_a_pair_are_not_exchangeable() -> None:
    keys = keys_of(["猫", "cat"])
    assert pair_keys(keys, keys[::-1])[0] != pair_keys(keys, keys[::-1])[1]


def test_the_key_of_a_pair_depends_on_its_two_sides_alone() -> None:
    sources, targets = keys_of(["猫", "猫", "狗", "猫"]), keys_of(["cat", "dog", "dog", "cat"])
    first, *others, again = pair_keys(sources, targets).tolist()
    assert again == first and len({first, *others}) == 3
    assert pair_keys(sources[:1], targets[:1]).tolist() == [first]


@given(st.lists(st.integers(0, 12), max_size=60), st.integers(1, 60))
def test_partitions_find_the_pairs_that_repeat_an_earlier_one(
    tmp_path_factory: pytest.TempPathFactory, numbers: list[int], piece: int
) -> None:
    texts = ["" if number == 0 else str(number) for number in numbers]
    with Partitions(tmp_path_factory.mktemp("keys")) as partitions:
        for begin in range(0, len(texts), piece):
            partitions.append(keys_of(texts[begin : begin + piece]))
        found = sorted(place for places in partitions.repeated() for place in places.tolist())
    seen: Counter[str] = Counter()
    expected = []
    for place, text in enumerate(texts):
        if text and seen[text]:
            expected.append(place)
        seen[text] += 1
    assert found == expected


def test_keys_fill_all_partitions_evenly(tmp_path: Path) -> None:
    with Partitions(tmp_path) as partitions:
        partitions.append(keys_of([str(number) for number in range(64_000)]))
        assert not any(len(places) for places in partitions.repeated())
    sizes = [path.stat().st_size / 16 for path in sorted(tmp_path.iterdir())]
    assert len(sizes) == PARTITIONS and min(sizes) > 850 and max(sizes) < 1150
