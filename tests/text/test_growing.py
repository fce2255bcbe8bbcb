"""Text that grows at its end: what is called settled is never changed by what follows, whatever writes it."""

import random
import unicodedata
from typing import get_args

import pytest

from weft.text.growing import settled_part, stays
from weft.text.kinds import Kind, train_tokenizer
from weft.text.normalization import normalize

KINDS: tuple[Kind, ...] = get_args(Kind)


@pytest.mark.parametrize(
    ("text", "language", "settled"),
    [
        ("I have two app", "en", "I have two"),
        ("I", "en", ""),
        ("", "en", ""),
        ("我有两个", "zh", "我有两个"),
        ("我有3", "zh", "我有"),
        ("我说：", "zh", "我说："),
        ("我用 Py", "zh", "我用"),
        ("我用 Python。", "zh", "我用 Python。"),
        ("これはか", "ja", "これは"),
        ("我\ufffd\ufffd", "zh", "我"),
        ("去cafe\u0301", "zh", "去"),
        ("他说 '", "zh", "他说"),
        ("用 a", "zh", "用"),
        ("", "zh", ""),
    ],
)
def test_settled_are_whole_words_or_whole_characters(text: str, language: str, settled: str) -> None:
    assert settled_part(normalize(text), language, "bpe") == settled


def test_a_word_piece_behind_a_han_character_makes_a_word_of_it() -> None:
    assert settled_part("我有", "zh", "wordpiece") == "我"
    assert settled_part("", "zh", "wordpiece") == ""


def test_nothing_composes_with_what_is_said_to_stay() -> None:
    marks = [chr(code) for code in range(0x300, 0x3100) if unicodedata.category(chr(code))[0] == "M"]
    kept = [
        character
        for code in [*range(0x21, 0x3100), *range(0x4E00, 0x4F00), *range(0xFF01, 0xFF65)]
        if stays(character := chr(code)) and unicodedata.is_normalized("NFC", character)
    ]
    assert len(kept) > 500
    for character in kept:
        assert all(unicodedata.normalize("NFC", character + mark)[0] == character for mark in marks)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_text_that_is_written_piece_by_piece_keeps_every_settled_part(
    kind: Kind, language: str, corpus: list[str], strange_strings: list[str]
) -> None:
    tokenizer, _ = train_tokenizer([*corpus, *strange_strings[:800]], kind=kind, vocab_size=1500, language="zh+en")
    draw = random.Random(kind)
    grown = 0
    texts = [*draw.sample(corpus, 20), *draw.sample(strange_strings, 60), "He said 'don't' and \"it's 3.14\" to me."]
    sentences = [
        *tokenizer.encode(texts),
        *([draw.randrange(4, tokenizer.vocab_size) for _ in range(9)] for _ in texts),
    ]
    for ids in sentences:
        whole = normalize(tokenizer.decode([ids])[0])
        before = ""
        for end in range(len(ids) + 1):
            settled = settled_part(normalize(tokenizer.decode([ids[:end]])[0]), language, kind)
            assert whole.startswith(settled)
            assert settled.startswith(before) or before.startswith(settled)
            grown += len(settled) > len(before)
            before = settled
    assert grown > 50
