"""Which language a text is in, of those that a server knows."""

import pytest

from weft.serving.detection import Detector


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("我有两个苹果。", "zh"),
        ("我用 Python 写代码", "zh"),
        ("I have two apples.", "en"),
        ("ok", "en"),
        ("The word 你好 is a greeting", "en"),
        ("漢", "zh"),
    ],
)
def test_between_chinese_and_english_characters_tell(text: str, language: str) -> None:
    assert Detector(["en", "zh"]).detect(text).language == language


def test_of_several_other_languages_the_likeliest_is_chosen() -> None:
    detector = Detector(["de", "en", "fr", "zh"])
    assert detector.detect("Der Vertrag wird heute unterschrieben.").language == "de"
    assert detector.detect("Le contrat sera signé aujourd'hui.").language == "fr"
    assert detector.detect("The contract will be signed today.").confidence > 50


def test_what_is_none_of_its_languages_is_found_unlikely() -> None:
    detector = Detector(["en", "zh"])
    assert detector.detect("Договор будет подписан сегодня.").confidence < 5
    assert detector.detect("12 + 30 = 42").confidence == 0
    assert detector.detect("").confidence == 0
