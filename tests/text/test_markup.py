"""Markup: what is taken out, where it goes in a translation, and that none is ever lost, doubled or turned around."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.text.mark_placement import put_back
from weft.text.markup import Mark, Part, take_apart

MARKS = ["<b>", "</b>", "<i class='x'>", "</i>", "<img src=a>", "{name}", "{0}", "${x}", "%s", "%(n)d", "&amp;"]
MARKS += ["https://a.b/c?d=1", "me@x.com", "<code>a b</code>", "{{ user }}", "<!-- no -->", "%%"]
WORDS = ["我", "有", "3", "apples", "，", "。", ", ", ". ", " ", "Tom", "!", "("]
MARKED_TEXT = st.lists(st.sampled_from(MARKS + WORDS), max_size=16).map("".join)
TRANSLATION = st.lists(st.sampled_from(WORDS), max_size=12).map("".join)


def translated(text: str, translation: str) -> str:
    (part,) = take_apart(text)
    return put_back(part.text, part.marks, translation)


# What is taken out


@pytest.mark.parametrize(
    "mark", [*MARKS, "%1$s", "%-5.2f", "{n:.2f}", "#{x}", "{姓名}", "${数量}", "%(姓名)s"], ids=ascii
)
def test_each_kind_of_mark_is_taken_out_as_it_is(mark: str) -> None:
    assert take_apart(f"我 {mark} 你") == [Part(f"我 {mark} 你", "我  你", (Mark(mark, 2),))]


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ("AT&amp;T has v{version} and a {count}th", ["AT&amp;T", "v{version}", "{count}th"]),
        ("100%% 涨了%d%%", ["100%%", "%d", "%%"]),
        ("见https://a.b/c。好", ["https://a.b/c"]),
        ("{a}http://b.c", ["{a}http://b.c"]),
        ("有10<sup>6</sup>个, H<sub>2</sub>O", ["10<sup>6</sup>", "H<sub>2</sub>O"]),
        (r"\textbf{三个苹果}，{姓名}，{我昨天买了三本书。}", ["{姓名}"]),
        ("{count, plural, other {三个苹果}}", []),
        ("claims<sup>3</sup> <b>1</b>st", ["<sup>", "</sup>", "<b>", "</b>"]),
    ],
)
def test_letters_and_digits_beside_a_mark_belong_to_it(text: str, marks: list[str]) -> None:
    assert [mark.text for mark in take_apart(text)[0].marks] == marks


@pytest.mark.parametrize(
    ("text", "marks", "left"),
    [
        ("two&nbsp;&nbsp;words", ["&nbsp;", "&nbsp;"], "two words"),
        ("it&mdash;<b>and</b>", ["&mdash;", "<b>", "</b>"], "it and"),
        ("说&quot;hi&quot;。", ["&quot;", "&quot;"], "说hi。"),
        ("一&nbsp;二", ["&nbsp;"], "一二"),
        ("&lsquo;so&rsquo; &#39;it&#x27;", ["&lsquo;", "&rsquo;", "&#39;", "&#x27;"], "so it"),
        ("hy&shy;phen", ["&shy;"], "hyphen"),
        ("one<!-- no -->two", ["<!-- no -->"], "onetwo"),
        ("at caf&eacute;s, R&#38;D, I don&apos;t", ["caf&eacute;s", "R&#38;D", "don&apos;t"], "at , , I "),
    ],
)
def test_words_beside_an_entity_of_a_sign_or_a_comment_are_translated(text: str, marks: list[str], left: str) -> None:
    (part,) = take_apart(text)
    assert [mark.text for mark in part.marks] == marks and part.text == left


@pytest.mark.parametrize(
    "whole",
    [
        "<script>if (a<b) '</p>' </script>",
        "<SCRIPT>a <!-- b</Script >",
        "<style>p > b {}</style>",
        "<pre>a <b>b</b>\n<p></pre>",
        "<pre><pre-line></pre>",
    ],
)
def test_scripts_styles_and_preformatted_text_stay_with_whatever_is_in_them(whole: str) -> None:
    assert [part.whole for part in take_apart(f"一{whole}二")] == ["一", whole, "二"]


@pytest.mark.parametrize(
    "mark",
    [
        "<code>a < b</code>",
        "<code>x<b>y</b></code>",
        "<kbd><p></kbd>",
        "<!-- a <b> -> -- <p>c</p> <script> -->",
        "<!-- <code> -->",
        "<!---->",
        "<!-->",
        "<!--->",
        "<!-- a --->",
    ],
)
def test_code_and_comments_are_one_mark_with_whatever_is_in_them(mark: str) -> None:
    assert take_apart(f"一{mark}二") == [Part(f"一{mark}二", "一二", (Mark(mark, 1),))]


@pytest.mark.parametrize(
    "text", ["a < b and b > c", "50% of it", "100 % sure", "{ this is text }", "5 & 6", "I <3 you", "a @ b", "$5", "{"]
)
def test_what_is_no_markup_stays(text: str) -> None:
    assert take_apart(text) == [Part(text, text)]


def test_block_elements_divide_a_text() -> None:
    text = "<p>一<b>二</b></p>\n<p>三<br/>四</p><script>if (a) b</script>"
    parts = take_apart(text)
    assert [part.whole for part in parts] == [
        *("<p>", "一<b>二</b>", "</p>", "\n", "<p>", "三", "<br/>", "四", "</p>", "<script>if (a) b</script>")
    ]
    assert [part.text for part in parts if part.text.strip()] == ["一二", "三", "四"]


@given(MARKED_TEXT | st.text(st.characters(exclude_categories=())))
def test_the_parts_are_the_text(text: str) -> None:
    parts = take_apart(text)
    assert "".join(part.whole for part in parts) == text
    for part in parts:
        assert not part.text or part.whole == put_in(part)


def put_in(part: Part) -> str:
    """A part with its marks where they were."""
    whole, begin = "", 0
    for mark in part.marks:
        whole += part.text[begin : mark.place] + mark.text
        begin = mark.place
    return whole + part.text[begin:]


# Where it goes


@pytest.mark.parametrize(
    ("text", "translation", "expected"),
    [
        ("我有<b>3</b>个梨。", "I have 3 pears.", "I have <b>3</b> pears."),
        ("<b>我有梨。</b>", "I have pears.", "<b>I have pears.</b>"),
        ("点击<a href=x>这里</a>。", "Click here.", "Click <a href=x>here</a>."),
        ("你好{name}，", "Hello,", "Hello {name},"),
        ("你好，{name}！", "Hello!", "Hello {name}!"),
        ("See https://a.b/c.", "请看。", "请看https://a.b/c。"),
        ("Tom has {n} dogs.", "Tom有狗。", "Tom有{n}狗。"),
        ("{a}{b}我们走", "We go", "{a}{b} We go"),
        ("<b>{a}</b>我们走", "We go", "<b>{a}</b> We go"),
        ("我们走{a} {b}", "We go", "We go {a} {b}"),
        ("(%s)", "()", "(%s)"),
        ("一<b></b>二", "one two", "one <b></b>two"),
        ("我{x}", "", "{x}"),
        ("我说&quot;你好&quot;。", "I say good day.", "I say &quot;good day&quot;."),
        ("我们<!-- no -->走。", "We go.", "We <!-- no -->go."),
        ("我们&mdash;走", "We go", "We &mdash; go"),
        ("这是一本{x}书", "यह किताब है", "यह किताब {x} है"),
    ],
)
def test_by_hand(text: str, translation: str, expected: str) -> None:
    assert translated(text, translation) == expected


def test_numbers_and_names_are_anchors_where_the_order_of_words_changes() -> None:
    assert translated("昨天晚上在学校<i>Tom</i>走了。", "Tom left school last night.") == (
        "<i>Tom</i> left school last night."
    )


@given(MARKED_TEXT, TRANSLATION)
def test_every_mark_comes_once_in_its_order_and_nothing_else_changes_but_spaces(text: str, translation: str) -> None:
    for part in take_apart(text):
        written, left = (re.sub(r"\s", "", t) for t in (put_back(part.text, part.marks, translation), translation))
        for mark in part.marks:
            before, found, written = written.partition(re.sub(r"\s", "", mark.text))
            assert found and left.startswith(before)
            left = left.removeprefix(before)
        assert written == left


@given(TRANSLATION)
def test_without_marks_a_translation_stays_as_it_is(translation: str) -> None:
    assert put_back("我", (), translation) == translation


# Hostile text


@pytest.mark.parametrize(
    "unit",
    [
        *("<a ", "{a", "<code>", "%", "&a", "a@", "http://", "<!--", "{{ a", "{%", "<p", "<p>", "{a}", "<b>x"),
        *("<!-- <p> <code> <pre>", "<pre><", "<code><kbd>", "<!--->", "<!-->", "<!---", "<script></script ", "&nbsp;a"),
    ],
    ids=ascii,
)
def test_endless_text_of_any_kind_takes_a_moment(unit: str) -> None:
    text = unit * (200_000 // len(unit))
    began = time.process_time()
    parts = take_apart(text)
    assert time.process_time() - began < 5  # seconds, where quadratic work would take an hour
    assert sum(len(part.whole) for part in parts) == len(text)


def test_no_mark_comes_to_stand_inside_a_phrase_that_is_kept_whole() -> None:
    for source, translation, expected in (
        ("我在{name}北京大学学习。", "At Peking University I study.", "At {name} Peking University I study."),
        ("我在北京大学<b>学习</b>了。", "I was at Peking University.", "I was at <b>Peking University</b>."),
    ):
        (part,) = take_apart(source)
        assert put_back(part.text, part.marks, translation, whole=["peking university"]) == expected


def test_of_two_phrases_that_overlap_neither_is_torn_apart() -> None:
    part = take_apart("$<b></b>--><i>{name}</a></pre>你好")[-1]
    written = put_back(part.text, part.marks, "a b c d, e f 3 g. a b c d, e f 3 g. ", whole=["a b c", "b c d"])
    assert written.count("a b c d") == 2
