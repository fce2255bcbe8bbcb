"""A tree is text: its branches can be read back and measured."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

from weft.figures.step_tree import Branch, step_tree

BRANCHES = [
    Branch("<s>", None, "main"),
    Branch("I", 0, "main", "best, −0.2"),
    Branch("You", 0, "plain"),
    Branch("我们昨天", 1, "faint"),
    Branch("have", 1, "main"),
    Branch("</s>", 2, "end"),
]


def draw(branches=BRANCHES) -> ElementTree.Element:
    root = ElementTree.fromstring(step_tree(branches, title="The beam"))
    for element in root.iter():
        element.tag = element.tag.partition("}")[2]
    return root


def boxes(figure: ElementTree.Element) -> dict[str, tuple[float, float, float]]:
    """Left edge, middle and right edge of the branch of each name."""
    found = {}
    for group in figure.iter("g"):
        (box,), (name,) = group.iter("rect"), group.iter("text")
        x, y = float(box.attrib["x"]), float(box.attrib["y"])
        found[name.text or ""] = (
            x,
            y + float(box.attrib["height"]) / 2,
            x + float(box.attrib["width"]),
        )
    return found


def test_each_step_is_a_column_in_the_order_that_is_given() -> None:
    found = boxes(draw())
    assert found["<s>"][2] < found["I"][0] == found["You"][0]
    assert found["You"][2] < found["我们昨天"][0] == found["have"][0] == found["</s>"][0]
    assert found["I"][1] < found["You"][1]
    assert found["我们昨天"][1] < found["have"][1] < found["</s>"][1]


def test_a_line_leads_from_a_parent_to_each_child() -> None:
    found = boxes(draw())
    ends = set()
    for path in draw().iter("path"):
        numbers = [float(number) for number in re.findall(r"[\d.]+", path.attrib["d"])]
        ends.add((*numbers[:2], *numbers[-2:]))
    for parent, child in (("<s>", "I"), ("<s>", "You"), ("I", "我们昨天"), ("I", "have"), ("You", "</s>")):
        start, end = found[parent], found[child]
        assert any(line == pytest.approx((start[2], start[1], end[0], end[1]), abs=0.2) for line in ends), child
    assert len(ends) == len(BRANCHES) - 1


def test_the_main_branch_is_drawn_over_all_others() -> None:
    looks = [path.attrib["class"].split()[-1] for path in draw().iter("path")]
    assert looks == ["faint", "plain", "end", "main", "main"]


def test_everything_stands_inside() -> None:
    figure = draw()
    width, height = float(figure.attrib["width"]), float(figure.attrib["height"])
    for left, middle, right in boxes(figure).values():
        assert left >= 0 and right <= width and middle + 12 <= height


def test_names_are_text_and_tips_are_told() -> None:
    figure = draw([Branch("<b>&", None, "main", "a < b")])
    assert list(boxes(figure)) == ["<b>&"]
    assert "a < b" in [title.text for title in figure.iter("title")]


def test_a_branch_before_its_parent_is_refused() -> None:
    with pytest.raises(ValueError, match="branch 0 stands before its parent 1"):
        draw([Branch("a", 1, "plain"), Branch("b", None, "plain")])
