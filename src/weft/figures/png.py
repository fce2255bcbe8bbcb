"""Pictures as PNG files of a byte a pixel, which an SVG can hold in itself: large tables take kilobytes."""

import struct
import zlib
from base64 import b64encode
from collections.abc import Sequence

Picture = Sequence[Sequence[float]]
POSITIVE, NEGATIVE = (0, 114, 178), (213, 94, 0)
"""The first two series colors of theme.py. They are transparent where a number is small, so any ground will do."""
STEPS = 127
"""Shades of each of the two."""


def shaded_png(picture: Picture, full: float) -> bytes:
    """Positive and negative numbers as shades of two colors, opaque from the absolute value `full` on."""
    scale = STEPS / full if full else 0.0
    pixels = [bytes(STEPS + round(min(STEPS, max(-STEPS, scale * value))) for value in row) for row in picture]
    opacities = bytes(round(255 * abs(shade) / STEPS) for shade in range(-STEPS, STEPS + 1))
    return _png(pixels, [(b"PLTE", bytes(NEGATIVE) * STEPS + bytes(POSITIVE) * (STEPS + 1)), (b"tRNS", opacities)])


def image(content: bytes, x: float, y: float, width: float, height: float) -> str:
    """An SVG element that shows a PNG in this rectangle, each pixel with sharp edges."""
    return (
        f'<image x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" preserveAspectRatio="none" '
        f'style="image-rendering:pixelated" href="data:image/png;base64,{b64encode(content).decode()}"/>'
    )


def _png(rows: Sequence[bytes], palette: Sequence[tuple[bytes, bytes]]) -> bytes:
    """A file of these rows of bytes, which are the numbers of colors."""
    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 3, 0, 0, 0)
    lines = zlib.compress(b"".join(b"\0" + row for row in rows), 9)
    chunks = [(b"IHDR", header), *palette, (b"IDAT", lines), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in chunks
    )
