"""Noise: what each kind does to a text, and that it is the same every time."""

from collections import Counter
from random import Random

import pytest

from weft.data.noise import (
    dropped_characters,
    joined,
    noises_of,
    noisy,
    other_script,
    typos,
)

TEXT = "I have bought one apple, have you?"


def test_a_typo_swaps_two_letters_and_loses_none() -> None:
    changed = typos(TEXT, Random(1))
    assert changed != TEXT and Counter(changed) == Counter(TEXT)
    assert 2 <= sum(one != other for one, other in zip(TEXT, changed, strict=True)) <= 6
    assert typos("你好", Random(1)) == "好你"


def test_a_tenth_of_the_letters_is_dropped_and_one_at_least() -> None:
    letters = sum(map(str.isalnum, TEXT))
    assert len(TEXT) - len(dropped_characters(TEXT, Random(1))) == round(letters / 10) == 3
    assert len(dropped_characters("你好", Random(1))) == 1
    assert dropped_characters("好", Random(1)) == "好"


@pytest.mark.parametrize(("signs", "changed"), [("。", "."), (" ?!", " ？！"), ("……", "……")])
def test_a_text_of_signs_alone_is_never_left_without_any(signs: str, changed: str) -> None:
    assert set(noisy([signs] * 20, "punctuation", "zh", seed=1)) == {changed}


def test_the_other_script_of_chinese() -> None:
    assert (other_script("我们学习"), other_script("我們學習")) == ("我們學習", "我们学习")


def test_a_greeting_stands_before_the_text_or_before_the_sign_that_ends_it() -> None:
    assert noisy(["我有苹果。"], "greeting before", "zh", seed=1) == ["你好，我有苹果。"]
    assert noisy(["我有苹果。"], "greeting after", "zh-CN", seed=1) == ["我有苹果，你好。"]
    asked = ["Where is it?", "Where is it"]
    assert noisy(asked, "greeting after", "en", seed=1) == ["Where is it, hello?", "Where is it, hello"]


def test_sentences_are_joined_as_their_language_does() -> None:
    assert joined("你好。", "再见。", "zh") == "你好。再见。"
    assert joined("はい。", "では。", "ja") == "はい。では。"
    assert joined("Hi.", "Bye.", "en") == "Hi. Bye."


@pytest.mark.parametrize("kind", noises_of("zh"))
def test_noise_follows_from_the_seed_and_the_place_of_the_text_alone(kind: str) -> None:
    texts = ["我们学习汉语，你呢？"] * 20
    once = noisy(texts, kind, "zh", seed=1)
    assert once == noisy(texts, kind, "zh", seed=1) and once[:5] == noisy(texts[:5], kind, "zh", seed=1)
    if kind in ("typos", "dropped characters", "punctuation"):
        assert len(set(once)) > 1 and once != noisy(texts, kind, "zh", seed=2)


def test_only_chinese_has_another_script() -> None:
    assert "other script" in noises_of("zh-TW") and "other script" not in noises_of("en")
