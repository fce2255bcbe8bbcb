"""Grids of pictures: well-formed, and every pixel as bright as its number."""

import struct
import zlib
from base64 import b64decode
from xml.etree import ElementTree

import pytest

from weft.figures.picture_grid import picture_grid

HREF = "href"


def pixels(svg: str) -> list[list[list[int]]]:
    found = []
    for image in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}image"):
        data = b64decode(image.attrib[HREF].partition("base64,")[2])
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


def test_every_pixel_is_as_bright_as_its_number() -> None:
    first, second = [[0.0, 1.0, 0.5], [2.0, -1.0, 0.25]], [[1.0]]
    svg = picture_grid([[first, second], [second]], names=["<seen>", "recalled"], title="Pictures")
    assert pixels(svg) == [[[0, 255, 128], [255, 0, 64]], [[255]], [[255]]]
    assert "&lt;seen&gt;" in svg and "Pictures, in rows: &lt;seen&gt;, recalled." in svg


def test_rows_and_names_must_be_as_many() -> None:
    with pytest.raises(ValueError, match="argument 2"):
        picture_grid([[[[1.0]]]], names=[], title="")
