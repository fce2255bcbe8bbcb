"""Decoding settings of a request, flags of a translation, and answers that do not depend on their batch."""

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import weft
from weft.decoding.search import DecodingConfig
from weft.serving.batching import Abandoned, Worker
from weft.serving.models import ServedModel
from weft.serving.translating import TranslationOptions, changes_for, flags_of, repeats_itself, search, translate
from weft.translating import batches
from weft.translating.loading import load_translator
from weft.translating.translator import Translator


def test_a_recipe_that_lets_translations_grow_without_end_does_not_do_so_here() -> None:
    endless = DecodingConfig(max_length_ratio=20, max_length_extra=10_000)
    assert changes_for(TranslationOptions(), endless, has_terms=False) == {
        "max_length_ratio": 2.0,
        "max_length_extra": 50,
    }
    assert changes_for(TranslationOptions(), DecodingConfig(), has_terms=False) == {
        "max_length_ratio": 2.0,
        "max_length_extra": 20,
    }


def test_several_answers_need_a_beam_of_as_many_that_its_groups_divide() -> None:
    changes = changes_for(TranslationOptions(best=9, beam_size=4), DecodingConfig(method="greedy"), has_terms=False)
    assert (changes["method"], changes["beam_size"]) == ("beam", 9)
    for best, groups, beam_size in ((2, 1, 6), (7, 1, 7), (7, 3, 9), (4, 3, 6)):
        config = DecodingConfig(beam_size=6, diverse_groups=groups)
        assert changes_for(TranslationOptions(best=best), config, has_terms=False)["beam_size"] == beam_size


@pytest.mark.parametrize(
    ("text", "repeats"),
    [
        ("the cat the cat the cat the cat", True),
        ("I see. I see. I see. I see.", True),
        ("我们我们我们我们", True),
        ("ha ha ha", False),
        ("1,000,000,000,000 and ................", False),
        ("the cat sat on the mat and the cat on the hat", False),
        ("", False),
    ],
)
def test_what_says_the_same_four_times_in_a_row_repeats_itself(text: str, repeats: bool) -> None:
    assert repeats_itself(text) == repeats


@pytest.mark.parametrize("bound", [{"max_length_ratio": 1.0, "max_length_extra": 3}, {"max_length": 4}])
def test_what_is_as_long_as_its_maximum_is_flagged(random_model: Any, bound: dict[str, Any]) -> None:
    translator, config = Translator(random_model), DecodingConfig(**bound)
    source, text = "我有", "I have some apples and pears"  # one piece, and more than four
    assert flags_of(source, text, config, translator) == {"length"}
    assert flags_of(source, "I", config, translator) == frozenset()


def test_a_text_that_is_copied_has_no_other_numbers(random_model: Any) -> None:
    translator = Translator(random_model)
    for text in ("I have three apples.", "See the two examples below.", "我有三个苹果。"):
        assert flags_of(text, text, DecodingConfig(), translator) == frozenset()
    assert flags_of("我有三个苹果。", "I have two apples.", DecodingConfig(), translator) == {"numbers"}


def test_lengths_are_compared_as_the_search_counts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    translator, config = weft.load("zh-en"), DecodingConfig(max_length_ratio=1.0, max_length_extra=1)

    def is_cut(source: str, text: str) -> bool:
        return "length" in flags_of(source, text, config, translator)

    assert is_cut("他的电话号码是1234567890123456789。", "His phone number is this.")  # what is copied is one piece
    assert is_cut("我有两个苹果。", "I have two apples.")
    monkeypatch.setattr(batches, "tag_ids", lambda *_: [5])
    assert not is_cut("我有两个苹果。", "I have two apples.")
    monkeypatch.setattr(translator, "longest_sentence", lambda: 6)
    assert is_cut("我有两个苹果。", "I have two apples.")


def served(translator: Translator) -> ServedModel:
    return ServedModel("random", translator, Worker("random", lambda size: None))


def test_a_search_ends_at_the_step_at_which_its_client_has_gone(random_model: Any) -> None:
    steps = []

    def after_step() -> None:
        steps.append(1)
        if len(steps) == 3:
            raise Abandoned

    model = served(Translator(random_model))
    with pytest.raises(Abandoned):
        search(model, TranslationOptions(), ["我有两个苹果。"] * 3, after_step)
    model.worker.close()
    assert len(steps) == 3


def test_a_translation_from_the_memory_is_not_flagged_as_cut(random_model: Any) -> None:
    translator = Translator(random_model)
    model = replace(served(translator), memory=translator.as_memory({"我有": "I see. " * 40}))
    (found,) = search(model, TranslationOptions(), ["我有"], lambda: None)
    model.worker.close()
    assert found.flags == {"repetition"} and found.ranked(0).log_prob == 0


def test_an_answer_is_the_same_alone_and_in_any_company(distinct_model: Path) -> None:
    translator = load_translator(distinct_model)
    texts = [f"我有{number}个{noun}。" for number in "一两三四五" for noun in ("苹果", "杯子和问题", "朋友")]
    single = served(translator)
    alone = [search(single, TranslationOptions(), [text], lambda: None)[0].ranked(0).text for text in texts]
    single.worker.close()
    assert len(set(alone)) == len(texts)

    async def together() -> list[str]:
        model = ServedModel("random", translator, Worker("random", sizes.append))
        asking = partial(translate, model, options=TranslationOptions())
        found = await asyncio.gather(*(asking([text]) for text in texts))
        model.worker.close()
        return [answer.text for (answer,) in found]

    sizes: list[int] = []
    assert asyncio.run(together()) == alone
    assert max(sizes) > 1
