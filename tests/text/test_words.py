"""Words: how they are cut, which are unknown, and how they come together again."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.text.normalization import normalize
from weft.text.vocabulary import UNKNOWN_ID, read_vocabulary
from weft.text.words import WordTokenizer, cut_words, han_cutter, train_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Tom said so.", ["▁Tom", "▁said", "▁so", "."]),
        ("Don't! It’s O'Brien's", ["▁Don't", "!", "▁It’s", "▁O'Brien's"]),
        ("3.14, 1,000 at 10:30.", ["▁3.14", ",", "▁1,000", "▁at", "▁10:30", "."]),
        ('"Yes", (he) e-mailed', ['"', "▁Yes", '"', ",", "▁(", "he", ")", "▁e", "-", "mailed"]),
        ("naïve हिन्दी", ["▁naïve", "▁हिन्दी"]),
        ("我们去北京大学玩。", ["我们", "去", "北京大学", "玩", "。"]),
        ("我有 3 个 iPhone，你呢", ["我", "有", "▁3", "▁个", "▁iPhone", "，", "你", "呢"]),
        ("a_b <bt> B2B 👍🏽", ["▁a", "_", "b", "▁<", "bt", ">", "▁B", "2", "B", "▁👍", "🏽"]),
        ("", []),
    ],
)
def test_cutting_by_hand(text: str, words: list[str]) -> None:
    expected = [word.replace("▁Yes", "Yes") if text.startswith('"') else word for word in words]
    assert list(cut_words(text, han_cutter("zh"))) == expected


def test_han_characters_stand_alone_where_the_language_is_not_chinese() -> None:
    assert list(cut_words("東京へ行く", han_cutter("ja"))) == ["東", "京", "へ", "行", "く"]
    assert list(cut_words("北京", han_cutter("en+zh-Hant"))) == ["北京"]


@given(text=st.text())
@pytest.mark.parametrize("language", ["zh", "en"])
def test_joining_the_words_gives_the_text(language: str, text: str) -> None:
    normalized = normalize(text)
    words = list(cut_words(normalized, han_cutter(language)))
    assert "".join(words).replace("▁", " ").removeprefix(" ") == normalized
    assert "" not in words and "▁" not in words


@pytest.fixture(scope="module")
def tokenizer() -> WordTokenizer:
    return train_words(["我 有 a book. A book!", "我们有苹果"], vocab_size=300, language="zh")[0]


def test_the_most_frequent_words_come_first_and_ties_in_order(tokenizer: WordTokenizer) -> None:
    assert tokenizer.vocabulary.tokens[4:] == ("▁book", "!", ".", "▁A", "▁a", "▁有", "我", "我们", "有", "苹果")


def test_a_word_that_no_vocabulary_file_can_hold_is_not_learned(tmp_path: Path) -> None:
    made, _ = train_words(["hello world", "a" * 1500, "\x07"], vocab_size=100, language="en")
    assert list(made.vocabulary.tokens[4:]) == ["▁hello", "▁world"]
    (tmp_path / "words").write_bytes(made.model)
    assert len(read_vocabulary((tmp_path / "words").read_bytes(), tmp_path / "words").tokens) == 6


def test_a_word_outside_the_vocabulary_is_exactly_one_unknown_one(tokenizer: WordTokenizer) -> None:
    (ids,) = tokenizer.encode(["我有 a counterrevolutionary book, 北京大学."])
    assert ids.count(UNKNOWN_ID) == 3
    assert tokenizer.pieces("a counterrevolutionary book") == ["▁a", "<unk>", "▁book"]
    assert tokenizer.count_unknown([ids, *tokenizer.encode(["苹果"])]) == (3, 9)


def test_an_unknown_word_reads_as_a_sign_with_a_space_before_it_unless_it_follows_chinese(
    tokenizer: WordTokenizer,
) -> None:
    assert tokenizer.decode(tokenizer.encode(["a strange book.", "我们龘有苹果"])) == ["a ⁇ book.", "我们⁇有苹果"]


def test_where_words_are_cut_at_spaces_an_unknown_one_keeps_its_space_behind_chinese_too() -> None:
    tokenizer, _ = train_words(["我 喜欢 苹果 。"] * 3, vocab_size=20, language="zh", at_spaces=True)
    assert tokenizer.decode(tokenizer.encode(["我 喜欢 香蕉 。"])) == ["我 喜欢 ⁇ 。"]


def test_a_word_in_front_is_the_word_inside(tokenizer: WordTokenizer) -> None:
    assert tokenizer.encode(["book"])[0] == tokenizer.encode(["a book"])[0][1:]
    assert tokenizer.decode(tokenizer.encode(["book", "苹果"])) == ["book", "苹果"]
