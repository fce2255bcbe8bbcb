"""Marks are put back where attention says; in these tests it is given by links between words."""

import random
import re
import time

import numpy as np
import pytest

from weft.text.mark_placement import Words, best_run, put_back
from weft.text.markup import take_apart


def attention(source: str, translation: str, links: str) -> np.ndarray:
    """Of characters, where links are places of words and signs: "0-2 1-1" says that the first word of the translation
    looked at the third of the source."""
    ours, theirs = Words(source), Words(translation)
    weights = np.full((len(translation), len(source)), 0.01, dtype=np.float32)
    for link in links.split():
        target, looked_at = map(int, link.split("-"))
        rows, columns = (slice(of.starts[n], of.ends[n]) for of, n in ((theirs, target), (ours, looked_at)))
        weights[rows, columns] = 1
    return weights


def with_marks(marked: str, translation: str, links: str, whole: tuple[str, ...] = ()) -> str:
    (part,) = take_apart(marked)
    weights = attention(part.text, translation, links)
    return put_back(part.text, part.marks, translation, weights, whole)


@pytest.mark.parametrize(
    ("marked", "translation", "links", "expected"),
    [
        ("a b <b>c</b> d", "w x y z", "0-2 1-0 2-1 3-3", "<b>w</b> x y z"),
        ("<b>a b</b> c d", "w x y z", "0-2 1-3 2-0 3-1", "w x <b>y z</b>"),
        ("<b>a</b> <i>b</i> c", "x y z", "0-1 1-0 2-2", "<i>x</i> <b>y</b> z"),
        ("<p1>a <b>b</b></p1> c", "x y z", "0-2 1-1 2-0", "x <p1><b>y</b> z</p1>"),
        ("a <b>b c d</b> e", "v w x y z", "0-1 1-0 2-2 3-3 4-4", "<b>v w x y</b> z"),
        ("<b>我</b>有猫", "my cat", "0-0 1-2", "<b>my</b> cat"),
        ("<b>a b c</b>.", "x y z.", "0-0 1-1 2-2 3-3", "<b>x y z</b>."),
        ("a<b>!</b>", "x!", "0-0 1-1", "x<b>!</b>"),
    ],
)
def test_an_element_goes_around_the_words_that_looked_at_its_own(
    marked: str, translation: str, links: str, expected: str
) -> None:
    assert with_marks(marked, translation, links) == expected


@pytest.mark.parametrize(
    ("marked", "translation", "links", "expected"),
    [
        ("a b <b>c</b>{n}", "x y z", "0-2 1-0 2-1", "<b>x</b> {n} y z"),
        ("{n}<b>a</b> b c", "x y z", "0-1 1-2 2-0", "x y {n} <b>z</b>"),
        ("a <img x> b c", "x y z", "0-0 1-1 2-2", "x <img x>y z"),
        ("a <wbr> <b>b</b> c", "x y z", "0-1 1-0 2-2", "<wbr><b>x</b> y z"),
        ("a <code>b</code> <B class=x>b</b> c", "x y z", "0-1 1-0 2-2", "<code>b</code> <B class=x>x</b> y z"),
        ("a <!-- b --><b>b</b> c", "x y z", "0-1 1-0 2-2", "<!-- b --><b>x</b> y z"),
        ("a <b></b> b", "x y", "0-0 1-1", "x <b></b>y"),
        ("<b/>a b", "x y", "0-1 1-0", "<b/>x y"),
    ],
)
def test_other_marks_stand_beside_the_words_and_elements_that_they_touched(
    marked: str, translation: str, links: str, expected: str
) -> None:
    assert re.sub(r"\s+", " ", with_marks(marked, translation, links)) == expected


@pytest.mark.parametrize(
    "marked",
    [
        "a </b> <i>b</i> c",
        "<b><i>a</b> b</i> c",
        "<i>a</i></i> b c",
        "<u>a</u> <b>b <i>c</i>",
        "<b>" * 1000 + "a b c" + "</b>" * 1000,
    ],
)
def test_where_tags_do_not_nest_or_are_too_deep_all_keep_their_order(marked: str) -> None:
    written = with_marks(marked, "x y z", "0-2 1-1 2-0")
    assert re.findall(r"<[^>]*>", written) == re.findall(r"<[^>]*>", marked)


def test_a_word_that_stands_in_both_needs_no_attention() -> None:
    assert with_marks("他叫<b>Tom</b>，3岁", "3 years old is Tom.", "") == "3 years old is <b>Tom</b>."


def test_where_no_word_looked_at_an_element_the_share_of_the_words_decides() -> None:
    weights = np.zeros((len("w x y z"), len("a b c d")), dtype=np.float32)
    (part,) = take_apart("a <b>b</b> c d")
    assert put_back(part.text, part.marks, "w x y z", weights) == "w <b>x</b> y z"


def test_an_element_with_words_keeps_one_while_there_is_one() -> None:
    assert with_marks("<b>a</b> <i>b</i> c", "x y z", "0-0 1-2 2-2") == "<b>x</b> <i>y</i> z"
    assert with_marks("<b>a</b> <i>b</i>", "x", "0-0") == "<b>x</b><i></i>"


def test_no_tag_comes_to_stand_within_a_term() -> None:
    links = "0-0 1-1 2-2 3-2"
    assert with_marks("a b <b>c</b>", "x y new york", links, ("new york",)) == "x y <b>new york</b>"
    assert with_marks("a b <b>c</b>", "x y new york", "0-0 1-1 2-1 3-2", ("new york",)) == "x y <b>new york</b>"


def test_every_mark_comes_back_once_tags_nest_and_nothing_else_changes() -> None:
    chooser = random.Random(1)
    pieces = ["a", "b", "我", "3", ".", " ", "<b>", "</b>", "<i>", "</i>", " {n} ", "<br1/>", "&nbsp;"]
    for _ in range(500):
        (part, *others) = take_apart("".join(chooser.choices(pieces, k=14))) or [None]
        if part is None or others or not part.text.strip():
            continue
        translation = " ".join(chooser.choices(["x", "y", "3", "z", "."], k=chooser.randint(1, 7)))
        weights = np.random.default_rng(chooser.randint(0, 9999)).random((len(translation), len(part.text)))
        written = put_back(part.text, part.marks, translation, weights.astype(np.float32) ** 8)
        found = re.findall(r"<[^>]*>|\{n\}|&nbsp;", written)
        assert sorted(found) == sorted(mark.text for mark in part.marks)
        rest = re.sub(r"<[^>]*>|\{n\}|&nbsp;", "", written)
        assert re.sub(r"\s", "", rest) == re.sub(r"\s", "", translation)
        assert depth_of("".join(found)) == depth_of("".join(mark.text for mark in part.marks))


def depth_of(marks: str) -> list[str]:
    """What is left of tags where those that close one another are taken out."""
    tags = re.findall(r"</?[bi]>", marks)
    left: list[str] = []
    for tag in tags:
        if left and tag == left[-1].replace("<", "</"):
            left.pop()
        else:
            left.append(tag)
    return sorted(left)


@pytest.mark.parametrize(
    ("gains", "taken", "expected"),
    [
        ([-1, 2, -1, 2, -3, 3], [], (1, 4)),
        ([-1, 2, -1, 2, -3, 4], [], (5, 6)),
        ([1, 1, 1, 1], [1], (2, 4)),
        ([-1, -2], [], (0, 0)),
        ([], [], (0, 0)),
    ],
)
def test_the_best_run_is_the_free_words_whose_gains_sum_to_the_most(
    gains: list[float], taken: list[int], expected: tuple[int, int]
) -> None:
    is_free = np.array([number not in taken for number in range(len(gains))], dtype=bool)
    assert best_run(np.array(gains, dtype=float), is_free) == expected


@pytest.mark.parametrize(
    ("piece", "times", "words"),
    [*((piece, 2_000, 300) for piece in ("<b>a</b> ", "<b>", "{n}", "<b>a ", "</b>")), ("<b></b>", 10_000, 40)],
)
def test_any_number_of_marks_takes_a_time_that_grows_with_it(piece: str, times: int, words: int) -> None:
    (part,) = take_apart("a " + piece * times)
    translation = "x " * words
    weights = np.ones((len(translation), len(part.text)), dtype=np.float32)
    began = time.process_time()
    put_back(part.text, part.marks, translation, weights)
    assert time.process_time() - began < 5
