"""Grids of gray pictures as one SVG string. Independent of what they show."""

import struct
import zlib
from base64 import b64encode
from collections.abc import Sequence

from weft.figures.svg import escaped, svg_figure, text_width, title_width

Picture = Sequence[Sequence[float]]
GAP = 4


def picture_grid(rows: Sequence[Sequence[Picture]], *, names: Sequence[str], title: str, scale: int = 2) -> str:
    """Draw rows of pictures, each with its name to the left: rows[i][j][y][x] is a brightness from 0 to 1.

    A pixel is drawn as a square of `scale`. Numbers outside of 0 to 1 are drawn as the nearer of the two.
    """
    left = max(map(text_width, names), default=0.0) + 8
    body, top, right = [f'<text class="title" x="0" y="16">{escaped(title)}</text>'], 28, title_width(title)
    for name, pictures in zip(names, rows, strict=True):
        height, x = scale * len(pictures[0]), left
        body.append(f'<text class="name" x="0" y="{top + height / 2 + 4:g}">{escaped(name)}</text>')
        for picture in pictures:
            wide, high, data = scale * len(picture[0]), scale * len(picture), b64encode(png(picture)).decode()
            body.append(
                f'<image x="{x:g}" y="{top}" width="{wide}" height="{high}" style="image-rendering:pixelated" '
                f'href="data:image/png;base64,{data}"/>'
            )
            x += wide + GAP
        top, right = top + max(height, 16) + GAP, max(right, x)
    return svg_figure(title, f"Pictures, in rows: {', '.join(names)}.", body, right, top)


def png(picture: Picture) -> bytes:
    """A gray picture as a PNG file of 8 bits a pixel."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", len(picture[0]), len(picture), 8, 0, 0, 0, 0)
    lines = b"".join(b"\0" + bytes(round(255 * min(1.0, max(0.0, value))) for value in row) for row in picture)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines, 9)) + chunk(b"IEND", b"")
