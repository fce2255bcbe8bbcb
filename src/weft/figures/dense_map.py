"""Heat maps of large tables, such as 128 positions by 256 dimensions, side by side in one SVG string.

The cells of a panel are one PNG (png.py): as shapes of heat_map.py they would take megabytes. Rows and columns are
numbered, or have names, of which as many are written as there is room for.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from weft.figures.png import Picture, image, shaded_png
from weft.figures.svg import escaped, fit, svg_figure, text_width, title_width
from weft.figures.words import figure_words

LARGEST_SIDE = 512.0
"""Most pixels that the longer side of a panel takes; a cell takes at most CELL."""
CELL = 24.0
LINE = 14.0
"""Least distance of two names of rows."""
LONGEST_NAME = 120.0
GAP = 28.0


@dataclass(frozen=True)
class Panel:
    """One table: values[i][j] stands in row i and column j. Without names they are numbered from 0."""

    name: str
    values: Picture
    rows: Sequence[str] = ()
    columns: Sequence[str] = ()


def dense_map(
    panels: Sequence[Panel],
    *,
    title: str,
    row_label: str,
    column_label: str,
    largest: float | None = None,
    language: str = "en",
) -> str:
    """The panels from left to right, in shades of one scale: `largest`, or the largest absolute value, is opaque.

    Positive numbers are shades of one color, negative ones of another. `language`, "en" or "zh", is that of the legend
    and of the description for screen readers.
    """
    numbers = [abs(value) for panel in panels for row in panel.values for value in row if math.isfinite(value)]
    full = largest if largest is not None else max(numbers, default=0.0)
    longest = max(max(len(panel.values), len(panel.values[0])) for panel in panels)
    cell, x, top = min(CELL, LARGEST_SIDE / longest), 0.0, 72.0
    body, bottom = [f'<text class="title" x="0" y="16">{escaped(title)}</text>'], top
    for panel in panels:
        rows = panel.rows or list(map(str, range(len(panel.values))))
        columns = panel.columns or list(map(str, range(len(panel.values[0]))))
        x += min(LONGEST_NAME, max(map(text_width, [*rows, f"{row_label} ↓"]))) + 8
        width, height = cell * len(columns), cell * len(rows)
        body += [
            f'<text class="name" x="{x:g}" y="36">{escaped(panel.name)}</text>',
            f'<text x="{x - 6:g}" y="{top - 6:g}" text-anchor="end">{escaped(row_label)} ↓</text>',
            f'<text x="{x + width:g}" y="36" text-anchor="end">{escaped(column_label)} →</text>',
            image(shaded_png(panel.values, full), x, top, width, height),
            f'<rect class="grid" x="{x:g}" y="{top:g}" width="{width:g}" height="{height:g}" fill="none"/>',
        ]
        room = max(LINE, *(text_width(fit(name, LONGEST_NAME)) + 10 for name in columns))
        for place, name in _thinned(columns, cell, room):
            middle = x + cell * (place + 0.5)
            body.append(f'<text x="{middle:g}" y="{top - 6:g}" text-anchor="middle">{escaped(name)}</text>')
        for place, name in _thinned(rows, cell, LINE):
            y = top + cell * (place + 0.5) + 4
            body.append(f'<text x="{x - 6:g}" y="{y:g}" text-anchor="end">{escaped(name)}</text>')
        x, bottom = x + max(width, text_width(f"{panel.name} {column_label} →")) + GAP, max(bottom, top + height)
    said = [f"{panel.name}: {len(panel.values)} × {len(panel.values[0])}" for panel in panels]
    say, most = figure_words(language), f"{full:.3g}"
    description = say(
        "Heat maps, {rows} by {columns}; {said}; the full color is {full}.",
        rows=row_label,
        columns=column_label,
        said="; ".join(said),
        full=most,
    )
    legend = say("blue: positive, orange: negative; the full color is {full} and more", full=most)
    body.append(f'<text x="0" y="{bottom + 20:g}">{escaped(legend)}</text>')
    return svg_figure(title, description, body, max(x - GAP, title_width(title)) + 2, bottom + 28)


def _thinned(names: Sequence[str], cell: float, room: float) -> Iterator[tuple[int, str]]:
    """Every n-th name with its place, n a round number so that as many pixels lie between two."""
    least = max(1, math.ceil(room / cell))
    step = next(n for power in range(9) for n in (10**power, 2 * 10**power, 5 * 10**power) if n >= least)
    return ((place, fit(names[place], LONGEST_NAME)) for place in range(0, len(names), step))
