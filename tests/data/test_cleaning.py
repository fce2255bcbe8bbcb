"""Cleaning: each rule removes what it names, at its threshold, and leaves good pairs of both languages alone."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from tests.corpora import corpus

from weft.data import starter
from weft.data.cleaning import OFF, RULES, CleaningConfig, Pairs, verdicts

NONE: dict[str, Any] = {key: OFF.get(key, False) for key in RULES} | {"max_length": 10**6, "max_ratio": 10**6}


def removed_by(source: str, target: str, languages: tuple[str, str] = ("zh", "en"), **settings: Any) -> str | None:
    """The rule that removes the pair."""
    (number,) = verdicts(Pairs([source], [target], languages), CleaningConfig(**settings)).tolist()
    return list(RULES)[number - 1] if number else None


GOOD = [
    ("你好。", "Hello."),
    ("我在1999年3月買了一台Ｓｏｎｙ電視。", "I bought a Sony TV in March 1999."),
    ("知彼知己，百战不殆。", "If you know your enemies and know yourself, you will not be defeated."),
    ("哈哈哈，太好了！", "Ha ha ha, great!"),
    ("汤姆喜欢用 Python。", "Tom likes to use Python."),
    ("我用Twitter。", "I use Twitter."),
    ("请把 <空格> 键按两下。", "Press the space bar twice."),
    ("天啊！", "Oh my God!"),
    ("如果 a<b 且 c>d。", "If a<b and c>d."),
    ("圆周率约为 3.14。", "Pi is about 3.14."),
    ("3.14", "3.14"),
    ("哈哈哈哈哈哈哈哈！", "Hahaha!"),
    ("嘟嘟嘟嘟嘟嘟嘟嘟", "Beep beep"),
]


@pytest.mark.parametrize(("source", "target"), GOOD)
def test_good_pairs_stay_in_either_direction(source: str, target: str) -> None:
    assert removed_by(source, target) is None
    assert removed_by(target, source, ("en", "zh")) is None


def test_texts_that_two_languages_write_alike_are_no_copies() -> None:
    assert removed_by("這個問題", "这个问题", ("zh-Hant", "zh-Hans")) is None
    assert removed_by("東京大学", "东京大学", ("ja", "zh")) is None


BAD = {
    "min_length": ("？！", "What?!"),
    "max_length": ("好" * 201, "good " * 150),
    "max_ratio": (
        "好。",
        "This is a very long sentence that nobody would ever say in order to translate one character.",
    ),
    "min_script": ("I am not Chinese at all.", "I am not Chinese at all, am I?"),
    "copies": ("苹果 IBM", "苹果IBM"),
    "mojibake": ("你好吗？", "Itâ€™s fine, thanks."),
    "markup": ("你好<br/>吗？", "How are you?"),
    "repetition": ("掌声，掌声，掌声，掌声，掌声", "Applause from the whole audience."),
    "numbers": ("我有37本书。", "I have 73 books."),
    "target_script": ("I love my country.", "我愛我的國家。"),
}


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_removes_what_it_names_and_alone_nothing_else(rule: str) -> None:
    languages = ("en", "zh") if rule == "target_script" else ("zh", "en")
    value = {"target_script": "simplified"}.get(rule, CleaningConfig().model_dump()[rule] or True)
    for name, (source, target) in BAD.items():
        if name != "target_script" or rule == "target_script":
            found = removed_by(source, target, languages, **{**NONE, rule: value})
            assert found == rule if name == rule else found in (None, rule)
    assert removed_by(*BAD[rule], languages, **NONE) is None
    assert removed_by("我有37本书。", "I have 37 books.", **{**NONE, "numbers": True}) is None


def test_the_first_rule_in_order_is_the_one_that_counts() -> None:
    assert removed_by("<b>好</b>" * 201, "<b>good</b> " * 201) == "max_length"
    assert removed_by("<b>好</b>", "<b>good</b> " * 3, max_length=2) == "max_length"
    assert removed_by("<b>你好</b>吗", "<b>How are you</b>") == "markup"


@pytest.mark.parametrize(("characters", "expected"), [(10, None), (11, "max_length")])
def test_length_is_counted_in_characters_of_chinese_and_words_of_english(characters: int, expected: str | None) -> None:
    assert removed_by("好" * characters, "extraordinarily " * 9, max_length=10, repetition=False) == expected
    assert removed_by("好" * 9, "extraordinarily " * characters, max_length=10, repetition=False) == expected


def test_a_ratio_is_beyond_what_is_usual_and_a_few_words_are_free() -> None:
    # Of 16 characters 10 words are usual; up to (4 * 16 + 4) / 1.6 = 42.5 words are allowed.
    numbers = [f"word{i}" for i in range(50)]
    source = "一二三四五六七八九十天地人你我他"
    assert removed_by(source, " ".join(numbers[:42]), min_script=0.0) is None
    assert removed_by(source, " ".join(numbers[:43]), min_script=0.0) == "max_ratio"


def test_the_words_of_the_next_pairs_are_no_repetition() -> None:
    pairs = Pairs(["跑！", "快跑！", "跑吧。", "你跑！"], ["Run!", "Run!", "Run.", "Run!"], ("zh", "en"))
    assert verdicts(pairs, CleaningConfig()).tolist() == [0] * 4


@pytest.mark.parametrize(
    ("other", "removed"),
    [
        ("Haha, how funny!", None),
        ("Hahahaha!", None),
        ("Beep beep, said the car.", None),
        ("You ought to be in India.", "repetition"),
        ("It is raining with the competition.", "repetition"),
    ],
)
def test_a_repetition_is_none_where_the_other_side_repeats_too_and_that_by_the_word(
    other: str, removed: str | None
) -> None:
    rules = {**NONE, "repetition": True}
    assert removed_by("哈哈哈哈哈哈哈哈哈哈", other, **rules) == removed


def test_a_pair_is_judged_alike_alone_and_among_others() -> None:
    pairs = [*GOOD, *BAD.values()] * 3
    sources, targets = zip(*pairs, strict=True)
    together = verdicts(Pairs(sources, targets, ("zh", "en")), CleaningConfig(numbers=True)).tolist()
    alone = [verdicts(Pairs([s], [t], ("zh", "en")), CleaningConfig(numbers=True)).item() for s, t in pairs]
    assert together == alone
    assert verdicts(Pairs([], [], ("zh", "en")), CleaningConfig(numbers=True)).tolist() == []


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("bn", "আমি গতকাল তিনটি বই কিনেছি।"),
        ("ta", "நான் நேற்று மூன்று புத்தகங்கள் வாங்கினேன்."),
        ("ka", "გუშინ სამი წიგნი ვიყიდე."),
        ("hy", "Երեկ երեք գիրք գնեցի։"),
        ("tt", "Мин кичә өч китап сатып алдым."),
        ("ps", "ما پرون درې کتابونه واخیستل."),
        ("yi", "איך האָב נעכטן געקויפֿט דרײַ ביכער."),
        ("sr", "Јуче сам купио три књиге."),
        ("sr", "Juče sam kupio tri knjige."),
        ("km", "ខ្ញុំបានទិញសៀវភៅបីក្បាលកាលពីម្សិលមិញ។"),
        ("my", "ကျွန်တော် မနေ့က စာအုပ်သုံးအုပ် ဝယ်ခဲ့တယ်။"),
        ("xx", "ꦲꦏꦸ ꦠꦸꦏꦸ ꦧꦸꦏꦸ ꦠꦼꦭꦸ"),
    ],
)
def test_the_default_rules_know_the_scripts_of_many_languages_and_ask_nothing_of_the_others(
    language: str, text: str
) -> None:
    english = "I bought three books yesterday."
    assert removed_by(english, text, ("en", language)) is None
    if language != "xx":  # nobody knows what that is written in
        assert removed_by(english, "我昨天买了三本书。", ("en", language)) == "min_script"


@pytest.mark.parametrize(
    ("script", "target", "expected"),
    [
        ("simplified", "乾隆是清朝的皇帝。", None),
        ("simplified", "宫商角徵羽是五音。", None),
        ("simplified", "他徵求意见。", "target_script"),
        ("simplified", "他買了三本書。", "target_script"),
        ("traditional", "他征服了世界。", None),
        ("traditional", "他拿到佣金。", None),
        ("traditional", "范先生和余小姐來了，岳飛姓岳。", None),
        ("traditional", "他买了三本书。", "target_script"),
    ],
)
def test_a_character_of_both_scripts_is_judged_by_its_words(script: str, target: str, expected: str | None) -> None:
    assert removed_by("This is it.", target, ("en", "zh"), target_script=script) == expected


def test_the_starter_corpus_stays_whole() -> None:
    sources, targets = zip(*starter.load()["train"][:3000], strict=True)
    assert not verdicts(Pairs(sources, targets, ("zh", "en")), CleaningConfig()).any()


def test_the_default_rules_keep_97_percent_of_a_good_corpus() -> None:
    rows = [
        line.split("\t") for line in corpus("zh-en-50k/train.tsv").read_text(encoding="utf-8").split("\n")[1:10_001]
    ]
    found = verdicts(Pairs([row[0] for row in rows], [row[1] for row in rows], ("zh", "en")), CleaningConfig())
    assert np.mean(found == 0) > 0.97, Counter(found.tolist())


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("Visual C++，C和Delphi。", "Visual C++, C and Delphi."),
        ("那是我的曾，曾，曾，曾祖父。", "That is my great, great, great, great grandfather."),
    ],
    ids=["names", "said again and again"],
)
def test_what_is_strange_on_both_sides_alike_stays(source: str, target: str) -> None:
    assert removed_by(source, target) is None
