"""Characters: one id each, or one for each byte of a rare one."""

from pathlib import Path

import pytest

from weft.errors import ModelError
from weft.text.characters import BYTES, CharacterTokenizer, train_characters
from weft.text.kinds import read_tokenizer
from weft.text.vocabulary import SPECIAL_PIECES, Vocabulary


@pytest.fixture(scope="module")
def tokenizer() -> CharacterTokenizer:
    return train_characters(["我有 abba", "ab"], vocab_size=263, language="zh")[0]


def test_the_vocabulary_is_the_special_pieces_the_bytes_and_the_most_frequent_characters(
    tokenizer: CharacterTokenizer,
) -> None:
    assert tokenizer.vocabulary.tokens == (*SPECIAL_PIECES, *BYTES, "a", "b", "▁")


def test_a_character_is_one_id_and_a_rare_one_those_of_its_bytes(tokenizer: CharacterTokenizer) -> None:
    assert tokenizer.pieces("a b有") == ["a", "▁", "b", "<0xE6>", "<0x9C>", "<0x89>"]
    assert tokenizer.encode(["有"]) == [[4 + 0xE6, 4 + 0x9C, 4 + 0x89]]
    assert tokenizer.decode([[4 + 0xE6, 4 + 0x9C, 4 + 0x89]]) == ["有"]


def test_bytes_that_are_no_text_decode_to_replacement_characters(tokenizer: CharacterTokenizer) -> None:
    assert tokenizer.decode([[4 + 0xE6, 260]]) == ["\ufffda"]


@pytest.mark.parametrize(
    ("tokens", "where", "what"),
    [
        ((*SPECIAL_PIECES, *BYTES, "a", "ab"), "line 262", "is neither one character"),
        ((*SPECIAL_PIECES, *BYTES[1:], "a"), "the file", "lacks 1 of the 256 bytes, such as <0x00>"),
    ],
)
def test_a_file_with_other_tokens_or_without_the_bytes_is_refused(
    tokens: tuple[str, ...], where: str, what: str
) -> None:
    with pytest.raises(ModelError, match=rf"{where} +{what}"):
        read_tokenizer(Vocabulary(tokens).as_file, Path("v.txt"), kind="characters", language="en")
