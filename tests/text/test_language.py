"""Codes of languages: whichever of its codes a language has, the rules about it are met."""

import pytest

from weft.data.measures import SCRIPTS_OF_LANGUAGES, script_of
from weft.metrics.language import main_language
from weft.text.chinese import is_chinese
from weft.text.detokenization import detokenize
from weft.text.language import (
    MEANT,
    TWO_LETTERS,
    WITHOUT_SPACES,
    code_of,
    is_in_words_of_characters,
    is_known,
    is_written_without_spaces,
)
from weft.text.sentence_splitting import split_sentences
from weft.text.sentencepiece_model import has_many_characters


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("zh", "zh"),
        ("zh_Hant-TW", "zh"),
        ("cmn-Hans", "zh"),
        ("zho_Hans", "zh"),
        ("DEU", "de"),
        ("ger", "de"),
        ("eng_Latn", "en"),
        ("jpn", "ja"),
        ("kor", "ko"),
        ("arb_Arab", "ar"),
        ("yue", "yue"),
        ("ceb", "ceb"),
        ("xx", "xx"),
    ],
)
def test_a_language_is_known_by_its_code_of_two_letters_if_it_has_one(language: str, code: str) -> None:
    assert code_of(language) == code


def test_every_code_of_three_letters_stands_for_one_of_two() -> None:
    assert all(len(three) == 3 and len(two) == 2 for three, two in TWO_LETTERS.items())


def test_what_is_answered_with_what_was_meant_is_not_a_code() -> None:
    assert not any(map(is_known, MEANT)) and all(map(is_known, MEANT.values()))


def test_codes_of_three_letters_have_the_rules_of_their_language() -> None:
    assert split_sentences("Am 3. Mai kam Hr. Weber. Er blieb.", "deu") == ["Am 3. Mai kam Hr. Weber. ", "Er blieb."]
    assert detokenize("I do n't know .", "eng") == "I don't know."
    assert detokenize("我 爱 你 。", "zho_Hans") == "我爱你。"
    assert detokenize("qu' il", "fra") == "qu'il" and detokenize("„ so “ ist es", "ger") == "„so“ ist es"
    for language in ("jpn", "zho", "cmn_Hant"):
        assert is_in_words_of_characters(language) and is_written_without_spaces(language)
        assert has_many_characters(f"eng+{language}")
    assert is_in_words_of_characters("zh-CN") and not any(map(is_in_words_of_characters, ("en", "ko")))
    assert all(map(is_chinese, ("zh", "zh-CN", "zh_Hant", "cmn", "chi", "yue")))
    assert not any(map(is_chinese, ("en", "zhx", "jpn")))
    assert has_many_characters("kor") and main_language("kor") == "ko" and script_of("mkd") == ("cyrillic",)


def test_what_is_written_in_han_characters_has_no_spaces_nor_have_thai_and_its_neighbours() -> None:
    in_han = {code for code, scripts in SCRIPTS_OF_LANGUAGES.items() if scripts[0] == "han"}
    assert in_han | {"th", "lo", "km", "my", "bo", "dz"} == WITHOUT_SPACES
    assert all(map(is_written_without_spaces, ("tha_Thai", "mya", "khm", "yue-HK")))
    assert not any(map(is_written_without_spaces, ("ko", "vi")))
