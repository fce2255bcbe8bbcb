"""A heat map of a large table is one picture: every pixel has the shade of its number, and the file stays small."""

import struct
import zlib
from base64 import b64decode
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import pytest

from weft.figures.dense_map import Panel, dense_map
from weft.figures.png import STEPS

SVG = "{http://www.w3.org/2000/svg}"


def pixels(svg: str) -> list[list[list[int]]]:
    found = []
    for image in ElementTree.fromstring(svg).iter(f"{SVG}image"):
        data = b64decode(image.attrib["href"].partition("base64,")[2])
        assert data[:8] == b"\x89PNG\r\n\x1a\n"
        chunks, place = {}, 8
        while place < len(data):
            (size,) = struct.unpack_from(">I", data, place)
            kind, content = data[place + 4 : place + 8], data[place + 8 : place + 8 + size]
            assert struct.unpack_from(">I", data, place + 8 + size)[0] == zlib.crc32(kind + content)
            chunks[kind], place = content, place + 12 + size
        width, height = struct.unpack_from(">II", chunks[b"IHDR"])
        lines = zlib.decompress(chunks[b"IDAT"])
        found.append([list(lines[y * (width + 1) + 1 :][:width]) for y in range(height)])
    return found


def draw(*panels: Panel, **options: Any) -> str:
    return dense_map(panels, title="Maps", row_label="position", column_label="dimension", **options)


def test_every_pixel_has_the_shade_of_its_number_and_all_panels_one_scale() -> None:
    svg = draw(Panel("first", [[2.0, -1.0, 0.0]]), Panel("second", [[1.0], [-2.0]]))
    assert pixels(svg) == [[[2 * STEPS, STEPS - 64, STEPS]], [[STEPS + 64], [0]]]


def test_a_number_beyond_the_full_color_has_the_full_color() -> None:
    assert pixels(draw(Panel("one", [[9.0, 0.5, -9.0]]), largest=1.0)) == [[[2 * STEPS, STEPS + 64, 0]]]


def test_a_table_of_zeros_is_transparent() -> None:
    assert pixels(draw(Panel("none", [[0.0, 0.0]]))) == [[[STEPS, STEPS]]]


@pytest.mark.parametrize(("rows", "columns"), [(3, 2), (128, 320), (2000, 3)])
def test_names_of_rows_do_not_touch_and_each_stands_at_its_row(rows: int, columns: int) -> None:
    root = ElementTree.fromstring(draw(Panel("zeros", [[0.0] * columns for _ in range(rows)])))
    (picture,) = root.iter(f"{SVG}image")
    top, cell = float(picture.attrib["y"]), float(picture.attrib["height"]) / rows
    said = [text for text in root.iter(f"{SVG}text") if (text.text or "").isdigit()]
    of_rows = [(float(text.attrib["y"]), int(text.text or "")) for text in said if "middle" not in text.attrib.values()]
    assert len(of_rows) > 2
    assert [y - 4 - top for y, _ in of_rows] == pytest.approx([cell * (row + 0.5) for _, row in of_rows], abs=0.1)
    assert all(later[0] - earlier[0] >= 14 for earlier, later in pairwise(of_rows))


def test_32768_numbers_take_less_than_64_kilobytes() -> None:
    from weft.layers.positions import sinusoids

    assert len(draw(Panel("positions", sinusoids(128, 256).tolist()))) < 64_000
