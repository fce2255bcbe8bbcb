"""Punctuation in one form: what becomes of each sign, what is never touched, and that once is enough."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.text.conftest import growth

from weft.text.normalization import Normalization, normalize
from weft.text.punctuation import Punctuation, unify_punctuation

# Drawn from what the rules look at, so that these meet each other in every order.
PARTS = st.sampled_from(
    [
        *",.;:!?'\"`()-_/&@#1a汉",
        *"，。！？；：、．（）“”‘’„«»「」『』《》【】…⋯—―–−─～＂＇－｡",
        *(" ", " ", "Tom", "3.14", "1,000", "12:30", "汉字", "...", "--", "——", "。。", "''", "``", "O'Brien", "etc"),
        *("http://a.b/c?d=1", "www.a.com", "me@a.com", "&amp;", "\u0338", "\u0301", "Ａ１", "\ufb01"),
    ]
)
MIXED_TEXT = st.lists(PARTS, max_size=14).map("".join)
ANY_TEXT = st.text(st.characters(exclude_categories=()))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("“It’s „his‟”, she said", '"It\'s "his"", she said', id="curly and low quotes"),
        pytest.param("「a」『b』《c》〈d〉", "\"a\" 'b' \"c\" 'd'", id="corner and angle quotes"),
        pytest.param("il dit « oui » et « non »", 'il dit "oui" et "non"', id="French quotes lose the spaces inside"),
        pytest.param("er sagt »ja« und »nein«", 'er sagt "ja" und "nein"', id="German ones keep those outside"),
        pytest.param("``a'' it`s it´s", "\"a\" it's it's", id="typewriter quotes"),
        pytest.param("1990–2000, wait—what — no", "1990-2000, wait--what -- no", id="dashes"),
        pytest.param("a\u2010b\u2011c \u22125", "a-b-c -5", id="hyphens and minus"),
        pytest.param("so… and…… and。。。 and ....", "so... and... and... and ...", id="ellipses"),
        pytest.param("wait . . . what", "wait ... what", id="a spaced ellipsis"),
        pytest.param("Yes，he（Tom）said：no！", "Yes, he (Tom) said: no!", id="wide signs get their spaces"),
        pytest.param("at 3：30，for 1，000＄、5％", "at 3:30, for 1,000$, 5%", id="wide signs in numbers get none"),
        pytest.param("I can’t 。 Sir ？", "I can't. Sir?", id="wide signs lose the space before them"),
        pytest.param("汉字，Tom", "汉字, Tom", id="wide signs between Chinese and Latin"),
        pytest.param("汉字，汉字。", "汉字,汉字.", id="wide signs between Chinese get none"),
        pytest.param("5 ＜ 6", "5 ＜ 6", id="signs of mathematics stay"),
        pytest.param("naïve Straße ① Ａ", "naïve Straße ① Ａ", id="letters stay"),
    ],
)
def test_ascii_by_hand(text: str, expected: str) -> None:
    assert unify_punctuation(text, "ascii") == expected


@pytest.mark.parametrize(
    "text",
    [
        "Don't! It's O'Brien's -- he said: \"3.14, 1,000 at 10:30?\" (U.S.) a-b; 5% #1 ../x a/b",
        "See https://a.org/b--c?d=1,2;e#f, or write to a.b@c-d.com.",
    ],
)
def test_ascii_stays_ascii(text: str) -> None:
    assert unify_punctuation(text, "ascii") == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("你好,世界.", "你好，世界。", id="comma and full stop"),
        pytest.param("你好 , 世界 !", "你好，世界！", id="no spaces around"),
        pytest.param("什么?!真的;好:坏", "什么？！真的；好：坏", id="other signs"),
        pytest.param('他说:"你好."', "他说：“你好。”", id="straight quotes pair; a stop before one"),
        pytest.param("「你『好』」", "“你‘好’”", id="corner quotes"),
        pytest.param("他说'你好'", "他说‘你好’", id="single quotes"),
        pytest.param('五"的"三"', '五"的"三"', id="an odd number of straight quotes stays"),
        pytest.param("北京(2008)和Tom(汤姆)", "北京（2008）和Tom（汤姆）", id="parentheses"),
        pytest.param("好...好。。。好…好……", "好……好……好……好……", id="ellipses"),
        pytest.param("好--好 -- 好―― 好──好", "好——好——好——好——好", id="dashes"),
        pytest.param("我喜欢Tom,他也是.", "我喜欢Tom，他也是。", id="after Latin, before Chinese"),
        pytest.param("我喜欢Tom.", "我喜欢Tom。", id="after Latin, at the end"),
        pytest.param("我喜欢“Tom”,“Mary” 和 Jack!", "我喜欢“Tom”,“Mary”和 Jack！", id="between Latin it stays"),
        pytest.param("你好｡世界､", "你好。世界、", id="half-width forms"),
        pytest.param("占５０％＋３＝？", "占５０%+３＝？", id="signs that Chinese shares with ASCII"),
        pytest.param("時間：12：30", "時間：12:30", id="a wide colon in a time"),
        pytest.param("?!", "？！", id="nothing but signs"),
        pytest.param("Hello，“Tom”！", 'Hello, "Tom"!', id="no Chinese at all"),
    ],
)
def test_chinese_by_hand(text: str, expected: str) -> None:
    assert unify_punctuation(text, "chinese") == expected


@pytest.mark.parametrize(
    "text",
    [
        "我有3.14和1,000元，12:30见。",
        "打开文件.txt和例子.com，v2.0.1",
        "请看http://a.com/b,c;d?e=1...2--3。",
        "写信到a.b@c-d.com，谢谢",
        "1.苹果 2. 梨 A.对 3)错",
        "J.K.罗琳、Dr.王和U.S.政府",
        "他在Apple Inc.",
        "八点p.m.",
        "我说don't，O'Brien说Tom's",
        "函数f(x)很好：）",
        "你好:)",
        "A&amp;B和C&#39;D",
        "2000—2005，北京—上海",
        "e-mail和T恤-红",
        "《红楼梦》：“你‘好’……”——完",
    ],
)
def test_in_chinese_these_stay(text: str) -> None:
    assert unify_punctuation(text, "chinese") == text


def test_keep_keeps() -> None:
    text = "“你好”,... （a) ，"
    assert unify_punctuation(text, "keep") == normalize(text) == text


@pytest.mark.parametrize("punctuation", ["ascii", "chinese"])
@pytest.mark.parametrize("form", ["nfc", "nfkc"])
@given(text=MIXED_TEXT | ANY_TEXT)
def test_doing_it_twice_is_doing_it_once(form: Normalization, punctuation: Punctuation, text: str) -> None:
    once = normalize(text, form, punctuation)
    assert normalize(once, form, punctuation) == once


@pytest.mark.parametrize("punctuation", ["ascii", "chinese"])
@given(text=MIXED_TEXT)
def test_letters_and_digits_stay_as_they_are(punctuation: Punctuation, text: str) -> None:
    def letters(text: str) -> str:
        return "".join(character for character in text if character.isalnum())

    assert letters(normalize(text, "nfc", punctuation)) == letters(normalize(text))


@pytest.mark.parametrize("punctuation", ["ascii", "chinese"])
@given(text=MIXED_TEXT)
def test_what_comes_out_is_still_normalized(punctuation: Punctuation, text: str) -> None:
    unified = normalize(text, "nfc", punctuation)
    assert normalize(unified) == unified


@pytest.mark.parametrize("punctuation", ["ascii", "chinese"])
@pytest.mark.parametrize("part", ["'", '"', "(", "汉'", ",", ". ", "-", "a.", "a@", "http:", "« ", "&", "…", "汉,"])
def test_long_runs_of_signs_take_no_longer_than_their_length(part: str, punctuation: Punctuation) -> None:
    assert growth(lambda text: normalize(f"汉{text}", "nfc", punctuation), part) < 20


def test_texts_that_differ_in_width_and_quotes_alone_become_one() -> None:
    draw = random.Random(1)
    ways = [*map(tuple, ("，,", "？?", "！!", "：:", "；;", "。.")), ("……", "...", "…"), ("——", "--")]
    for _ in range(200):
        parts = [draw.choice("我你他好书") + draw.choice("们的了") for _ in range(6)]
        signs = [draw.choice(ways) for _ in parts]
        variants = {"".join(part + draw.choice(way) for part, way in zip(parts, signs, strict=True)) for _ in range(5)}
        assert len({unify_punctuation(text, "chinese") for text in variants}) == 1
