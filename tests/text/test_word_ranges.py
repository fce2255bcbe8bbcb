"""Words out of pieces, whatever cuts them: by hand, and by what holds for any text."""

import sys
from typing import get_args

import pytest

from weft.text.kinds import Kind, pieces_of, train_tokenizer
from weft.text.tokenizer import Tokenizer
from weft.text.word_ranges import WordRange, word_ranges

KINDS: tuple[Kind, ...] = get_args(Kind)


def words(pieces: list[str], kind: Kind = "bpe", language: str = "en") -> list[tuple[str, list[str]]]:
    """Each word and its pieces."""
    found = word_ranges(pieces, kind=kind, language=language)
    return [(word.text, pieces[word.first : word.last + 1]) for word in found]


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (["▁I", "▁bo", "ught", "▁it", "."], [["▁I"], ["▁bo", "ught"], ["▁it"], ["."]]),
        (["▁", "I", "▁don", "'", "t"], [["▁", "I"], ["▁don", "'", "t"]]),
        (["▁3", ".5", "%"], [["▁3", ".5"], ["%"]]),
        (["▁it.", "▁Yes"], [["▁it."], ["▁Yes"]]),  # a sign that shares its piece with a word is no word of its own
        (["▁caf", "<0xC3>", "<0xA9>", "!"], [["▁caf", "<0xC3>", "<0xA9>"], ["!"]]),
        (["▁a", "<unk>", "▁b"], [["▁a"], ["<unk>"], ["▁b"]]),
        ([], []),
    ],
)
def test_english_by_hand(pieces: list[str], expected: list[list[str]]) -> None:
    assert [of_word for _, of_word in words(pieces)] == expected


def test_chinese_words_are_jiebas_where_a_piece_begins_with_them() -> None:
    assert words(["▁我", "昨", "天", "买", "了", "书", "。"], language="zh") == [
        ("我", ["▁我"]),
        ("昨天", ["昨", "天"]),
        ("买", ["买"]),
        ("了", ["了"]),
        ("书", ["书"]),
        ("。", ["。"]),
    ]
    assert words(["▁我昨天", "买了", "书"], language="zh") == [
        ("我昨天", ["▁我昨天"]),
        ("买了", ["买了"]),
        ("书", ["书"]),
    ]


def test_chinese_characters_in_bytes_are_whole() -> None:
    spelled = [f"<0x{byte:02X}>" for byte in "龘鬱".encode()]
    assert words(["▁", *spelled, "。"], language="ja") == [
        ("龘", ["▁", *spelled[:3]]),
        ("鬱", spelled[3:]),
        ("。", ["。"]),
    ]


def test_bytes_that_are_no_character_are_a_word_all_the_same() -> None:
    assert words(["▁a", "▁", "<0xE9>", "<0xBE>"]) == [("a", ["▁a"]), ("\ufffd", ["▁", "<0xE9>", "<0xBE>"])]


def test_word_pieces_by_hand() -> None:
    assert words(["play", "##ing", ",", "昨", "天"], "wordpiece", "zh") == [
        ("playing", ["play", "##ing"]),
        (",", [","]),
        ("昨天", ["昨", "天"]),
    ]


def test_without_rjieba_a_word_is_what_a_piece_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rjieba", None)
    pieces = ["▁我", "昨", "天", "买了", "。"]
    assert [text for text, _ in words(pieces, language="zh")] == ["我", *pieces[1:]]


@pytest.fixture(scope="module", params=KINDS)
def trained(request: pytest.FixtureRequest, corpus: list[str]) -> tuple[Tokenizer, Kind]:
    return train_tokenizer(corpus, kind=request.param, vocab_size=500, language="zh+en")[0], request.param


def test_of_any_text_every_piece_belongs_to_one_word_and_the_words_are_the_text(
    trained: tuple[Tokenizer, Kind], corpus: list[str], strange_strings: list[str]
) -> None:
    tokenizer, kind = trained
    names = pieces_of(tokenizer, kind)
    texts = [*corpus[:50], *corpus[-50:], *strange_strings[:500]]
    for text, ids in zip(texts, tokenizer.encode(texts), strict=True):
        found: list[WordRange] = word_ranges([names[i] for i in ids], kind=kind, language="zh+en")
        places = [place for word in found for place in range(word.first, word.last + 1)]
        assert places == list(range(len(ids))), text
        assert all(word.text for word in found), text
        together = "".join(word.text for word in found)
        assert together.replace(" ", "") == tokenizer.decode([ids])[0].replace(" ", ""), text
