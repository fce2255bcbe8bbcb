"""Long texts and marked ones: taken apart only where they must be, and put together as they were."""

import itertools
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.config import changed
from weft.errors import UsageError
from weft.text.markup import take_apart
from weft.translating.loading import load_translator
from weft.translating.passages import LONGEST_WHOLE, PassageTranslator
from weft.translating.translation import Translation
from weft.translating.translator import Translator


class Echo(Translator):
    """Answers every text with itself in capitals, and remembers what it was asked."""

    has_attention = False

    def translate(self, texts: Sequence[str], **decoding: Any) -> list[Translation]:
        self.asked = list(texts)
        return [Translation(text, text.strip().upper(), -1.0, -2.0) for text in texts]


def test_a_text_is_split_by_that_model_of_an_ensemble_that_needs_most_pieces(echo: Echo) -> None:
    class Letters:
        def encode(self, texts: Sequence[str]) -> list[list[int]]:
            return [list(range(4 * len(text))) for text in texts]

    first = echo.model
    other = replace(first, vocabularies={**first.vocabularies, "source": Letters()})
    text = "我有两个苹果。" * 20
    both = Echo(first, others=[other])
    passages = PassageTranslator(both)
    assert passages._count([text, ""]) == [4 * len(text), 0]


@pytest.fixture(scope="session")
def echo(tiny_run: Path) -> Echo:
    return Echo(load_translator(tiny_run / "run").model)


def into(target: str, echo: Echo) -> Echo:
    """An Echo from English into another language."""
    languages = {"data.source": "en", "data.target": target}
    return Echo(replace(echo.model, resolved=changed(echo.model.resolved, languages, "a test")))


def texts_of(found: list[Translation]) -> list[str]:
    return [translation.text for translation in found]


# What is taken apart


def test_one_sentence_goes_to_the_model_as_it_is(echo: Echo) -> None:
    texts = ["我来了。", "", " ", "a  b", "<b>{x}</b>"]
    passages = PassageTranslator(echo)
    found = passages.translate(texts)
    assert echo.asked == texts and passages.cut_texts == 0
    assert found == echo.translate(texts)


def test_one_string_is_not_a_list_of_passages(echo: Echo) -> None:
    passages = PassageTranslator(echo)
    for translate in (passages.translate, lambda texts: passages.translate_n_best(texts, 2)):
        with pytest.raises(UsageError, match="found one string"):
            translate("你好。我来了。")
    with pytest.raises(UsageError, match="text 1 is not a string: found list"):
        list(passages.stream(["你好。"]))  # type: ignore[arg-type]


def test_another_way_to_split_or_to_use_a_memory_is_refused(echo: Echo) -> None:
    with pytest.raises(UsageError, match="split is one of always, long, never, found sometimes"):
        PassageTranslator(echo, "sometimes")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="memory_use is one of show, force, found Force"):
        PassageTranslator(echo, memory={"书包": "satchel"}, memory_use="Force")  # type: ignore[arg-type]


def test_long_takes_apart_what_is_long_or_has_several_lines(echo: Echo) -> None:
    sentences = [f"我有{number}个苹果。" for number in range(LONGEST_WHOLE)]
    long = "".join(sentences)
    found, lines, short = PassageTranslator(echo, "long").translate([long, "我来了。\n\n你呢？", "我来了。你呢？"])
    assert echo.asked == [*sentences, "我来了。", "你呢？", "我来了。你呢？"]
    assert found == Translation(long, " ".join(sentences), -LONGEST_WHOLE, -2 * LONGEST_WHOLE)
    assert (lines.text, short.text) == ("我来了。\n\n你呢？", "我来了。你呢？")


def test_every_text_is_taken_apart_by_default_and_none_by_never(echo: Echo) -> None:
    text = "我来了。你呢？"
    assert texts_of(PassageTranslator(echo).translate([text])) == ["我来了。 你呢？"]
    assert texts_of(PassageTranslator(echo, "never").translate([text * 15])) == [text * 15]


@pytest.mark.parametrize("split", ["always", "long", "never"])
def test_one_sentence_is_never_changed(echo: Echo, split: Any) -> None:
    sentence = "我有" + "一个苹果" * 20 + "。"
    PassageTranslator(echo, split).translate([sentence])
    assert echo.asked == [sentence]


# How it is put together


def test_sentences_of_chinese_are_joined_without_a_space_unless_two_words_would_melt(echo: Echo) -> None:
    chinese = PassageTranslator(into("zh", echo))
    assert texts_of(chinese.translate(["He left. She came!", "It is v2.\nIt is 3 years old"])) == [
        "HE LEFT.SHE CAME!",
        "IT IS V2.\nIT IS 3 YEARS OLD",
    ]
    assert chinese.separator("a", "b") == " " and chinese.separator("。", "b") == ""


def test_paragraphs_are_kept_and_other_white_space_is_one_space(echo: Echo) -> None:
    found = PassageTranslator(into("de", echo)).translate(["  One.   Two.\n\n Three.\tFour. "])
    assert texts_of(found) == ["ONE. TWO.\n\n THREE. FOUR."]


# Text without any end


@pytest.mark.parametrize("split", ["always", "long", "never"])
def test_text_longer_than_the_model_reads_is_cut_and_counted(echo: Echo, split: Any) -> None:
    passages = PassageTranslator(echo, split)
    text = "我有一个苹果，" * 2000
    found = passages.translate([text, "我", text])
    assert passages.cut_texts == 2
    asked = echo.asked
    assert texts_of(found) == [" ".join(asked[: len(asked) // 2]), "我", " ".join(asked[: len(asked) // 2])]
    assert all(part.endswith("，") for part in asked if part != "我")
    assert max(map(len, echo.model.vocabularies["source"].encode(asked))) <= passages.longest


@pytest.mark.parametrize(
    "unit",
    ["a", "\u0301", "\x00", "👨\u200d👩\u200d👧", "我", " ", "。", "<b>", "{a}", "\u2028", "((", "我。"],
    ids=ascii,
)
@pytest.mark.parametrize("keeps_markup", [False, True])
def test_endless_text_of_any_kind_is_answered_in_time(echo: Echo, unit: str, keeps_markup: bool) -> None:
    passages = PassageTranslator(echo, keeps_markup=keeps_markup)
    began = time.process_time()
    (found,) = passages.translate([unit * (10_000 // len(unit))])
    assert time.process_time() - began < 5
    assert found.source == unit * (10_000 // len(unit))
    assert max(map(len, echo.model.vocabularies["source"].encode(echo.asked)), default=0) <= passages.longest


# Markup


def test_marks_come_out_as_they_went_in_and_blocks_are_translated_apart(echo: Echo) -> None:
    text = "<p>我有<b>apples</b>。</p>\n<p> {name}你好 <br/>100%%</p>"
    (found,) = PassageTranslator(echo, keeps_markup=True).translate([text])
    assert found.text == "<p>我有<b>APPLES</b>。</p>\n<p> {name}你好 <br/>100%%</p>"
    assert echo.asked == ["我有apples。", "你好"]


def test_without_the_option_markup_is_text(echo: Echo) -> None:
    PassageTranslator(echo).translate(["<b>我</b>"])
    assert echo.asked == ["<b>我</b>"]


def test_a_mark_stays_with_its_sentence(echo: Echo) -> None:
    text = "<b>我来了。</b>{x}你呢？<i>好吧。</i> %s"
    (found,) = PassageTranslator(echo, keeps_markup=True).translate([text])
    assert found.text == "<b>我来了。</b> {x}你呢？ <i>好吧。</i>%s"


MARKED = st.lists(
    st.sampled_from(
        ["<b>", "</b>", "{x}", "%s", "&lt;", "<p>", "</p>", "我来了。", "你呢？", "a b. ", " ", "\n", "Tom"]
    ),
    max_size=14,
).map("".join)


@given(MARKED, st.sampled_from(["always", "long"]))
def test_every_mark_and_block_comes_out_once_and_in_order(echo: Echo, text: str, split: Any) -> None:
    def marks(text: str) -> list[str]:
        return [
            t for part in take_apart(text) for t in ([m.text for m in part.marks] or [part.whole] * (not part.text))
        ]

    (found,) = PassageTranslator(echo, split, keeps_markup=True).translate([text])
    assert "".join(marks(found.text)).upper() == "".join(marks(text)).upper()


# Several translations, and parts of one


@pytest.mark.parametrize("split", ["always", "long"])
@pytest.mark.parametrize(
    "text", ["我来了。你呢？\n\n我有两个梨。", "书包", "", " ", "<p>我有<b>一个</b>苹果。</p>你呢？"]
)
def test_the_parts_of_a_streamed_passage_are_its_translation(distinct_model: Path, split: Any, text: str) -> None:
    for keeps_markup in (False, True):
        passages = PassageTranslator(load_translator(distinct_model), split, keeps_markup=keeps_markup)
        assert "".join(passages.stream(text)) == passages.translate([text])[0].text


def test_a_long_passage_is_streamed_from_its_first_sentence_on(distinct_model: Path) -> None:
    passages = PassageTranslator(load_translator(distinct_model))
    sentences = ["我来了。", "你呢？", "书包。"]
    stream = passages.stream("".join(sentences))
    first = next(stream)
    alone = texts_of(passages.translate(sentences))
    assert len(set(alone)) == 3
    assert alone[0].startswith(first) and first + "".join(stream) == " ".join(alone)


def test_the_best_of_a_passage_are_the_best_combinations_of_its_sentences(distinct_model: Path) -> None:
    translator = load_translator(distinct_model)
    passages = PassageTranslator(translator)
    texts = ["我来了。", "你呢？", "书包。"]
    (found,) = passages.translate_n_best(["".join(texts)], 3)
    several = translator.translate_n_best(texts, 3)
    assert len({one.text for found_of in several for one in found_of}) == 9
    everything = sorted(itertools.product(*several), key=lambda way: -sum(one.score for one in way))
    assert [one.text for one in found] == [" ".join(one.text for one in way) for way in everything[:3]]
    assert [one.score for one in found] == pytest.approx([sum(one.score for one in way) for way in everything[:3]])
    assert found[0] == passages.translate(["".join(texts)])[0]


def test_drawn_translations_of_a_passage_stay_in_the_order_in_which_they_were_drawn(distinct_model: Path) -> None:
    translator = load_translator(distinct_model, ["decoding.method=sample"])
    passages = PassageTranslator(translator)
    texts = ["我来了。", "", "你呢？"]
    (found,) = passages.translate_n_best(["我来了。你呢？"], 3)
    first, _, second = translator.translate_n_best(texts, 3)
    assert len({one.text for one in found}) == 3
    assert [one.text for one in found] == [f"{one.text} {other.text}" for one, other in zip(first, second, strict=True)]
    assert found[0].text == passages.translate(["我来了。你呢？"])[0].text


def test_of_a_passage_that_is_one_sentence_they_are_its_own(distinct_model: Path) -> None:
    translator = load_translator(distinct_model)
    texts = ["我来了。", "", "书包"]
    passages = PassageTranslator(translator)
    assert passages.translate_n_best(texts, 3) == translator.translate_n_best(texts, 3)
    assert [len(found) for found in passages.translate_n_best(texts, 1)] == [1, 1, 1]
