"""Grids of gray pictures as one SVG string. Independent of what they show."""

from collections.abc import Sequence

from weft.figures.png import Picture, gray_png, image
from weft.figures.svg import escaped, svg_figure, text_width, title_width

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
            wide, high = scale * len(picture[0]), scale * len(picture)
            body.append(image(gray_png(picture), x, top, wide, high))
            x += wide + GAP
        top, right = top + max(height, 16) + GAP, max(right, x)
    return svg_figure(title, f"Pictures, in rows: {', '.join(names)}.", body, right, top)
