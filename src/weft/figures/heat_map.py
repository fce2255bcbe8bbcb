"""Heat maps: a table of numbers as shades to one SVG string. Independent of what they show.

Positive numbers are shades of one color, negative ones of another. Every cell that is not pale says its number, so
that it need not be read from the shade.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from weft.figures.svg import escaped, fit, svg_figure, text_width, title_width
from weft.figures.words import Say, figure_words

ROW_HEIGHT = 24.0
NARROWEST, WIDEST = 34.0, 110.0
"""Least and greatest width of a column in pixels; between them it is as wide as its name."""
LONGEST_NAME = 160.0
TOP = 62.0
"""Top of the first row, below the title, the names of both sides and those of the columns."""
DARKEST = 0.55
"""Opacity of the cell with the largest number, at which text is legible in light and dark mode."""
MOST_TIPS = 4000
"""Up to this number of cells, each has a tooltip; more would make the file heavy."""


@dataclass(frozen=True)
class Outline:
    """A frame around the cells of these rows and columns, first and last inclusive."""

    first_row: int
    last_row: int
    first_column: int
    last_column: int


def heat_map(
    values: Sequence[Sequence[float]],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
    row_label: str,
    column_label: str,
    write: Callable[[float], str],
    largest: float | None = None,
    outlines: Sequence[Outline] = (),
    language: str = "en",
) -> str:
    """One figure with a row of cells for each name in `rows`; values[i][j] stands in row i and column j, and NaN
    leaves its place empty.

    `write` says what stands in a cell, nothing for what is not worth reading. `largest` is the number of the full
    color; left out, that of the largest absolute value. `language`, "en" or "zh", is that of the description for screen
    readers. Raises ValueError where values and names are not as many.
    """
    if len(values) != len(rows) or any(len(row) != len(columns) for row in values):
        raise ValueError(f"a heat map of {len(rows)} by {len(columns)} names needs as many values")
    sizes = (abs(value) for row in values for value in row if not math.isnan(value))
    full = largest if largest is not None else max(sizes, default=0.0)
    grid = _Grid.of(rows, columns, row_label)
    width = max(grid.right + 2, title_width(title))
    body = [
        f'<text class="title" x="0" y="16">{escaped(title)}</text>',
        f'<text x="0" y="{TOP - 8:g}">{escaped(row_label)} ↓</text>',
        f'<text x="{grid.left:.1f}" y="36">{escaped(column_label)} →</text>',
        *_names(grid, rows, columns),
        *_cells(grid, values, rows, columns, full, write),
        *(_frame(grid, outline) for outline in outlines),
    ]
    description = _describe(values, rows, columns, row_label, column_label, write, figure_words(language))
    return svg_figure(title, description, body, width, grid.top_of(len(rows)) + 4, shrinks=False)


@dataclass(frozen=True)
class _Grid:
    left: float
    edges: Sequence[float]
    """The left edge of each column, and the right edge of the last."""

    @classmethod
    def of(cls, rows: Sequence[str], columns: Sequence[str], row_label: str) -> "_Grid":
        named = max(map(text_width, (*rows, f"{row_label} ↓")), default=0.0)
        left = 1.1 * min(LONGEST_NAME, named) + 12  # some fonts are wider than text_width takes them to be
        edges = [left]
        for name in columns:
            edges.append(edges[-1] + min(WIDEST, max(NARROWEST, text_width(name) + 10)))
        return cls(left, edges)

    @property
    def right(self) -> float:
        return self.edges[-1]

    def middle(self, column: int) -> float:
        return (self.edges[column] + self.edges[column + 1]) / 2

    def width(self, column: int) -> float:
        return self.edges[column + 1] - self.edges[column]

    def top_of(self, row: int) -> float:
        return TOP + row * ROW_HEIGHT


def _names(grid: _Grid, rows: Sequence[str], columns: Sequence[str]) -> Iterator[str]:
    for column, name in enumerate(columns):
        shown = escaped(fit(name, grid.width(column) - 4))
        yield f'<text class="name" x="{grid.middle(column):.1f}" y="{TOP - 8:g}" text-anchor="middle">{shown}</text>'
    for row, name in enumerate(rows):
        shown = escaped(fit(name, LONGEST_NAME))
        y = grid.top_of(row) + 16
        yield f'<text class="name" x="{grid.left - 8:.1f}" y="{y:g}" text-anchor="end">{shown}</text>'


def _cells(
    grid: _Grid,
    values: Sequence[Sequence[float]],
    rows: Sequence[str],
    columns: Sequence[str],
    full: float,
    write: Callable[[float], str],
) -> Iterator[str]:
    has_tips = len(rows) * len(columns) <= MOST_TIPS
    for row, of_row in enumerate(values):
        y = grid.top_of(row)
        for column, value in enumerate(of_row):
            if math.isnan(value):
                continue
            share = min(1.0, abs(value) / full) if full else 0.0
            tip = f"<title>{escaped(f'{rows[row]}, {columns[column]}: {value:.3f}')}</title>" if has_tips else ""
            sign = " negative" if value < 0 else ""
            yield (
                f'<rect class="cell{sign}" x="{grid.edges[column] + 0.5:.1f}" y="{y + 0.5:g}" '
                f'width="{grid.width(column) - 1:.1f}" height="{ROW_HEIGHT - 1:g}" '
                f'fill-opacity="{share * DARKEST:.2f}">{tip}</rect>'
            )
            if written := write(value):
                yield (
                    f'<text class="figure" x="{grid.middle(column):.1f}" y="{y + 16:g}" text-anchor="middle">'
                    f"{escaped(written)}</text>"
                )


def _frame(grid: _Grid, outline: Outline) -> str:
    x, y = grid.edges[outline.first_column], grid.top_of(outline.first_row)
    width = grid.edges[outline.last_column + 1] - x
    height = grid.top_of(outline.last_row + 1) - y
    return f'<rect class="outline" x="{x:.1f}" y="{y:g}" width="{width:.1f}" height="{height:g}" rx="3"/>'


def _describe(
    values: Sequence[Sequence[float]],
    rows: Sequence[str],
    columns: Sequence[str],
    row_label: str,
    column_label: str,
    write: Callable[[float], str],
    say: Say,
) -> str:
    parts = [say("Heat map, {rows} by {columns}; of each row the largest:", rows=row_label, columns=column_label)]
    for name, of_row in zip(rows, values, strict=True):
        if known := [column for column, value in enumerate(of_row) if not math.isnan(value)]:
            best = max(known, key=of_row.__getitem__)
            parts.append(f"{name}: {columns[best]} {write(of_row[best])}".rstrip() + ";")
    return " ".join(parts).removesuffix(";") + "."
