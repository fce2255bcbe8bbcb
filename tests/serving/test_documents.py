"""Files of text: what is to be translated changes, and nothing else."""

import re
import time

import pytest

from weft.serving.documents import Inline, Original, read_document
from weft.serving.refusals import Refused


def written(name: str, content: str) -> str:
    document = read_document(name, content.encode())
    return document.write([capitals(text) for text in document.texts]).decode()


def capitals(text: str) -> str:
    """But for marks of our own."""
    return re.sub(r"(</?x+0\d+/?>|\{x+0\d+\})|(.)", lambda found: found[1] or found[2].upper(), text)


def test_plain_text_keeps_its_lines_and_what_indents_them() -> None:
    assert written("a.txt", "one\r\n\r\n  two  \n\n\nthree") == "ONE\r\n\r\n  TWO  \n\n\nTHREE"


def test_subtitles_keep_their_times_and_a_caption_is_one_text() -> None:
    before = "1\n00:00:01,000 --> 00:00:02,500\none\ntwo\n\n2\n00:00:03,000 --> 00:00:04,000 X1:40\n<i>three</i>\n"
    document = read_document("a.SRT", before.encode())
    assert document.texts == ["one two", "<i>three</i>"]
    after = "1\n00:00:01,000 --> 00:00:02,500\nA\n\n2\n00:00:03,000 --> 00:00:04,000 X1:40\nB\n"
    assert document.write(["A", "B"]).decode() == after


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
    for line in (
        "# ONE *TWO* THREE",
        "- ITEM",
        "- [ ] TO **DO**",
        "  1. NESTED",
        "| A | B |",
        "| CELL | `c` |",
        "> QUOTED",
    ):
        assert f"\n{line}\n" in after
    assert "A [LINK]" in after and "ON TWO LINES, **BOLD**, SNAKE_CASE AND 2 * 3." in after


def test_the_lines_of_a_paragraph_are_one_text() -> None:
    assert read_document("a.md", b"one\ntwo\n\nthree\n").texts == ["one two", "three"]


def test_an_html_file_is_read_as_html() -> None:
    assert written("a.html", "<p>one<script>two</script></p>") == "<p>ONE<script>two</script></p>"


def test_marks_of_our_own_are_no_text_of_the_file() -> None:
    inline = Inline.of(["x00 {x00} ", Original("`c`", "word"), " xx0"])
    assert inline.text == "x00 {x00} {xxx00} xx0"
    assert inline.restore("A {xxx00} B")[1] == Original("`c`", "word")


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.srt", "a.html"])
def test_a_file_that_is_not_utf_8_is_refused_with_the_place(name: str) -> None:
    with pytest.raises(Refused, match="byte 0xff at 3"):
        read_document(name, b"ab\xff")


@pytest.mark.parametrize(
    "content", ["*" * 50_000, "`a" * 20_000, "[a" * 20_000, "_a " * 20_000, "| " * 20_000, "> " * 20_000]
)
def test_hostile_markdown_takes_no_longer_than_other(content: str) -> None:
    began = time.monotonic()
    read_document("a.md", content.encode())
    assert time.monotonic() - began < 3
