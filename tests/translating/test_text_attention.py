"""Attention between texts and translations, and the markup that it puts in its place."""

import re

import numpy as np
import pytest

from weft.folders.finding import find_model
from weft.text.chinese import convert_back
from weft.text.markup import Mark
from weft.text.word_ranges import word_ranges
from weft.translating.glossary import Glossary
from weft.translating.loading import load_translator
from weft.translating.passages import PassageTranslator, Sentence
from weft.translating.text_attention import attention_between, owners, same_characters, spread
from weft.translating.translation import Translation
from weft.translating.translator import Translator


@pytest.mark.parametrize(
    ("marked", "expected"),
    [
        ("我昨天买了三本<b>书</b>。", "I bought three <b>books</b> yesterday."),
        ("<b>我昨天买了三本书</b>。", "<b>I bought three books yesterday</b>."),
        ("我<i>昨天</i>买了三本<b>书</b>。", "I bought three <b>books</b> <i>yesterday</i>."),
    ],
)
def test_a_tag_goes_where_the_words_go(zh_en: Translator, marked: str, expected: str) -> None:
    assert PassageTranslator(zh_en, keeps_markup=True).translate([marked])[0].text == expected


def test_a_tag_around_a_term_goes_around_its_translation(zh_en: Translator) -> None:
    glossary = Glossary([("慕容雪", "Murong Xue"), ("李明", "Li Ming")], ("zh", "en"))
    passages = PassageTranslator(zh_en, keeps_markup=True, glossary=glossary)
    found = passages.translate(["<b>李明</b>来了。", "我认识<b>慕容雪</b>和<i>李明</i>。"])
    assert found[0].text == "<b>Li Ming</b> is coming."
    assert "<b>Murong Xue</b>" in found[1].text and "<i>Li Ming</i>" in found[1].text


def test_tags_over_several_sentences_nest_as_they_did(zh_en: Translator) -> None:
    text = "他<u>明天要</u><b>去<i>北</i>京工作。我</b>不想让他去。"
    (found,) = PassageTranslator(zh_en, keeps_markup=True).translate([text])
    assert re.findall(r"<[^>]*>", found.text) == re.findall(r"<[^>]*>", text)


def test_attention_is_the_same_together_and_alone_and_sums_to_1_for_every_character(zh_en: Translator) -> None:
    sources = ["我喜欢苹果。", "他昨天在图书馆里看了很多书。", "好"]
    pairs = list(zip(sources, [each.text for each in zh_en.translate(sources)], strict=True))
    together = list(attention_between(zh_en, pairs))
    for pair, found in zip(pairs, together, strict=True):
        (alone,) = attention_between(zh_en, [pair])
        assert found is not None and alone is not None and found.shape == (len(pair[1]), len(pair[0]))
        np.testing.assert_allclose(found, alone, atol=1e-5)
        visible = [not character.isspace() for character in pair[1]]
        np.testing.assert_allclose(found.sum(1), np.where(visible, 1, 0), atol=1e-5)
    assert together[0] is not None and pairs[0][1] == "I like apples."
    apples = together[0][len("I like ") : len("I like apples")].sum(0)
    assert sources[0][int(apples.argmax())] in "苹果"


def test_tags_stand_in_traditional_script_where_they_stand_in_that_which_the_model_writes() -> None:
    text = "I <b>bought</b> new <i>software</i> for my <u>computer</u> yesterday."
    models = [load_translator(find_model("en-zh"), [f"decoding.script={name}"]) for name in ("keep", "traditional")]
    terms = {"software": "软件"}
    plain, traditional = (PassageTranslator(model, keeps_markup=True, glossary=terms) for model in models)
    (simplified,), (converted,) = plain.translate([text]), traditional.translate([text])
    assert "<i>软件</i>" in simplified.text and "<i>軟體</i>" in converted.text
    assert convert_back(converted.text, "traditional") == simplified.text


def test_a_model_that_was_exported_and_a_text_too_long_tell_none(
    zh_en: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zh_en, "longest_sentence", lambda: 6)
    assert [found is None for found in attention_between(zh_en, [("好。", "Good."), ("我" * 9, "I")])] == [False, True]
    monkeypatch.setattr(zh_en, "has_attention", False, raising=False)
    assert list(attention_between(zh_en, [("好。", "Good.")])) == [None]
    assert list(attention_between(zh_en, [])) == []


def test_what_a_step_raises_ends_it(zh_en: Translator) -> None:
    def end() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(attention_between(zh_en, [("好。", "Good.")], after_step=end))


def test_characters_are_of_the_word_whose_pieces_spell_them() -> None:
    pieces = ["▁New", "▁Y", "ork", "▁is", "▁", "<0xE5>", "<0xA5>", "<0xBD>"]
    words = word_ranges(pieces, kind="bpe", language="en")
    assert [word.text for word in words] == ["New", "York", "is", "好"]
    assert owners("New  York is好", words, pieces, "bpe") == [0, 0, 0, None, None, 1, 1, 1, 1, None, 2, 2, 3]


def test_characters_that_were_normalized_to_others_are_found_between_those_that_stayed() -> None:
    assert same_characters("學校", [("学", 0), ("校", 1)]) == [(0, ("学", 0)), (1, ("校", 1))]
    found = same_characters("a…b", [("a", 0), (".", 1), (".", 1), (".", 1), ("b", 2)])
    assert found == [(0, ("a", 0)), (2, ("b", 2))]


def test_what_a_source_word_has_is_shared_by_its_characters() -> None:
    weights = spread(np.array([[0.75, 0.25]]), [0, None, 0], [0, 0, None, 1])
    np.testing.assert_allclose(weights, [[0.375, 0.375, 0, 0.25], [0] * 4, [0.375, 0.375, 0, 0.25]])


def test_marks_are_put_into_translations_of_any_origin(zh_en: Translator) -> None:
    sentence = Sentence("我喜欢苹果。", (Mark("<b>", 3), Mark("</b>", 5)))
    passages = PassageTranslator(zh_en, keeps_markup=True)
    for text in ("", "。", "\x07 é 🍎 apples", "I like apples."):
        (found,) = passages.with_marks([[sentence]], [Translation(sentence.text, text, 0.0, 0.0)])
        assert found.text.count("<b>") == found.text.count("</b>") == 1
