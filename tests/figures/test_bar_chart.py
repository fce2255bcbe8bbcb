"""Bars are as long as their numbers, and each number stands beside its bar."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

from weft.figures.bar_chart import bar_chart
from weft.figures.svg import text_width

SERIES = [("references", [10, 40, 0]), ("translations", [20, None, 5])]


def draw(categories=("a", "b", "c"), **options) -> str:
    return bar_chart(SERIES, categories, title="Lengths", label="sentences", **options)


def test_bars_are_in_proportion_and_have_their_number_beside_them() -> None:
    svg = draw()
    widths = [
        float(width) for width in re.findall(r'<rect class="point s[01]" x="[^"]*" y="[^"]*" width="([^"]*)"', svg)
    ]
    *_, ten, twenty, forty, zero, five = widths  # before them those of the legend
    assert (twenty, forty, zero) == (pytest.approx(2 * ten, abs=0.2), pytest.approx(4 * ten, abs=0.2), 0)
    assert five == pytest.approx(ten / 2, abs=0.2)
    assert re.findall(r">(\d+)</text>", svg) == ["10", "20", "40", "0", "5"]


def test_no_bar_and_no_number_leaves_the_figure() -> None:
    root = ElementTree.fromstring(draw(("很长的类别名称" * 9, "b", "c"), width=430))
    bars = root.findall(".//{*}rect")
    for bar in bars:
        assert float(bar.get("x") or 0) + float(bar.get("width") or 0) <= 430
    numbers = [text for text in root.iterfind(".//{*}text") if (text.text or "").isdigit()]
    assert bars and numbers and all(float(each.get("x") or 0) + text_width(each.text or "") <= 430 for each in numbers)


def test_readers_who_cannot_see_it_are_told_every_number() -> None:
    description = ElementTree.fromstring(draw()).findtext("{*}desc") or ""
    assert (
        description
        == "sentences; a: references 10, translations 20; b: references 40; c: references 0, translations 5."
    )


def test_names_are_never_markup_and_numbers_are_as_many_as_categories() -> None:
    assert "<b>" not in draw(("<b>", "b\x00", "c"))
    with pytest.raises(ValueError, match="as many numbers"):
        draw(("a", "b"))


def test_bars_of_nothing_are_a_figure_too() -> None:
    assert ElementTree.fromstring(bar_chart([("", [0, 0])], ("a", "b"), title="t", label="l")) is not None
    assert ElementTree.fromstring(bar_chart([], (), title="t", label="l")) is not None
