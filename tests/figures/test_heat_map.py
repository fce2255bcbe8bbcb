"""A heat map is text: its cells can be read back and measured."""

import itertools
import math
import xml.etree.ElementTree as ElementTree

import pytest

from weft.figures.heat_map import DARKEST, MOST_TIPS, Outline, heat_map

VALUES = [[1.0, 0.25, 0.0], [-0.5, 0.02, 0.5]]


def draw(values=VALUES, rows=("I", "three"), columns=("我", "有三本书", "。"), **options) -> ElementTree.Element:
    """The figure, read by a strict parser, without the namespace in every tag."""
    options = {"write": lambda value: f"{value:.1f}" if value else "", **options}
    labels = {"title": "Attention", "row_label": "target", "column_label": "source"}
    root = ElementTree.fromstring(heat_map(values, rows=rows, columns=columns, **labels, **options))
    for element in root.iter():
        element.tag = element.tag.partition("}")[2]
    return root


def cells(figure: ElementTree.Element) -> list[dict[str, str]]:
    return [rect.attrib for rect in figure.iter("rect") if rect.attrib["class"].startswith("cell")]


def texts(figure: ElementTree.Element, look: str) -> list[str]:
    return [element.text or "" for element in figure.iter("text") if element.get("class") == look]


def test_a_cell_is_as_dark_as_its_value() -> None:
    shades = [float(cell["fill-opacity"]) / DARKEST for cell in cells(draw())]
    assert shades == pytest.approx([1, 0.25, 0, 0.5, 0.02, 0.5], abs=0.02)


def test_what_is_not_a_number_leaves_its_place_empty() -> None:
    figure = draw([[1.0, math.nan, 0.5], [math.nan] * 3])
    assert [float(cell["fill-opacity"]) / DARKEST for cell in cells(figure)] == pytest.approx([1, 0.5], abs=0.02)
    assert texts(figure, "figure") == ["1.0", "0.5"]
    assert [element.text for element in figure.iter("desc")] == [
        "Heat map, target by source; of each row the largest: I: 我 1.0."
    ]


def test_negative_values_have_another_color() -> None:
    assert ["negative" in cell["class"] for cell in cells(draw())] == [False, False, False, True, False, False]


def test_the_full_color_can_be_that_of_a_larger_number() -> None:
    assert float(cells(draw(largest=2.0))[0]["fill-opacity"]) == pytest.approx(DARKEST / 2, abs=0.01)


def test_rows_and_columns_have_their_names_and_cells_their_numbers() -> None:
    figure = draw()
    assert texts(figure, "name") == ["我", "有三本书", "。", "I", "three"]
    assert texts(figure, "figure") == ["1.0", "0.2", "-0.5", "0.0", "0.5"]
    titles = [title.text for title in figure.iter("title")]
    assert "three, 我: -0.500" in titles


def test_cells_of_a_column_stand_below_each_other_and_no_two_touch() -> None:
    of_rows = [cells(draw())[:3], cells(draw())[3:]]
    for above, below in zip(*of_rows, strict=True):
        assert (above["x"], above["width"]) == (below["x"], below["width"])
        assert float(above["y"]) + float(above["height"]) < float(below["y"])
    for row in of_rows:
        for left, right in itertools.pairwise(row):
            assert float(left["x"]) + float(left["width"]) < float(right["x"])


def test_an_outline_frames_its_cells() -> None:
    (frame,) = [
        rect.attrib for rect in draw(outlines=[Outline(0, 1, 1, 2)]).iter("rect") if rect.attrib["class"] == "outline"
    ]
    inside = [cells(draw())[place] for place in (1, 2, 4, 5)]
    assert all(float(frame["x"]) <= float(cell["x"]) for cell in inside)
    right = float(frame["x"]) + float(frame["width"])
    assert max(float(cell["x"]) + float(cell["width"]) for cell in inside) <= right
    assert float(cells(draw())[0]["x"]) + float(cells(draw())[0]["width"]) < float(frame["x"]) + 1


def test_names_are_text_whatever_they_hold() -> None:
    figure = draw(rows=("<script>", "a&b\x00"), columns=("]]>", '"', "</svg>"))
    assert texts(figure, "name") == ["]]>", '"', "</svg>", "<script>", "a&b\N{REPLACEMENT CHARACTER}"]


def test_joiners_and_unbreakable_spaces_are_text_too() -> None:
    persian, hindi = "می\u200cخواهم", "क्\u200dष\xa0य"
    assert {persian, hindi} <= {*texts(draw(rows=(persian, hindi)), "name")}


def test_a_long_name_is_cut_and_told_in_full_on_hovering() -> None:
    figure = draw(rows=("x" * 100, "y"))
    assert any(name.endswith("…") and len(name) < 40 for name in texts(figure, "name"))
    assert any((title.text or "").startswith("x" * 100 + ", 我") for title in figure.iter("title"))


def test_a_large_map_has_no_tips() -> None:
    size = int(MOST_TIPS**0.5) + 1
    names = [str(number) for number in range(size)]
    figure = draw([[0.5] * size for _ in names], rows=names, columns=names)
    assert len(list(figure.iter("title"))) == 1


def test_nothing_and_zeros_can_be_drawn() -> None:
    assert cells(draw([], rows=())) == []
    assert {cell["fill-opacity"] for cell in cells(draw([[0.0] * 3] * 2))} == {"0.00"}


def test_values_without_names_are_refused() -> None:
    with pytest.raises(ValueError, match="2 by 2 names needs as many values"):
        draw(columns=("a", "b"))


def test_the_description_tells_the_largest_of_each_row() -> None:
    (description,) = [element.text for element in draw().iter("desc")]
    assert description == "Heat map, target by source; of each row the largest: I: 我 1.0; three: 。 0.5."
