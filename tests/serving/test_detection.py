"""Which language a text is in, of those that a server knows."""

import pytest

from weft.serving.detection import Detection, Detector


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("我有两个苹果。", "zh"),
        ("我用 Python 写代码", "zh"),
        ("I have two apples.", "en"),
        ("ok", "en"),
        ("The word 你好 is a greeting", "en"),
        ("漢", "zh"),
        ("我在优の良品买东西", "zh"),
        ("约翰・史密斯・布朗", "zh"),  # ・ is a sign and no kana
        ("请打开 https://example.com/a/b/c?d=e&f=g#h 看看", "zh"),
        ("有问题请写信给 first.last@mail.example.org。", "zh"),
        ("欢迎，{user.name}！你有 %(count)d 封新邮件。", "zh"),
        ("<p class='a b c d'>你好</p>", "zh"),
        ("www.example.com", "en"),
        ("我在 GitHub 上看到 C++、Java、Python、Rust 和 Go 的例子", "zh"),
    ],
)
def test_between_chinese_and_english_characters_tell(text: str, language: str) -> None:
    assert Detector(["en", "zh"]).detect(text).language == language


def test_chinese_is_zh_where_other_chinese_languages_are_served_too() -> None:
    assert Detector(["en", "yue", "zh"]).detect("他在哪里？").language == "zh"
    assert Detector(["en", "yue"]).detect("他在哪里？").language == "yue"


def test_of_several_other_languages_the_likeliest_is_chosen() -> None:
    detector = Detector(["de", "en", "fr", "zh"])
    assert detector.detect("Der Vertrag wird heute unterschrieben.").language == "de"
    assert detector.detect("Le contrat sera signé aujourd'hui.").language == "fr"
    assert detector.detect("The contract will be signed today.").confidence > 50


@pytest.mark.parametrize(
    ("text", "language", "least"),
    [
        ("Bonjour, comment allez-vous ?", "fr", 90),
        ("Où est la gare ?", "fr", 80),
        ("Je t'aime", "fr", 50),
        ("Ich habe zwei Äpfel.", "de", 90),
        ("Договор будет подписан сегодня.", "ru", 50),
        ("こんにちは", "ja", 90),
        ("今日は天気がいいですね。", "ja", 90),
        ("私は東京大学の学生です。", "ja", 90),
        ("ﾄｳｷｮｳ大学の学生ﾃﾞｽ", "ja", 50),  # half width
        ("Hello", "en", 20),  # four letters decide little, but nothing speaks clearly for another language
        ("Yes", "en", 10),
        ("hello world", "en", 20),
        ("Good morning", "en", 50),
        ("Please open the window", "en", 90),
    ],
)
def test_another_language_is_told_where_it_is_clear(text: str, language: str, least: float) -> None:
    found = Detector(["en", "zh"]).detect(text)
    assert found.language == language and least <= found.confidence <= 100


def test_a_text_without_letters_is_not_detected() -> None:
    detector = Detector(["en", "zh"])
    assert detector.detect("12 + 30 = 42").confidence == 0
    assert detector.detect("").confidence == 0
    assert Detector(["yue", "zh"]).detect("゛゛") == Detection("zh", 0.0)


@pytest.mark.parametrize(
    ("languages", "text", "found"), [(["de", "en"], "我有两个苹果。", False), (["en", "ja"], "東京大学", True)]
)
def test_characters_alone_are_no_other_language_of_a_server_without_chinese(
    languages: list[str], text: str, found: bool
) -> None:
    assert (Detector(languages).detect(text).language in languages) == found
