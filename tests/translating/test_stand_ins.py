"""Stand-ins: words that a model knows, in the place of terms that it does not."""

import re
from functools import partial
from unittest.mock import patch

import pytest

import weft
from weft.text.chinese import convert_translation
from weft.text.kinds import train_tokenizer
from weft.text.language import is_written_without_spaces
from weft.translating.glossary import Glossary
from weft.translating.stand_ins import WORDS, usable_stand_ins, variants_of
from weft.translating.translator import Translator

PAIRS = [("汤姆", "Tom"), ("苹果", "apple")]
NAMES = Glossary([("李明", "Li Ming"), ("慕容雪", "Murong Xue")], ("zh", "en"))


@pytest.mark.parametrize(
    ("text", "variants"),
    [
        ("李明来了。", ["汤姆来了。", "苹果来了。"]),
        ("李明和慕容雪认识李明的  妈妈。", ["汤姆和苹果认识汤姆的 妈妈。", "苹果和汤姆认识苹果的 妈妈。"]),
        ("李明和汤姆", ["苹果和汤姆"]),
        ("李明、慕容雪和汤姆", []),
        ("没有人来。", []),
    ],
)
def test_each_term_of_a_text_has_a_word_of_its_own_that_the_text_has_not(text: str, variants: list[str]) -> None:
    assert [variant.text for variant in variants_of(text, NAMES, PAIRS)] == variants


def test_what_is_not_a_term_stays_as_it_is_written() -> None:
    glossary = Glossary([("li ming", "李明"), ("drone", "无人机")], ("en", "zh"))
    pairs = [("Tom", "汤姆"), ("apple", "苹果")]
    (first, _) = variants_of("Does LI MING's dad fly DRONEs, or a Drone?", glossary, pairs)
    assert first.text == "Does Tom's dad fly DRONEs, or a apple?"


@pytest.mark.parametrize(
    ("translation", "expected"),
    [
        ("Tom and an apple know Tom.", "Apple Tom and a tom know Apple Tom."),
        ("Tom and an apple know him.", None),
        ("Tom and an apple know Tom and Tom.", None),
        ("Tom and a pineapple know Tom.", None),
    ],
)
def test_terms_are_written_where_every_stand_in_came_out_as_often_as_it_went_in(
    translation: str, expected: str | None
) -> None:
    glossary = Glossary([("李明", "Apple Tom"), ("慕容雪", "tom")], ("zh", "en"))
    variant, _ = variants_of("李明和慕容雪认识李明。", glossary, PAIRS)
    assert variant.restored(translation, "en") == expected


@pytest.mark.parametrize(
    ("translation", "expected"),
    [("我喜欢苹果汤姆。", None), ("我喜欢苹果、汤姆。", "我喜欢GPU、K8s。"), ("有3苹果和汤姆", None)],
)
def test_a_term_that_would_melt_with_another_word_is_not_written(translation: str, expected: str | None) -> None:
    glossary = Glossary([("gizmo", "GPU"), ("Quuxly", "K8s")], ("en", "zh"))
    variant, _ = variants_of("I like gizmo and Quuxly.", glossary, [("apple", "苹果"), ("Tom", "汤姆")])
    assert variant.restored(translation, "zh") == expected


@pytest.mark.parametrize(
    ("language", "term", "translation", "expected"),
    [
        ("en", "drone", "He wants an apple. An apple!", "He wants a drone. A drone!"),
        ("en", "AI system", "This is an apple: apple", "This is an AI system: AI system"),
        ("it", "drone", "Vuole an apple e apple", "Vuole an drone e drone"),
        ("en", "5th Ave.", "At an apple. Or apple...", "At a 5th Ave. Or 5th Ave...."),
    ],
)
def test_an_english_article_goes_with_the_term(language: str, term: str, translation: str, expected: str) -> None:
    variant, *_ = variants_of("无人机，无人机", Glossary([("无人机", term)], ("zh", language)), [("苹果", "apple")])
    assert variant.restored(translation, language) == expected


def test_a_character_whose_small_letter_is_two_hides_no_term() -> None:
    glossary = Glossary([("İzmir", "伊兹密尔"), ("ΟΔΟΣ", "街")], ("en", "zh"))
    for text in ("I live in İzmir.", "Is İ in οδός?".replace("ό", "ο")):
        assert [variant.text for variant in variants_of(text, glossary, [("Tom", "汤姆")])] in (
            ["I live in Tom."],
            ["Is İ in Tom?"],
        )


def test_the_words_of_all_languages_are_the_same_number_and_each_a_word_of_its_own() -> None:
    for language, words in WORDS.items():
        assert len(set(words)) == len(WORDS["en"])
        inside = [(a, b) for a in words for b in words if a != b and a in b]
        assert not inside or not is_written_without_spaces(language)


def test_only_words_that_both_vocabularies_can_spell_are_stand_ins() -> None:
    chinese, _ = train_tokenizer(["汤姆吃苹果。"], kind="characters", vocab_size=30, language="zh")
    english, _ = train_tokenizer(["Tom and Mary eat."], kind="words", vocab_size=30, language="en")
    assert usable_stand_ins(("zh", "en"), chinese, english) == [("汤姆", "Tom"), ("玛丽", "Mary")]
    assert usable_stand_ins(("zho", "en-US"), chinese, english) == [("汤姆", "Tom"), ("玛丽", "Mary")]
    assert usable_stand_ins(("zh", "eo"), chinese, english) == []


def test_a_model_that_writes_traditional_has_stand_ins_in_traditional() -> None:
    english, _ = train_tokenizer(["Tom and Mary eat."], kind="words", vocab_size=30, language="en")
    chinese, _ = train_tokenizer(["湯姆吃蘋果。"], kind="characters", vocab_size=30, language="zh")
    as_written = partial(convert_translation, script="traditional")
    assert usable_stand_ins(("en", "zh-TW"), english, chinese, as_written) == [("Tom", "湯姆"), ("Mary", "瑪麗")]


def test_a_name_that_the_model_does_not_know_leaves_the_rest_of_its_sentence_good(zh_en: Translator) -> None:
    texts = ["慕容雪来了。", "我喜欢苹果。"]
    found = zh_en.translate(texts, glossary=NAMES)
    assert [each.text for each in found] == ["Murong Xue is coming.", "I like apples."]
    assert [each.source for each in found] == texts
    with_stand_ins = zh_en.translate([f"{word}来了。" for word, _ in zh_en.stand_ins])
    assert found[0].log_prob in [each.log_prob for each in with_stand_ins]
    assert "".join(zh_en.stream(texts[0], glossary=NAMES)) == found[0].text


def test_all_translations_of_such_a_sentence_hold_the_term(zh_en: Translator) -> None:
    (found,) = zh_en.translate_n_best(["慕容雪在公园里。"], 3, glossary=NAMES, beam_size=4)
    assert len(found) > 1 and all("Murong Xue" in each.text for each in found)
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)


def test_a_word_that_the_model_knows_is_demanded_by_constraints(zh_en: Translator) -> None:
    glossary = Glossary([("大", "large")], ("zh", "en"))
    (found,) = zh_en.translate(["这是一个很大的房子。"], glossary=glossary)
    assert re.search(r"\blarge\b", found.text)
    with patch.dict(zh_en.__dict__, {"stand_ins": []}):
        assert zh_en.translate(["这是一个很大的房子。"], glossary=glossary) == [found]


def test_beginnings_and_phrases_are_met_by_constraints_as_the_terms_beside_them(zh_en: Translator) -> None:
    (begun,) = zh_en.translate(["李明来了。"], glossary=NAMES, prefixes=["Now"])
    assert begun.text.startswith("Now") and "Li Ming" in begun.text
    alone = zh_en.translate(["李明来了。"], glossary=NAMES)
    assert zh_en.translate(["他很高兴。", "李明来了。"], glossary=NAMES, prefixes=["He", ""])[1:] == alone
    (held,) = zh_en.translate(["李明来了。"], glossary=NAMES, phrases=[["today"]])
    assert "today" in held.text and "Li Ming" in held.text


def test_what_a_memory_has_is_written_in_the_script_that_is_asked_for() -> None:
    translator, memory = weft.load("en-zh"), {"I need new software.": "我需要新软件。"}
    text = "I need new software."
    assert translator.translate([text], memory=memory, script="traditional")[0].text == "我需要新軟體。"
    assert "".join(translator.stream(text, memory=memory, script="traditional")) == "我需要新軟體。"


def test_in_traditional_script_the_same_stand_ins_are_found() -> None:
    translator = weft.load("en-zh")
    glossary = {"Grimmauld": "格里莫"}
    texts = ["Grimmauld bought an apple yesterday.", "I met Grimmauld at the station."]
    plain, traditional = (
        translator.translate(texts, glossary=glossary, script=script) for script in ("keep", "traditional")
    )
    constrained = translator.translate(texts, phrases=[["格里莫"]] * 2)
    assert any(one.text != other.text for one, other in zip(plain, constrained, strict=True))  # stand-ins were better
    assert [one.text for one in traditional] == [convert_translation(one.text, "traditional") for one in plain]
