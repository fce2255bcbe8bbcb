"""A scatter plot keeps distances, and no two names cover each other."""

import math
from itertools import combinations
from xml.etree import ElementTree

import pytest

from weft.figures.scatter import HEIGHT, NAME_HEIGHT, WIDTH, scatter
from weft.figures.svg import text_width

SVG = "{http://www.w3.org/2000/svg}"


def draw(points: dict[str, tuple[float, float]]) -> ElementTree.Element:
    return ElementTree.fromstring(scatter(points, title="Embeddings", x_label="first", y_label="second"))


def test_distances_of_points_are_those_of_the_numbers_in_one_scale() -> None:
    points = {"苹果": (0.0, 0.0), "梨": (3.0, 4.0), "<书>": (-1.0, 1.0)}
    at = [(float(c.attrib["cx"]), float(c.attrib["cy"])) for c in draw(points).iter(f"{SVG}circle")]
    drawn = [math.dist(one, other) for one, other in combinations(at, 2)]
    given = [math.dist(one, other) for one, other in combinations(points.values(), 2)]
    assert [one / drawn[0] for one in drawn] == pytest.approx([one / given[0] for one in given], rel=1e-2)
    assert at[1][1] < at[0][1], "up is up"
    assert all(0 < x < WIDTH and 0 < y < HEIGHT for x, y in at)


def test_the_first_of_two_names_at_one_place_is_written_and_both_points_are_drawn() -> None:
    crowd = {f"名字{number}": (0.001 * number, 0.0) for number in range(9)} | {"far": (1.0, 1.0)}
    root = draw(crowd)
    names = [text for text in root.iter(f"{SVG}text") if text.get("class") == "name"]
    said = [text.text or "" for text in names]
    assert len(list(root.iter(f"{SVG}circle"))) == 10 and said[0] == "名字0" and "far" in said and len(said) < 10
    boxes = [(float(t.attrib["x"]), float(t.attrib["y"]), text_width(t.text or "")) for t in names]
    for (x, y, width), (other_x, other_y, other_width) in combinations(boxes, 2):
        assert x + width <= other_x or other_x + other_width <= x or abs(y - other_y) >= NAME_HEIGHT


@pytest.mark.parametrize("points", [{}, {"one": (2.0, 2.0)}])
def test_few_points_are_drawn_too(points: dict[str, tuple[float, float]]) -> None:
    assert len(list(draw(points).iter(f"{SVG}circle"))) == len(points)
