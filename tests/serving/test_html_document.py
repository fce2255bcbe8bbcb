"""HTML: every tag comes out as it went in, and no translation becomes one."""

import asyncio
import html
import re
import threading
import time
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import html as lxml_html
from tests.serving.conftest import MakeService

import weft
from weft.serving import service
from weft.serving.document_parts import Document
from weft.serving.html_document import read_html, slices_of
from weft.serving.translating import TranslationOptions
from weft.translating.passages import PassageTranslator

HOSTILE = "</p><script>alert(1)</script><img src=x onerror=alert(1)>\"'><!--"


def written(page: str, answer: str | None = None) -> str:
    """The page with its texts in capitals, or with something before every text; marks of our own stay."""
    document = read_html(page)
    marks = r"(</?x+0\d+/?>|\{x+0\d+\})|(.)"
    texts = [re.sub(marks, lambda found: found[1] or found[2].upper(), text) for text in document.texts]
    return document.write(texts if answer is None else [f"{answer}{text}" for text in texts]).decode()


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ('<p title="a>b">one <b>two</b> &amp; three</p>', '<p title="a>b">ONE <b>TWO</b> &amp; THREE</p>'),
        ("<h1>one</h1>\n  <ul><li> two </li></ul>", "<h1>ONE</h1>\n  <ul><li> TWO </li></ul>"),
        ("one<br>two<hr/>three", "ONE<br>TWO<hr/>THREE"),
        ("<script>if (a<b) '</p>'</script>one", "<script>if (a<b) '</p>'</script>ONE"),
        ("<SCRIPT>one</Script >two", "<SCRIPT>one</Script >TWO"),
        ("<style>p > b {}</style><!-- one --> two", "<style>p > b {}</style><!-- one --> TWO"),
        ("a <code>x<b>y</b></code> b", "A <code>x<b>y</b></code> B"),
        ("<svg><text>one</text><svg></svg></svg> two", "<svg><text>one</text><svg></svg></svg> TWO"),
        ("<p translate=no>one <i>two</i></p>three", "<p translate=no>one <i>two</i></p>THREE"),
        ("<title>one <b> two</title>", "<title>ONE &lt;B&gt; TWO</title>"),
        ("&lt;script&gt;one&lt;/script&gt;", "&lt;SCRIPT&gt;ONE&lt;/SCRIPT&gt;"),
        ("a < b && c > d", "A &lt; B &amp;&amp; C &gt; D"),
        ("{x00} <i>x0</i> <x00>", "{x00} <i>X0</i> <x00>"),
        ('one <a href="unclosed>two', 'ONE <a href="unclosed>two'),
        ('<a x" y="z>w" >one', '<a x" y="z>w" >ONE'),  # a quotation mark in a name quotes nothing
        ("<!doctype html><?php one ?></ >two", "<!doctype html><?php one ?></ >TWO"),
        ("<!>one<!-->two", "<!>ONE<!-->TWO"),
        (
            "<p> <!-- a --> one <!-- b -->two<!-- c --> <!-- d --></p>",
            "<p> <!-- a --> ONE <!-- b -->TWO<!-- c --> <!-- d --></p>",
        ),
        ("<p>one <svg a=b/ /> two</p><p>three <math/></p>four", "<p>ONE <svg a=b/ /> TWO</p><p>THREE <math/></p>FOUR"),
        ("<svg><style/><title/></svg><p>one</p>", "<svg><style/><title/></svg><p>ONE</p>"),
        ("<p>one <svg a=b/> two</svg> three</p>", "<p>ONE <svg a=b/> two</svg> THREE</p>"),
        ("<p>a&nbsp;b \n c</p>", "<p>A\u00a0B C</p>"),
        ("<p>\u3000\u3000a\u00a0</p>", "<p>\u3000\u3000A\u00a0</p>"),
        ("", ""),
        ("<p></p> \n", "<p></p> \n"),
    ],
)
def test_text_changes_and_nothing_else(page: str, expected: str) -> None:
    assert "".join(piece.raw for piece in slices_of(page)) == page
    assert written(page) == expected


PIECES = st.sampled_from(
    [
        *("<p>", "</p>", "<b>", "</b>", '<a href="x>y">', "</a>", "<br>", "<img src=x onerror=alert(1)>"),
        *("<script>", "</script>", "<!--", "-->", "<![CDATA[", "]]>", "<svg>", "</svg>", "<title>", "</title>"),
        *("<textarea>", "</textarea>", "one ", "two. ", "三。", "{x00}", "<x00/>", "x0", "<a b='", "<x", "<noscript>"),
        *("<", ">", "&lt;", "&amp;", '"', "\n", "&"),
    ]
)


def test_an_element_that_is_not_translated_and_never_closed_is_counted_as_not_understood() -> None:
    document = read_html("<p>one</p><ul><li translate=no>two<li>three</ul><p>four")
    assert (document.texts, document.unclear) == (["one"], 1)


@pytest.mark.parametrize(
    ("page", "texts"),
    [
        ("<li>Run this:<pre>ls -l</pre>Then restart.</li>", ["Run this:", "Then restart."]),
        ("<label>Name</label><input><label>Age</label><input>", ["Name", "Age"]),
        ("<input type=checkbox>Remember me<input type=checkbox>Send me news", ["Remember me", "Send me news"]),
        ("<ruby>汉<rt>hàn</rt>字<rt>zì</rt></ruby>很难。", ["<x00>汉<x01/>字<x02/></x00>很难。"]),
        ("<ruby>漢<rt>kan</ruby>字。 more", ["<x00>漢<x01>kan</x02>字。 more"]),  # no end tag: it stays text
    ],
)
def test_what_stands_beside_a_sentence_ends_it_and_how_a_word_is_read_is_not_its_text(
    page: str, texts: list[str]
) -> None:
    document = read_html(page)
    assert document.texts == texts and document.write(texts).decode() == page


def test_an_element_is_one_in_the_text_too_where_tags_nest() -> None:
    page = "<p>the <b class=x>red <i>app</i>le</b> <a href=y>fell</A> <b><i>down</b></i></p>"
    (text,) = read_html(page).texts
    assert text == "the <x00>red <x01>app</x01>le</x00> <x04>fell</x04> <x06><x07>down</x08></x07>"


def test_tags_go_around_the_words_that_translate_theirs() -> None:
    passages = PassageTranslator(weft.load("zh-en"), keeps_markup=True)
    document = read_html("<p>我<b>昨天</b>买了<i>三本书</i>。</p>")
    (translation,) = passages.translate(document.texts)
    page = document.write([translation.text]).decode()
    assert "<i>three books</i>" in page and "<b>yesterday</b>" in page


def test_a_comment_tears_no_sentence() -> None:
    page = "<p>I have <!-- -->three<!-- --> apples.<!-- end --></p>"
    assert read_html(page).texts == ["I have <x00/>three<x01/> apples."]


@settings(max_examples=300)
@given(st.lists(PIECES, max_size=20).map("".join))
def test_whatever_the_translation_is_the_page_has_the_tags_that_it_had(page: str) -> None:
    raw = [piece.raw for piece in slices_of(page)]
    assert "".join(raw) == page
    tags = Counter(piece.raw for piece in slices_of(page) if piece.kind != "text")
    spoiled = written(page, HOSTILE)
    assert Counter(piece.raw for piece in slices_of(spoiled) if piece.kind != "text") == tags


@settings(max_examples=100)
@given(st.lists(PIECES, max_size=20).map("".join))
def test_a_browsers_parser_finds_no_element_that_was_not_there(page: str) -> None:
    def elements(text: str) -> Counter[str]:
        tree = lxml_html.fromstring(f"<div>{text}</div>")
        return Counter(
            f"{node.tag} {sorted(node.attrib.items())}" for node in tree.iter() if node.tag in ("script", "img", "a")
        )

    assert elements(written(page, html.unescape("&lt;script&gt;x&lt;/script&gt;<img src=y>"))) == elements(page)


def seconds_for_html(page: str) -> float:
    began = time.process_time()
    read_html(page)
    return time.process_time() - began


@pytest.fixture(scope="module")
def ordinary_seconds() -> float:
    """What a page of many paragraphs takes on this machine."""
    return seconds_for_html("<p>a <b>b</b></p>\n" * 30_000)  # twice as much: the clock of a machine may swing


@pytest.mark.parametrize(
    "piece", ["<!--", '<a "', '<a b="', "<svg>", "<", "a<b>", "<title>", "</", "<!", "&", "<a =b "]
)
def test_a_hostile_page_takes_no_longer_than_another(piece: str, ordinary_seconds: float) -> None:
    assert seconds_for_html(piece * 50_000) < ordinary_seconds  # the square of the time would be thousands


def test_the_server_answers_others_while_a_page_is_written(
    make_service: MakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []

    def write(texts: Sequence[str]) -> bytes:
        threads.append(threading.current_thread())
        return "".join(texts).encode()

    monkeypatch.setattr(service, "read_html", lambda page: Document([page], write))
    serving = make_service()
    model = serving.model_between("zh", "en")
    answers = asyncio.run(serving.translate(model, ["a", "b"], TranslationOptions(best=2), form="html"))
    assert [answer.ranked for answer in answers] == [("A", "A'"), ("B", "B'")]
    assert len(threads) == 4 and threading.main_thread() not in threads
