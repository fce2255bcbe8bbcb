"""What is copied from a source comes back in its translation, whatever the model makes of the rest."""

import pytest
from bench.everyday import FOLDER
from hypothesis import given
from hypothesis import strategies as st

from weft.text.copying import before_end, copied_pair, copies_of, has_word, items_in, with_end_of

NAMES = {chr(0xE000 + number): f"<{number}>" for number in range(10)}


def shown(text: str) -> str:
    return "".join(NAMES.get(character, character) for character in text)


@pytest.mark.parametrize(
    "source, target, read, written",
    [
        ("我有２个苹果。", "I have 2 apples.", "我有<1>个苹果。", "I have <1> apples."),
        ("我有1个苹果。", "I have 1 apple.", "我有<0>个苹果。", "I have <0> apple."),
        ("3月5日8点05分", "March 5 at 8:05", "3月<1>日<2>", "March <1> at <2>"),
        ("有800万人口。", "It has 8 million people.", "有<1>人口。", "It has <1> people."),
        ("第21名", "the 21st", "第<1>名", "the <1>th"),
        ("请看https://example.org/a.html。", "See https://example.org/a.html.", "请看<7>。", "See <7>."),
        (
            "他三十岁，有30元。",
            "He is thirty and has 30 yuan.",
            "他三十岁，有<1>元。",
            "He is thirty and has <1> yuan.",
        ),
        ("我25岁。", "I am twenty-five.", "我25岁。", "I am twenty-five."),
        ("乘CA1234航班", "Take flight CA1234", "乘<7>航班", "Take flight <7>"),
        ("3-5万人", "30,000-50,000 people", "<1>-<2>人", "<1>-<2> people"),
        ("100多万人", "over a million", "100多万人", "over a million"),
        ("3.10比3.1新", "3.10 is newer than 3.1", "<1>比<2>新", "<1> is newer than <2>"),
        ("90年代中期", "the mid-1990s", "90年代中期", "the mid-1990s"),
        ("看https://a.b/c_(d)。", "See (https://a.b/c_(d)).", "看<7>。", "See (<7>)."),
    ],
)
def test_a_pair_has_a_symbol_for_what_both_sides_have(source: str, target: str, read: str, written: str) -> None:
    assert tuple(map(shown, copied_pair(source, target))) == (read, written)


@pytest.mark.parametrize(
    "source, language, written, translation",
    [
        ("这座城市有800万人口。", "en", "This city has \ue001 people.", "This city has 8 million people."),
        ("3万字和1.5亿人", "en", "\ue001 words, \ue002 people", "30,000 words, 150 million people"),
        ("30,000 words for 2 billion people", "zh", "\ue001字，\ue002人", "30,000字，20亿人"),
        ("会议8点30分开始。", "en", "The meeting starts at \ue001.", "The meeting starts at 8:30."),
        ("第2、3、11、12、22名", "en", "\ue001th \ue002th \ue003th \ue004th \ue005th", "2nd 3rd 11th 12th 22nd"),
        ("100多万人，30余万人", "en", "over \ue001, over \ue002", "over 1 million, over 300,000"),
        ("1亿5000万、2万5千、3万5000和1万2", "en", "\ue001 \ue002 \ue003 \ue004", "150 million 25,000 35,000 12,000"),
        (
            "1亿2千万人、1亿5百万和2亿3千万",
            "en",
            "\ue001 people, \ue002 and \ue003",
            "120 million people, 105 million and 230 million",
        ),
        ("3万亿5000亿、8万6千7百、2万3千5", "en", "\ue001, \ue002, \ue003", "3.5 trillion, 86,700, 23,500"),
        ("月薪8000至1.2万元", "en", "\ue001 to \ue002 yuan", "8000 to 12,000 yuan"),
        ("5000到1万，800 to 1 million", "en", "\ue001 to \ue002, \ue003 to \ue004", "5000 to 10,000, 800 to 1 million"),
        ("800 to 1 million", "zh", "\ue001到\ue002", "800到100万"),
        ("1,5 million d'habitants, 1/2 million", "zh", "\ue001 百万, \ue002 百万", "1,5 百万, 1/2 百万"),
        ("3万2025年5月", "en", "\ue001 \ue002", "30,000 2025"),
        ("花2到3万元", "en", "\ue001 to \ue002", "20,000 to 30,000"),
        ("5-10 million or 10 to 20 billion", "zh", "\ue001-\ue002，\ue003到\ue004", "500万-1000万，100亿到200亿"),
        ("3 Million5 people", "zh", "\ue001人", "350万人"),
        ("$2-$3 billion", "zh", "\ue001到\ue002美元", "20亿到30亿美元"),
        ("between 2 and 3 billion, 2 and 3 billion", "zh", "\ue001到\ue002，\ue003和\ue002", "20亿到30亿，2和30亿"),
        ("500 to 1,500 million", "zh", "\ue001到\ue002", "5亿到15亿"),
        ("$.5 million and .75 billion", "zh", "\ue001和\ue002", "50万和7.5亿"),
        ("RMB1.5亿, USD3 billion", "en", "\ue001, \ue002", "150 million, 3 billion"),
        ("1.5\u00a0billion", "zh", "\ue001", "15亿"),
        ("1点75亿", "en", "\ue001", "175 million"),
        ("上升0点25个百分点，8时20名", "en", "\ue001 \ue002 \ue003 \ue004", "0 25 8 20"),
        ("$1.5 trillion, 21 trillion", "zh", "\ue001和\ue002", "1.5万亿和21万亿"),
        ("21 trillion", "zh-TW", "\ue001", "21萬億"),
        ("21 trillion", "yue", "\ue001", "21萬億"),
        ("300万", "ja", "\ue001人", "300万人"),
        ("3 billion", "ja", "\ue001人", "30億人"),
        ("30億人", "zh", "\ue001人", "30亿人"),
        ("30亿人和5万人", "zh-TW", "\ue001人和\ue002人", "30億人和5萬人"),
        ("3 billion", "zh-Hant", "\ue001人", "30億人"),
        ("300万, 5 million", "de", "\ue001, \ue002", "3000000, 5000000"),
        ("没有数字", "en", "no \ue004 digits", "no digits"),
        ("2没有数字", "en", "\ue003 no \ue001 or \ue004", "no 2 or"),
        ("2没有", "en", "(\ue003 \ue004 no) \ue005 \ue001 \ue003, \ue002x", "(no) 2, x"),
    ],
)
def test_a_translation_has_the_items_as_its_language_writes_them(
    source: str, language: str, written: str, translation: str
) -> None:
    assert copies_of(source).restored(written, language) == translation


@given(st.text(st.sampled_from("我有12.,:/- 万点abth３%@w.comI\n"), max_size=40))
def test_what_is_read_comes_back_but_for_ordinals_and_width(text: str) -> None:
    copies = copies_of(text)
    back = copies.restored(copies.text, "zh")
    assert len(back) == len(text) or "million" in text
    assert len(copies.places(text)) == len(text) and copies.in_text(text) == copies.text
    assert all(place < len(copies.text) for place in copies.places(text))
    assert {item.value for item in copies.items.values()} <= {item.value for item in items_in(back)}


def test_words_that_a_translation_must_have_have_symbols_only_where_they_come_back_as_they_are_written() -> None:
    copies = copies_of("09:30有300万美元。")
    for demanded in ("I have 3,000,000", "at 9:30", "at 09:30", "3 million", "over 3 million"):
        assert copies.restored(copies.demanded(demanded, "en"), "en") == demanded
    assert shown(copies.demanded("3 million at 9:30", "en")) == "<2> at 9:30"


@pytest.mark.parametrize(
    "source, translation, language, whole",
    [
        ("标题", "Title.", "en", "Title"),
        ("我走了。", "I am leaving", "en", "I am leaving."),
        ("真的吗？", "Really?", "en", "Really?"),
        ("No.", "编号", "zh", "编号"),
        ("Apple Inc.", "苹果公司", "zh", "苹果公司"),
        ("He came at 5 p.m", "他五点来。", "zh", "他五点来"),
        ("苹果等", "apples etc.", "en", "apples etc."),
        ('He said "go."', "他说：“走。”", "zh", "他说：“走。”"),
        ("你好", "...", "en", "..."),
        ("मैं जाता हूँ।", "I go.", "en", "I go."),
        ("Он сказал: «Иди.»", "He said: “Go.”", "en", "He said: “Go.”"),
        ("I go.", "私は行く", "ja", "私は行く。"),
        ("I go.", "ฉันไป", "th", "ฉันไป"),
    ],
)
def test_a_translation_ends_with_a_full_stop_as_its_source_does(
    source: str, translation: str, language: str, whole: str
) -> None:
    assert with_end_of(source, translation, language) == whole
    for end in range(len(translation)):
        assert whole.startswith(before_end(translation[:end]))  # what is streamed is not taken back


def test_a_full_stop_that_was_demanded_stays() -> None:
    assert with_end_of("他住在那里", "He lives at Ave.", "en", ["5th Ave."]) == "He lives at Ave"
    assert with_end_of("他住在5th Ave.", "He lives at 5th Ave.", "en", ["5th Ave."]) == "He lives at 5th Ave."
    assert with_end_of("他住在那里", "He lives at 5th Ave.", "en", ["", "5th Ave."]) == "He lives at 5th Ave."
    assert with_end_of("那里", "There.", "en", [""]) == "There"


@pytest.mark.parametrize("line", (FOLDER / "wordless.txt").read_text(encoding="utf-8").splitlines())
def test_a_line_without_a_word_is_known(line: str) -> None:
    assert not has_word(line, "zh") and not has_word(line, "en")


def test_letters_of_the_source_language_are_words() -> None:
    assert has_word("〇", "zh") and has_word("我有2个", "zh-TW") and not has_word("iPhone 15", "zh")
    assert has_word("3万", "zh") and has_word("5 million", "en") and has_word("mid-1990s", "en")
    assert has_word("I", "en") and has_word("a 5", "en") and has_word("3 apples", "en") and not has_word("x", "en")
    assert has_word("y", "es") and has_word("ひ", "ja") and has_word("가", "ko") and not has_word("我", "en")
    assert not has_word("<b>2</b> {name} %s", "en")
