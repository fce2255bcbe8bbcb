"""Files of text: what is to be translated changes, and nothing else."""

import re
import time

import pytest

from weft.serving.document_parts import Inline, Original
from weft.serving.documents import read_document
from weft.serving.refusals import Refused


def written(name: str, content: str) -> str:
    document = read_document(name, content.encode())
    return document.write([capitals(text) for text in document.texts]).decode()


def capitals(text: str) -> str:
    """But for marks of our own."""
    return re.sub(r"(</?x+0\d+/?>|\{x+0\d+\})|(.)", lambda found: found[1] or found[2].upper(), text)


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ("\u3000\u3000\n第一行。\n第二行。\n", ["第一行。第二行。"]),
        ("> \u3000\n> 第一行。\n> 第二行。\n\nx\n", ["第一行。第二行。", "x"]),
        ("- \u00a0\n  one\n- two\n", ["one", "two"]),
        ("one\n\u3000\n", ["one"]),
        ("Mail <a@b.cn>.  \n电话：123。  \n地址：北京。\n", ["Mail {x00}.", "电话：123。", "地址：北京。"]),
        ("![一只猫](cat.png)\n\nx\n", ["x"]),
        ("`code`\n", []),
    ],
)
def test_no_line_of_markdown_is_lost_or_joined_where_it_ends(content: str, texts: list[str]) -> None:
    document = read_document("a.md", content.encode())
    assert document.texts == texts
    rewritten = re.sub(r"\n(?=第二)", "", content)  # lines of one text are joined
    rewritten = rewritten.replace("\n> 第二", "第二")
    assert document.write(texts).decode() == rewritten


def test_plain_text_keeps_its_lines_and_what_indents_them() -> None:
    assert written("a.txt", "one\r\n\r\n  two  \n\n\nthree") == "ONE\r\n\r\n  TWO  \n\n\nTHREE"


def test_subtitles_keep_their_times_and_a_caption_is_one_text() -> None:
    before = "1\n00:00:01,000 --> 00:00:02,500\none\ntwo\n\n2\n00:00:03,000 --> 00:00:04,000 X1:40\n<i>three</i>\n"
    document = read_document("a.SRT", before.encode())
    assert document.texts == ["one two", "<i>three</i>"]
    after = "1\n00:00:01,000 --> 00:00:02,500\nA\n\n2\n00:00:03,000 --> 00:00:04,000 X1:40\nB\n"
    assert document.write(["A", "B"]).decode() == after


def test_cues_without_a_line_between_them_are_cues() -> None:
    times = "00:00:0{0},000 --> 00:00:0{0},500\n".format
    before = f"1\n{times(1)}one\n42\n2\n{times(2)}3\n{times(3)}two\nthree\n{times(4)}four"
    document = read_document("a.srt", before.encode())
    assert document.texts == ["one 42", "two three", "four"]
    after = f"1\n{times(1)}A\n2\n{times(2)}3\n{times(3)}B\n{times(4)}C"
    assert document.write(["A", "B", "C"]).decode() == after


def test_places_on_the_screen_stay_and_are_not_translated() -> None:
    times = "00:00:01,000 --> 00:00:02,500"
    before = f"1\n{times}\n{{\\an8}}one {{\\i1}}two{{\\i0}}\n{{three}}\n\n2\n{times}\n{{\\an8}}\n"
    document = read_document("a.srt", before.encode())
    assert document.texts == ["<x00/>one <x01/>two<x02/> {three}"]
    assert written("a.srt", before) == before.replace("one", "ONE").replace("two", "TWO").replace(
        "\n{three}", " {THREE}"
    )


TIME = "00:00:01,000 --> 00:00:02,000"


@pytest.mark.parametrize(
    ("times", "unclear"),
    [
        ("00:00:05 --> 00:00:06", 0),
        ("00:05,000 --> 00:06,000", 0),
        ("00:00:05.000 -> 00:00:06.000", 0),
        ("00：00：05，000 --> 00：00：06，000", 0),
        ("0:0:5,1 → 0:0:6,2  X1:40 X2:600", 0),
        ("00:00:05,000—>00:00:06,000", 0),
        ("00:00:05,000  00:00:06,000", 1),
        ("00:00:05,000", 1),
        ("--> 00:00:06,000", 1),
    ],
)
def test_a_line_of_times_in_another_form_is_no_text_and_loses_none(times: str, unclear: int) -> None:
    before = f"1\n{TIME}\none\n\n2\n{times}\ntwo\n"
    document = read_document("a.srt", before.encode())
    assert (document.texts, document.unclear) == (["one", "two"], unclear)
    assert written("a.srt", before) == before.replace("one", "ONE").replace("two", "TWO")


@pytest.mark.parametrize(
    ("caption", "texts"),
    [
        ("- one\n- two", ["one", "two"]),
        ("-one\n-two\nthree", ["one", "two three"]),
        ("– one\n— two", ["one", "two"]),
        ("<i>- one</i>\n{\\an8}- two", ["one</i>", "two"]),
        (">> one\n>> two", ["one", "two"]),
        ("one\n- two", ["one", "two"]),
        ("one\n\ntwo", ["one", "two"]),
        ("one\n\n\ntwo\nthree\n", ["one", "two three"]),
        ("42\n\none", ["42", "one"]),
        ("- ", ["-"]),
    ],
)
def test_every_speaker_is_a_text_and_no_line_is_left_out(caption: str, texts: list[str]) -> None:
    before = f"one more\n1\n{TIME}\n{caption}\n\n2\n{TIME}\nlast"
    document = read_document("a.srt", before.encode())
    assert list(document.texts) == ["one more", *texts, "last"] and document.unclear == 0
    if "<" not in caption:
        assert written("a.srt", before).split() == before.upper().split()


@pytest.mark.parametrize(
    ("name", "content", "passed", "unclear"),
    [
        ("a.md", "---\ntitle: x\n---\n# one\n\n```\ncode\n```\n", 2, 0),
        ("a.md", "# one\n\ntwo\n\n- three\n", 0, 0),
        ("a.md", "one\n\n<pre>code</pre>\n", 1, 0),
        ("a.md", "<div>\n<p>one</p><pre>code\ncode</pre>\n</div>\n", 1, 0),
        ("a.md", "one\n\n<div translate=no>text\n", 0, 1),
        ("a.html", "<p>one</p><pre>code</pre><p translate='no'>two</p><script>x</script><style>y</style>", 2, 0),
        ("a.html", "<p>one <code>two</code></p>", 0, 0),
        ("a.txt", "one\n\n--\n", 0, 0),
    ],
)
def test_what_is_not_to_be_translated_is_counted(name: str, content: str, passed: int, unclear: int) -> None:
    document = read_document(name, content.encode())
    assert (document.passed, document.unclear) == (passed, unclear)


MARKDOWN = """\
---
title: one
---
# One *two* three

Some `code` and a [link](https://x.y "t") and ![image](a.png)
on two lines, **bold**, snake_case and 2 * 3.

- item
- [ ] to **do**
  1. nested

| a | b |
|---|:-:|
| cell | `c` |

> quoted

```python
x = "one"
```

    indented code

Title
=====

[name]: https://x.y
"""


def test_markdown_keeps_its_marks_its_code_and_its_links() -> None:
    after = written("a.md", MARKDOWN)
    kept = [
        "title: one",
        "`code`",
        '](https://x.y "t")',
        "![image](a.png)",
        'x = "one"',
        "    indented code",
        "[name]:",
    ]
    assert [part for part in kept if part not in after] == []
    lines = ["# ONE *TWO* THREE", "- ITEM", "- [ ] TO **DO**", "  1. NESTED", "| A | B |", "| CELL | `c` |", "> QUOTED"]
    assert [line for line in lines if f"\n{line}\n" not in after] == []
    assert "A [LINK]" in after and "ON TWO LINES, **BOLD**, SNAKE_CASE AND 2 * 3." in after


@pytest.mark.parametrize(
    "content",
    [
        "> a\n>\n> ```sh\n> code\n> ```\n> a\n",
        "> ```\n> code\na\n",  # a quotation that ends takes its code along
        "> > ~~~\n> > code\n> > ~~~\na\n",
        "```\ncode\n> ```\ncode\n```\na\n",
        "- ```\n  code\n  ```\na\n",
        "10. a\n    ```\n    code\n    ```\n\na\n",
        "    ```\na\n",
        "```make```\n\na\n",
        "a ``code ` | code | code`` a\n",
        "| a | `code | code` | a |\n",
        "[`code`](code) a\n",
        "---\n\na\n",
        "---\ncode: code\n---\n\na\n---\n",
    ],
)
def test_code_stays_wherever_it_stands_and_hides_nothing_else(content: str) -> None:
    assert written("a.md", content) == re.sub(r"\ba\b", "A", content)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        # marks within a text are told from signs
        ("我有*两个*a。", "我有*两个*A。"),
        ("**我有**两个*a*。", "**我有**两个*A*。"),
        ("a *b a", "A *B A"),  # closed by nothing
        ("2 * a * 2, snake_case_a", "2 * A * 2, SNAKE_CASE_A"),
        ("*a **b* a**", "*A **B* A**"),
        (r"a \*b\* a\_b a\[b\]", r"A \*B\* A\_B A\[B\]"),
        (r"a\. a", r"A\. A"),
        ("[a][] a\n\n[a]: http://x.y", "[A][a] A\n\n[a]: http://x.y"),
        ("[A B] a [c] a\n\n> [a  b]: <http://x.y>", "[A B][A B] A [C] A\n\n> [a  b]: <http://x.y>"),
        ("[`c`] a\n\n[`c`]: http://x.y", "[`c`][`c`] A\n\n[`c`]: http://x.y"),
        ("[a][b] a\n\n[b]: http://x.y", "[A][b] A\n\n[b]: http://x.y"),
        ("a[^one] a\n\n[^one]: a\n\n    a\n\n        code", "A[^one] A\n\n[^one]: A\n\n    A\n\n        code"),
        ("***a*** a***b*a**", "***A*** A***B*A**"),
        ("a__b__a _(_a) a _a", "A__B__A _(_A) A _A"),
        (r"1\. a", r"1\. A"),
        (r"\- a", r"\- A"),
        ("a <https://x.y/a> a <me@x.y> a < b", "A <https://x.y/a> A <me@x.y> A < B"),
        ("a | b\n--- | ---\nc | a\n\na | b", "A | B\n--- | ---\nC | A\n\nA | B"),
        ("> a | b\n> :-: | -\n> `|` a | b\n", "> A | B\n> :-: | -\n> `|` A | B\n"),
        # a label is kept where it is defined
        ("[Note]: a b", "[NOTE]: A B"),
        ('[a]:b\n[c]: <d e> "f"\n\n[a] [c]', '[a]:b\n[c]: <d e> "f"\n\n[A][a] [C][c]'),
        ("```\n[a]: b\n```\n\n[a]", "```\n[a]: b\n```\n\n[A]"),
        ("a\n[b]: c\n\n[b]", "A [B]: C\n\n[B]"),
        # blocks of HTML are read as HTML
        ("<div>\na <b>a</b>\n\n</div>\na", "<div>\nA <b>A</b>\n\n</div>\nA"),
        ("> <p title='x'>\n> a & a\n> </p>\n>\n> a", "> <p title='x'>\n> A &amp; A\n> </p>\n>\n> A"),
        ("- <details>\n  <summary>a</summary>\n\n  a", "- <details>\n  <summary>A</summary>\n\n  A"),
        ("1. x\n\n\t<p>a</p>\n", "1. X\n\n\t<p>A</p>\n"),
    ],
)
def test_the_words_of_markdown_change_and_its_marks_stay(content: str, expected: str) -> None:
    assert written("a.md", content) == expected


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        # a block ends where it ends, and its marks are no text
        ("# a #\n## 标题 ##  \n# C#\n###\n", ["a", "标题", "C#"]),
        ("a\n***\nb\n___\nc\n* * *\n> d\n***\n", ["a", "b", "c", "d"]),
        ("a\nb\n===\nc\n---\n", ["a b", "c"]),
        ("1. a\n2.\n3. b\n*\n* c\n", ["a", "b", "c"]),
        ("我有两个\n苹果，\n> 他有 a\n> 三个。", ["我有两个苹果，", "他有 a 三个。"]),
        # a cell of a table without outer borders is a text; pipes in code make no table
        ("a | b\n--- | ---\nc | d\n\ne | f", ["a", "b", "c", "d", "e | f"]),
        ("运行 `cat a.txt | grep 词 | wc -l` 来计数。", ["运行 {x00} 来计数。"]),
        # the lines of a paragraph are one text
        ("one\ntwo\n\nthree\n", ["one two", "three"]),
        # emphasis may end between punctuation and a letter
        ("**注意：**请坐", ["<x00>注意：</x00>请坐"]),
        # a line break in a link or code and an escaped backslash end no text
        ("See [the  \nguide](https://x.y) now.", ["See <x00>the guide</x00> now."]),
        ("Call `f(a,  \nb)` now.", ["Call {x00} now."]),
        ("path C:\\\\\nb", ["path C:{x00} b"]),
    ],
)
def test_markdown_is_cut_where_its_texts_end(content: str, texts: list[str]) -> None:
    assert read_document("a.md", content.encode()).texts == texts


def test_emphasis_by_underscores_is_emphasis_in_chinese_too() -> None:
    document = read_document("a.md", b"I _have_ __two__ `_` apples_.")
    text = "I <x00>have</x00> <x02>two</x02> {x04} apples_."
    assert document.texts == [text]
    assert document.write([text]).decode() == "I _have_ __two__ `_` apples_."
    assert document.write(["我<x00>有</x00><x02>两个</x02>{x04}苹果_。"]).decode() == "我*有***两个**`_`苹果_。"


LISTS = """\
- one

  two
  three

      code

  - four

    five
- six

1. seven

   eight
      nine

        code

ten

    code

> eleven
> twelve
>
> - thirteen
>
>   fourteen
>
>       code

# fifteen
sixteen
"""


def test_a_block_stays_in_the_item_of_a_list_that_it_stands_in() -> None:
    after = written("a.md", LISTS)
    expected = re.sub(r"\b(?!code\b)[a-z]+", lambda found: found[0].upper(), LISTS)
    for line, next_line in (("TWO", "  THREE"), ("EIGHT", "      NINE"), ("ELEVEN", "> TWELVE")):
        expected = expected.replace(f"{line}\n{next_line}", f"{line} {next_line.strip('> ')}")
    assert after == expected


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        # targets of links are not translated
        ("[![构建](badge.svg)](docs/build.md) 你好", ["<x00>{x01}</x00> 你好"]),
        ("[![a][b]][c] d", ["<x00>{x01}</x00> d"]),
        ("[维基](wiki/Foo_(bar).md) 和 ![图](a_(b).png)", ["<x00>维基</x00> 和 {x02}"]),
        ('[a](b_(c)_d "e") [f](g)', ["<x00>a</x00> <x02>f</x02>"]),
        ("[a **b** `c`](d)", ["<x00>a <x01>b</x01> {x03}</x00>"]),
        ("[](a/b) c", ["<x00></x00> c"]),
        ("[a](b 'c d') ![e](<f g.png>)", ["<x00>a</x00> {x02}"]),
        ("[a](<b (c>) d", ["<x00>a</x00> d"]),
        ("a](b) [c", ["a](b) [c"]),
        ("[[1]](a) [b [c] d](e)", ["<x00>[1]</x00> <x02>b [c] d</x02>"]),
        ("[a](b (c d)) ![e](f (g))", ["<x00>a</x00> {x02}"]),
        (r'[a](b\(c "d \" e") f', ["<x00>a</x00> f"]),
        ("[a]( b ) c", ["<x00>a</x00> c"]),
        ("![a [b] c](d) ![a [b](c)](d) e", ["{x00} {x01} e"]),
        ('<img src="a/__b__.png"> *a* <!-- [c](d) -->', ['<img src="a/__b__.png"> <x00>a</x00> <!-- [c](d) -->']),
        ('[<img title="]">](a) b', ['<x00><img title="]"></x00> b']),
        # HTML that is no text and front matter stay, but not what follows
        ("<pre>\nline one\n\nline two\n</pre>\nb\n", ["b"]),
        ("a\n<!-- c\n\nd -->\nb", ["a", "b"]),
        ("<script>\nvar a;\n\nvar b;</SCRIPT>\nb", ["b"]),
        ("> <style>a {}</style>\n> b", ["b"]),
        ("<pre a=b>c</pre>\nb", ["b"]),
        ("<prefix> b", ["<prefix> b"]),
        ("<!-- never closed\n\nb", []),
        ("> <!-- open\n\na\n\nb", ["a", "b"]),
        ("- a\n\n  <pre>\n  x\n\nb\n", ["a", "b"]),
        ("<!-- note --> a\n<!--\nnote\n--> b", ["a", "b"]),
        ("+++\ntitle = 'x'\n+++\nb", ["b"]),
        # a hard line break ends a text and stays
        ("a  \nb\\\nc  \n", ["a", "b", "c"]),
        ("- a  \n  b\n- c \n\nd\\", ["a", "b", "c", "d"]),
        ("# a  \nb\n", ["a", "b"]),
        ("a  \n    b\\\n    c\n", ["a", "b", "c"]),
        ("a  \n    1. b\n    2. c\n", ["a", "b", "c"]),
    ],
)
def test_markdown_stays_around_its_texts(content: str, texts: list[str]) -> None:
    document = read_document("a.md", content.encode())
    assert document.texts == texts
    assert document.write(texts).decode() == content


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.html", "a.srt"])
def test_a_byte_order_mark_stays_and_is_no_text(name: str) -> None:
    before = "\ufeff1\n00:00:01,000 --> 00:00:02,500\n" if name == "a.srt" else "\ufeff"
    document = read_document(name, f"{before}one".encode())
    assert [text.strip() for text in document.texts] == ["one"]
    assert document.write(document.texts).decode() == f"{before}one"


def test_a_mark_that_a_translation_has_twice_is_put_back_once() -> None:
    inline = Inline.of([Original("<b>", "begin"), "a", Original("</b>", "end")])
    assert inline.restore("<x00>A</x00><x00>") == ["", Original("<b>", "begin"), "A", Original("</b>", "end"), "<x00>"]


def test_marks_of_our_own_are_no_text_of_the_file() -> None:
    inline = Inline.of(["x00 {x00} ", Original("`c`", "word"), " xx0"])
    assert inline.text == "x00 {x00} {xxx00} xx0"
    assert inline.restore("A {xxx00} B")[1] == Original("`c`", "word")


def test_a_text_that_has_the_form_of_a_mark_stays() -> None:
    inline = Inline.of(["a ", Original("<b>", "begin")])
    assert inline.restore("<y00> <x00> <x01> {x00}") == ["<y00> ", Original("<b>", "begin"), " <x01> {x00}"]


def test_marks_are_short_however_many_x_the_text_has() -> None:
    text = "x" * 50_000 + "0 aaaaa0"
    inline = Inline.of([text, *[Original("<b>", "begin")] * 1000])
    assert inline.text.startswith(f"{text}<aaaab00><aaaab01>") and len(inline.text) < len(text) + 15_000
    assert len(inline.restore(inline.text)) == 2001


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.srt", "a.html"])
def test_a_file_that_is_not_utf_8_is_refused_with_the_place(name: str) -> None:
    with pytest.raises(Refused, match="byte 0xff at 3"):
        read_document(name, b"ab\xff")


@pytest.mark.parametrize("encoding", ["gb18030", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.txt", "你好，我的朋友。\n"),
        ("a.md", "# 你好，我的朋友。\n"),
        ("a.srt", "1\n00:00:01,000 --> 00:00:02,000\n你好，我的朋友。\n"),
        ("a.html", "<html><head><meta charset='GBK'></head><p>你好，我的朋友。</p></html>"),
        ("a.htm", '<meta http-equiv="Content-Type" content="text/html; charset=gb2312"><p>你好，我的朋友。</p>'),
    ],
)
def test_a_file_in_an_older_encoding_is_written_in_utf_8(name: str, text: str, encoding: str) -> None:
    document = read_document(name, text.encode(encoding))
    assert "你好，我的朋友。" in "".join(document.texts)
    assert document.write(document.texts).decode() == re.sub("GBK|gb2312", "utf-8", text)


@pytest.mark.parametrize("declared", ["iso-8859-1", '"windows-1252"', "UTF-8", "'utf-8'"])
def test_a_page_in_ascii_declares_what_its_translation_is_written_in(declared: str) -> None:
    document = read_document("a.html", f"<meta charset={declared}><p>Hello</p>".encode())
    written = document.write([text.replace("Hello", "你好") for text in document.texts]).decode()
    assert written == f"<meta charset={re.sub('iso-8859-1|windows-1252', 'utf-8', declared)}><p>你好</p>"
    page = "<meta charset=utf-8><!-- <meta charset=gb2312> --><p>你好</p>"
    document = read_document("a.html", page.encode())
    assert document.write(document.texts).decode() == page


HOSTILE = [
    *("*", "_", "_a ", "~~", "`a", "| ", "> ", "> - ", "- ", "#", "{\\", "\0", "x0 *", "\n```\n", "1. "),
    *("[", "[a", "![", "![a", "![a](", "[a](", "[a]((", "[a](b ", '[a](b "', "[a](b(c)", "[a][", "[![", "[![a](b)"),
    *("[a[b]", "[b]a", "[^", "[^a]: ", "[a]: b (", "[a](b (", "[a]( ", "***a ", "_a*", "**a*", "# ", "#", "<a ", "\\("),
    *("[a](b)", "![a](b)", "[![a](b)](c)", "(b)", "``` ` ", "[a](`", "]", "](", "[a]: "),
    *(
        "![a](<b>)",
        "[![a](<b>)",
        "[a](<b",
        "[a](<b> '",
        "[a](<",
        "<!--",
        "<pre>",
        "a  \n",
        "[  \n",
        "`  \n",
        "a\\\n",
        " ",
    ),
]


SIGNS = 30_000


def seconds_for_markdown(piece: str, begin: str = "", signs: int = SIGNS) -> float:
    content = (begin + piece * (signs // len(piece))).encode()
    began = time.process_time()
    document = read_document("a.md", content)
    document.write(document.texts)
    return time.process_time() - began


def ordinary_seconds() -> float:
    """What as much ordinary Markdown takes on this machine."""
    return seconds_for_markdown("a *b* [c](d) `e`\n")


@pytest.fixture(scope="module")
def ordinary() -> float:
    return min(ordinary_seconds() for _ in range(2))


@pytest.mark.parametrize("begin", ["", "[", "[a]("])
@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_markdown_takes_at_most_three_times_as_long_as_other(piece: str, begin: str, ordinary: float) -> None:
    if seconds_for_markdown(piece, begin, SIGNS // 3) < ordinary / 3:
        return  # three times as many signs are within the bound also where the time grows with their square
    for _ in range(3):
        if seconds_for_markdown(piece, begin) < 3 * ordinary:  # the square of the time would be dozens
            return
        ordinary = ordinary_seconds()  # measured anew, as what else the machine does may slow both
    pytest.fail(f"took longer than 3 times {ordinary:.2f} s three times")


@pytest.mark.parametrize("begin", ["***", "a\n***", "[a]: b", "[a](b", "[a](", "# a", "# a #", "[^a]:"])
def test_spaces_that_a_sign_follows_are_looked_at_once(begin: str) -> None:
    began = time.process_time()
    read_document("a.md", f"{begin}{' ' * 100_000}b".encode())
    assert time.process_time() - began < 2


@pytest.mark.parametrize("content", ["a " + "`" * 200_000 + " b", " ".join("`" * n for n in range(1, 630))])
def test_runs_of_backticks_that_nothing_closes_are_looked_at_once(content: str) -> None:
    began = time.process_time()
    assert read_document("a.md", f"a {content}".encode()).texts == [f"a {content}"]
    assert time.process_time() - began < 2


@pytest.mark.parametrize("content", ["{\\", "{\\a}", "{\\a} b\n", "1\n00:00:01,000 --> 00:00:02,000\n", "0", "x"])
def test_hostile_subtitles_take_no_longer_than_others(content: str) -> None:
    begin = "00:00:01,000 --> 00:00:02,000\n"
    began = time.process_time()
    document = read_document("a.srt", (begin + content * (200_000 // len(content))).encode())
    document.write(document.texts)
    assert time.process_time() - began < 3


def test_marks_are_put_back_in_one_pass_however_many_they_are() -> None:
    began = time.process_time()
    document = read_document("a.html", ("<b>" * 16_000 + "a").encode())
    assert document.write(document.texts).decode() == "<b>" * 16_000 + "a"
    assert time.process_time() - began < 2
