"""Figures as files: SVG always, PNG and PDF by a library, in colors that need no browser."""

import re
import sys
from pathlib import Path

import pytest

from weft.analysis.pictures import in_light, write_pictures
from weft.errors import UsageError
from weft.figures.heat_map import heat_map
from weft.figures.line_chart import Series, line_chart
from weft.figures.step_tree import Branch, step_tree

CHART = line_chart([Series("a", [1, 2], [3, 4])], title="Loss 损失", x_label="step", y_label="nats", lowest="a")
FIGURES = {
    "chart": CHART,
    "map": heat_map(
        [[0.5]], rows=["r"], columns=["c"], title="", row_label="", column_label="", write=lambda value: "x"
    ),
    "tree": step_tree([Branch("<s>", None, "main", "")], title="Beam"),
}


@pytest.mark.parametrize("name", FIGURES)
def test_each_figure_is_written_in_three_forms(tmp_path: Path, name: str) -> None:
    pytest.importorskip("typst")
    written = write_pictures(tmp_path / "new" / "folder", {name: FIGURES[name]})
    assert [path.name for path in written] == [f"{name}.svg", f"{name}.png", f"{name}.pdf"]
    svg, png, pdf = (path.read_bytes() for path in written)
    assert svg.startswith(b"<?xml") and FIGURES[name].encode() in svg
    assert png.startswith(b"\x89PNG") and pdf.startswith(b"%PDF")


@pytest.mark.parametrize("name", FIGURES)
def test_no_variable_and_no_query_is_left_for_what_is_no_browser(name: str) -> None:
    light = in_light(FIGURES[name])
    assert "var(" not in light and "@media" not in light and light.count("{") == light.count("}")
    assert "#0072b2" in light and "#5ab4e6" not in light  # the blue for light and for dark ground
    assert re.sub("<style>.*?</style>", "", light, flags=re.DOTALL) == re.sub(
        "<style>.*?</style>", "", FIGURES[name], flags=re.DOTALL
    )


def test_without_the_library_there_are_svgs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "typst", None)
    assert [path.name for path in write_pictures(tmp_path, FIGURES)] == ["chart.svg", "map.svg", "tree.svg"]


@pytest.mark.parametrize("name", ["valid_/home/me/logo", "../logo", "损失" * 200])
def test_a_figure_stays_in_its_folder_whatever_it_is_called(tmp_path: Path, name: str) -> None:
    written = write_pictures(tmp_path / "figures", {name: CHART, f"{name}:": CHART, f"{name} ": CHART})
    assert len(set(written)) == len(written) >= 3
    assert all(path.is_file() and path.parent == tmp_path / "figures" for path in written)
    assert [path.name for path in tmp_path.iterdir()] == ["figures"]


def test_a_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"the folder .* cannot be made"):
        write_pictures(tmp_path / "file" / "inside", FIGURES)
