"""Explanations to read: what stands in the text and on the page is what was measured."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from weft.analysis.explanation_report import as_html, as_text, figures_of, minus, percent
from weft.decoding.beam_tree import Node
from weft.evaluating.explanation import Choice, Explanation, Link, Variant
from weft.text.word_ranges import WordRange


@pytest.fixture
def explained() -> Explanation:
    """A made-up one: "好 <b>" becomes "Good ."."""
    heads = np.zeros((2, 2, 3, 3), dtype=np.float32)
    heads[0, :, :, 0] = 1.0
    heads[1, :, :, 1] = 1.0
    return Explanation(
        source="好 <b>",
        text="Good.",
        score=-0.25,
        log_prob=-0.75,
        source_pieces=("▁好", "▁<b>", "</s>"),
        target_pieces=("▁Good", ".", "</s>"),
        log_probs=(-0.5, -0.25, -0.001),
        alternatives=(
            (Choice("▁Good", -0.5), Choice("▁<i>", -1.2)),
            (Choice(".", -0.25), Choice("!", -2.0)),
            (Choice("</s>", -0.001), Choice("▁", -9.0)),
        ),
        heads=heads,
        layer=1,
        source_words=(WordRange("好", 0, 0), WordRange("<b>", 1, 1)),
        target_words=(WordRange("Good", 0, 0), WordRange(".", 1, 1)),
        alignment=(Link(0, 0, 3.25), Link(1, 1, 0.75)),
        occlusion=((3.25, -0.5), (0.01, 0.75)),
        beam=(
            Node(0, None, 0, 2, 0.0, "best"),
            Node(1, 0, 1, 5, -0.5, "best"),
            Node(2, 0, 1, 6, -1.2, "kept"),
            Node(3, 1, 2, 7, -0.7, "best"),
            Node(4, 2, 2, 3, -1.9, "finished"),
            Node(5, 1, 2, 8, -4.0, "dropped"),
            Node(6, 3, 3, 3, -0.75, "best"),
        ),
        beam_pieces=("<s>", "▁Good", "▁<i>", ".", "</s>", "!", "</s>"),
        without=(Variant("好", "B.", -0.2), Variant("<b>", "Good.", -0.3)),
        self_attention={"source": np.full((1, 2, 3, 3), 1 / 3), "target": np.tri(3)[None, None] / 3},
    )


def test_the_text_by_hand(explained: Explanation) -> None:
    assert (
        as_text(explained)
        == """\
source       好 <b>
translation  Good.
log-probability −0.75, score −0.250

piece    %  instead
▁Good   61  ▁<i> 30
.       78  ! 14
</s>   100  ▁ <0.1

word  comes from  looks at    %  loses without it, in nats
Good  好          好        100  好 3.2
.     <b>         好        100  <b> 0.8

without 好: B. (score −0.20 in place of −0.25)

The beam, hypotheses indented below those they extend
*    0.00  <s>
*   −0.75    ▁Good . </s>
+   −1.90    ▁<i> </s>
* is the translation, + another finished hypothesis;
figures are log-probabilities up to the end of the line"""
    )


def test_a_beam_that_branches_at_every_step_is_a_text_too(explained: Explanation) -> None:
    beam, last = [Node(0, None, 0, 2, 0.0, "best")], 0
    for step in range(1, 2000):
        beam += [Node(2 * step - 1, last, step, 5, -0.1, "best"), Node(2 * step, last, step, 6, -0.2, "kept")]
        last = 2 * step - 1
    text = as_text(replace(explained, beam=tuple(beam), beam_pieces=("x",) * len(beam)))
    assert sum(line.endswith(" x") for line in text.splitlines()) == len(beam)


def test_without_occlusion_and_search_the_text_tells_the_rest(explained: Explanation) -> None:
    text = as_text(replace(explained, occlusion=(), beam=(), beam_pieces=()))
    assert "looks at" in text and "loses" not in text and "beam" not in text


def test_no_text_steers_a_terminal(explained: Explanation) -> None:
    assert "\x1b" not in as_text(replace(explained, source="\x1b[2J", target_words=(WordRange("\x1b[1m", 0, 1),)))


class Page(HTMLParser):
    """The tags of a page that are open at its end, and its headings."""

    VOID = frozenset({"meta", "br"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.headings: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list) -> None:
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("h1", "h2", "h3"):
            self.headings.append(data)


def test_the_page_holds_every_part_of_every_sentence(explained: Explanation) -> None:
    page = Page(as_html([explained, replace(explained, source="二")], "runs/mine"))
    parts = ["At every step", "Attention and alignment", "Effect of each source word", "The beam"]
    assert page.headings == ["2 sentences explained", "1. 好 <b>", *parts, "2. 二", *parts]
    assert page.open == []


def test_the_page_needs_no_network_and_no_script_and_runs_no_text(explained: Explanation) -> None:
    hostile = "<script>alert(1)</script>"
    page = as_html([replace(explained, source=hostile, text=hostile)], hostile)
    assert "<script" not in page
    assert not re.search(r"(?:src|href)=|url\(|@import|http(?!://www\.w3\.org/2000/svg)", page)
    assert Page(page).headings[1] == f"1. {hostile}"


def test_the_page_leaves_out_what_was_not_measured(explained: Explanation) -> None:
    headings = Page(as_html([replace(explained, occlusion=(), beam=(), beam_pieces=())], "m")).headings
    assert headings == ["One sentence explained", "1. 好 <b>", "At every step", "Attention and alignment"]


def test_an_empty_translation_is_a_page_too(explained: Explanation) -> None:
    empty = replace(
        explained,
        text="",
        target_pieces=("</s>",),
        log_probs=(-0.1,),
        alternatives=explained.alternatives[-1:],
        heads=explained.heads[:, :, :1],
        target_words=(),
        alignment=(),
        occlusion=(),
    )
    assert "looks at" not in as_text(empty)
    assert Page(as_html([empty], "m")).open == []


@pytest.mark.parametrize(
    ("log_prob", "written"), [(0.0, "100"), (-0.1, "90"), (-2.4, "9.1"), (-7.0, "0.1"), (-9.0, "<0.1")]
)
def test_probabilities_are_written_in_hundredths(log_prob: float, written: str) -> None:
    assert percent(log_prob) == written


@pytest.mark.parametrize(("number", "written"), [(-1.25, "−1.2"), (-0.01, "0.0"), (3.0, "3.0")])
def test_a_minus_is_a_minus_and_a_rounded_zero_has_none(number: float, written: str) -> None:
    assert minus(number, 1) == written


def test_every_head_and_mean_has_a_figure(explained: Explanation) -> None:
    figures = figures_of(explained)
    means = {"attention", "occlusion", "beam", "encoder", "decoder"}
    heads = {f"attention-layer{layer}-head{head}" for layer in (1, 2) for head in (1, 2)}
    assert figures.keys() == means | heads | {"encoder-layer1-head1", "encoder-layer1-head2", "decoder-layer1-head1"}
    assert "decoder, layer 1, head 1, in percent" in figures["decoder-layer1-head1"]
    assert "▁&lt;b&gt;" in figures["encoder"] and ">&lt;s&gt;<" in figures["decoder"]
    bare = figures_of(replace(explained, occlusion=(), beam=(), beam_pieces=(), self_attention={}))
    assert bare.keys() == {"attention", *heads}
