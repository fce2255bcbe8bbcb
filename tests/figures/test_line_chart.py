"""A chart is text: what stands in it can be read back and measured."""

import ast
import math
import random
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft.figures.line_chart
from weft.figures.line_chart import MOST_POINTS, Series, line_chart
from weft.figures.svg import text_width

NAN, INF = math.nan, math.inf


def draw(*series: Series, title="Loss", y_label="nats", **options) -> ElementTree.Element:
    """The chart, read by a strict parser. Its own parts only, without the namespace in every tag."""
    root = ElementTree.fromstring(line_chart(series, title=title, x_label="step", y_label=y_label, **options))
    for element in root.iter():
        element.tag = element.tag.partition("}")[2]
    return root


def texts(chart: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in chart.iter("text")]


def curves(chart: ElementTree.Element) -> list[list[list[tuple[float, float]]]]:
    """For each line its unbroken pieces, as points in pixels."""
    paths = [
        path.attrib["d"] for path in chart.iter("path") if "line" in path.attrib["class"] and "L" in path.attrib["d"]
    ]
    return [
        [
            [(float(x), float(y)) for x, y in (point.split(",") for point in piece.split("L"))]
            for piece in path.split("M")
            if piece
        ]
        for path in paths
    ]


def y_ticks(chart: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in chart.iter("text") if element.get("text-anchor") == "end"][:-1]


def x_ticks(chart: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in chart.iter("text") if element.get("text-anchor") == "middle"]


def test_points_stand_where_the_axes_say():
    chart = draw(Series("a", [0, 50, 100], [0.0, 10.0, 5.0]))
    ((line,),) = curves(chart)
    (left, bottom), (middle, top), (right, half) = line
    assert middle == pytest.approx((left + right) / 2, abs=0.1)
    assert half == pytest.approx((bottom + top) / 2, abs=0.1)
    assert top < half < bottom


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.0, 10.0], ["0", "2", "4", "6", "8", "10"]),
        ([2.1, 9.4], ["2", "4", "6", "8", "10"]),
        ([0.31, 0.58], ["0.30", "0.35", "0.40", "0.45", "0.50", "0.55", "0.60"]),
        ([-1.0, 1.0], ["−1.0", "−0.5", "0.0", "0.5", "1.0"]),
        ([7.0, 7.0], ["6.25", "6.50", "6.75", "7.00", "7.25", "7.50", "7.75"]),
    ],
)
def test_ticks_are_round_numbers_with_equal_decimals(values, expected):
    assert y_ticks(draw(Series("a", [0, 1], values))) == expected


@pytest.mark.parametrize(
    ("values", "label", "ticks"),
    [
        ([0.0, 1e-3], "nats (×10⁻³)", ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        ([0.0, 4e-7], "nats (×10⁻⁷)", ["0", "1", "2", "3", "4"]),
        ([0.0, 4e7], "nats (×10⁶)", ["0", "10", "20", "30", "40"]),
    ],
)
def test_very_small_and_large_numbers_share_one_factor_beside_the_label(values, label, ticks):
    chart = draw(Series("a", [0, 1], values))
    assert label in texts(chart)
    assert y_ticks(chart) == ticks


def test_steps_are_written_with_thousands():
    assert x_ticks(draw(Series("a", [0, 12_000], [1, 2]), width=430)) == ["0", "2,500", "5,000", "7,500", "10,000"]


def test_from_zero_lets_the_axis_begin_at_zero():
    series = Series("a", [0, 1], [7000.0, 7200.0])
    assert "0" not in y_ticks(draw(series))
    assert y_ticks(draw(series, from_zero=True))[0] == "0"


def test_values_that_are_all_zero_have_an_axis_from_zero_up():
    ticks = y_ticks(draw(Series("a", [0, 1], [0.0, 0.0]), highest="a"))
    assert float(ticks[0]) == 0 and float(ticks[-1]) >= 1


@pytest.mark.parametrize(
    ("first", "last", "highest"), [(100_000, 160_000, 5), (0, 8000, 5), (0.0, 3.0, 0.25), (2549, 127_450, 500_000)]
)
def test_labels_of_x_stay_on_the_paper_and_apart_also_in_the_larger_type_of_a_phone(first, last, highest):
    chart = draw(Series("a", [first, last], [0.0, highest]), width=430)
    labels = [e for e in chart.iter("text") if e.get("text-anchor") == "middle"]
    ends = [
        float(label.attrib["x"]) + side * text_width(label.text or "") * 14 / 24 for label in labels for side in (-1, 1)
    ]
    assert ends[0] >= 0 and ends[-1] <= 430
    assert all(start - end > 5 for end, start in zip(ends[1:-1:2], ends[2::2], strict=True))


def test_on_a_logarithmic_axis_equal_ratios_are_equal_distances():
    ((line,),) = curves(draw(Series("a", [1, 2, 3], [1, 10, 100]), log_y=True))
    assert line[0][1] - line[1][1] == pytest.approx(line[1][1] - line[2][1], abs=0.2)


def test_a_logarithmic_axis_has_powers_of_ten():
    assert y_ticks(draw(Series("a", [1, 2], [1e-3, 10]), log_y=True)) == ["0.001", "0.01", "0.1", "1", "10"]


def test_a_logarithmic_axis_leaves_out_what_has_no_logarithm():
    ((line,),) = curves(draw(Series("a", [1, 2, 3, 4], [0, -1, 5, 6]), log_y=True))
    assert len(line) == 2


@pytest.mark.parametrize("gap", [NAN, INF, -INF])
def test_what_is_no_number_interrupts_the_line(gap):
    ((first, second),) = curves(draw(Series("a", [1, 2, 3, 4, 5], [1, 2, gap, 4, 5])))
    assert len(first) == len(second) == 2


def test_a_point_between_two_gaps_is_a_dot():
    many = 200  # so many that points do not get dots otherwise
    values = [1.0, 2.0] * (many // 2) + [NAN, 3.0, NAN, 1.0, 2.0]
    chart = draw(Series("a", range(len(values)), values))
    assert [dot.findtext("title") for dot in chart.iter("circle")] == ["a: 3 at 201"]


def test_each_point_of_a_short_line_tells_its_value():
    chart = draw(Series("validation", [500, 1000], [12.5, 23.641]))
    told = [dot.findtext("title") for dot in chart.iter("circle")]
    assert told == ["validation: 12.5 at 500", "validation: 23.64 at 1,000"]


@pytest.mark.parametrize("series", [[], [Series("a", [], [])], [Series("a", [1, 2], [NAN, INF])]])
def test_a_chart_without_a_point_says_so(series):
    assert texts(draw(*series)) == ["Loss", "no data yet"]


def test_one_point_is_a_chart():
    chart = draw(Series("a", [100], [3.5]))
    assert len(list(chart.iter("circle"))) == 1
    assert y_ticks(chart) == ["3.0", "3.2", "3.4", "3.6", "3.8", "4.0"]


def test_a_long_line_is_thinned_and_keeps_its_extremes():
    noise = random.Random(1)
    values = [noise.gauss(5.0, 0.2) for _ in range(50_000)]
    values[12_345], values[40_001] = 99.0, -99.0
    chart = draw(Series("a", range(50_000), values))
    ((line,),) = curves(chart)
    assert len(line) <= MOST_POINTS
    assert line == sorted(line, key=lambda point: point[0])
    ((two,),) = curves(draw(Series("a", [0, 12_345, 40_001, 49_999], [values[0], 99.0, -99.0, values[-1]])))
    assert set(two) <= set(line)


def test_thinning_keeps_gaps():
    values = [NAN if 20_000 <= step < 30_000 else 1.0 + step for step in range(50_000)]
    assert len(curves(draw(Series("a", range(50_000), values)))[0]) == 2


def test_the_best_point_is_marked_with_its_value_and_place():
    series = Series("validation", [1000, 2000, 3000], [4.0, 2.375, 2.5])
    assert "2.375 at 2,000" in texts(draw(series, lowest="validation"))
    assert "4 at 1,000" in texts(draw(series, highest="validation"))
    assert not any(" at " in text for text in texts(draw(series)))


def test_of_equal_points_the_first_is_the_best():
    assert "2 at 5" in texts(draw(Series("a", [5, 6, 7], [2, 2, 1]), highest="a"))


def test_only_several_lines_need_a_legend():
    one, two = Series("training", [1, 2], [1, 2]), Series("validation", [1, 2], [2, 1])
    assert "training" not in texts(draw(one))
    assert {"training", "validation"} <= set(texts(draw(one, two)))


def test_a_legend_that_does_not_fit_beside_the_title_takes_rows_and_no_two_entries_touch():
    series = [Series(f"系列 number {index}", [1, 2], [index, index + 1]) for index in range(8)]
    chart = draw(*series, width=430)
    entries = [element for element in chart.iter("text") if (element.text or "").startswith("系列")]
    places = [(float(entry.attrib["x"]), float(entry.attrib["y"])) for entry in entries]
    assert len(set(places)) == 8
    assert all(x < 430 - 100 for x, _ in places) and len({y for _, y in places}) > 1
    width = text_width("系列 number 0")
    assert all(abs(y - v) >= 14 or abs(x - u) >= width for (x, y), (u, v) in combinations(places, 2))
    lines = [path for path in chart.iter("path") if "line" in path.attrib["class"]]
    looks = {(path.attrib["class"], path.get("stroke-dasharray")) for path in lines}
    assert len(looks) == 8  # colors repeat, the pair of color and dashes does not


def test_the_rows_of_a_legend_take_nothing_from_the_plot():
    def plot(names: int) -> list[float]:
        chart = draw(
            *(Series(f"studies/study/trials/{n:04}/run/model", [1, 2], [2, 9]) for n in range(names)), width=430
        )
        below, above = (y for _, y in curves(chart)[0][0])
        return [below - above, float(chart.attrib["height"]) - below]

    assert plot(20) == pytest.approx(plot(2))


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        (
            "en",
            "Line chart of nats by step. validation: 2 points, lowest 2.375 at 2,000, highest 4 at 1,000, last 2.375. "
            "training: no data.",
        ),
        (
            "zh",
            "折线图：nats随step的变化。validation：2 个点，最低 2.375（在 2,000），最高 4（在 1,000），最后 2.375。"
            "training：没有数据。",
        ),
    ],
)
def test_the_picture_is_told_to_those_who_cannot_see_it(language, expected):
    chart = draw(Series("validation", [1000, 2000], [4.0, 2.375]), Series("training", [], []), language=language)
    assert chart.attrib["role"] == "img"
    assert chart.attrib["aria-label"] == f"Loss. {expected}"
    assert [element.text for element in list(chart)[:2]] == ["Loss", expected]
    assert not any(element.get("id") for element in chart.iter())  # so equal charts may stand on one page


def test_names_are_text_and_never_markup():
    attack = "<script>\"&'\x00\x0b"
    series = [Series(attack, [1, 2], [1, 2]), Series("b", [1, 2], [1, 2])]
    chart = draw(*series, title=attack, y_label=attack, highest=attack)
    assert not list(chart.iter("script"))
    assert texts(chart)[0] == "<script>\"&'��"


def test_a_title_wider_than_the_chart_is_cut_with_an_ellipsis():
    assert texts(draw(title="很长的标题" * 30, width=200))[0].endswith("…")


def test_columns_of_unequal_length_are_refused():
    with pytest.raises(ValueError, match="series 'a' has 2 x values and 1 y values"):
        Series("a", [1, 2], [1])


def test_the_same_numbers_give_the_same_chart():
    def chart() -> str:
        return line_chart([Series("a", [1, 2], [3, 4])], title="t", x_label="x", y_label="y")

    assert chart() == chart()


numbers = st.one_of(st.floats(), st.integers(-(10**6), 10**6))


@given(st.lists(st.tuples(numbers, numbers), max_size=40), st.booleans(), st.booleans())
def test_any_numbers_give_a_well_formed_chart_within_its_frame(points, log_y, from_zero):
    x, y = [point[0] for point in points], [point[1] for point in points]
    chart = draw(Series("a", x, y), log_y=log_y, from_zero=from_zero, lowest="a", highest="a")
    for line in curves(chart):
        for piece in line:
            assert all(0 <= x <= 720 and 0 <= y <= 320 for x, y in piece)
    assert len(texts(chart)) < 60


def test_figures_are_drawn_with_the_standard_library_alone():
    programs = [path.read_text(encoding="utf-8") for path in Path(weft.figures.line_chart.__file__).parent.glob("*.py")]
    imported = {name for program in programs for name in imports_of(program)}
    assert "math" in imported
    others = {name.split(".")[0] for name in imported if not name.startswith("weft.figures.")}
    assert others <= sys.stdlib_module_names


def imports_of(program: str) -> Iterator[str]:
    """The modules that a program imports anywhere in it."""
    for node in ast.walk(ast.parse(program)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module)
