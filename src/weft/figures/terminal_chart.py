"""Line charts for a terminal: each character holds 2 x 4 dots, as a braille pattern. Knows no runs and no colors."""

import math
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

from weft.figures.line_chart import Series

NO_DOT = 0x2800
"""The braille pattern without dots, before all others in Unicode."""
BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bit of each dot in a pattern, by row and column."""
LATE = 0.1
"""Share of the x range whose values may lie above the chart: the first losses would flatten the rest of the curve."""
FEW = 30
"""So few points are all on the chart."""

Run = tuple[str, int | None]
"""Some characters, and the index of the series whose dots they are; None for labels."""
Dot = tuple[int, int]


def terminal_chart(series: Sequence[Series], width: int, height: int) -> list[list[Run]]:
    """Draw series in lines of at most `width` characters, the lowest of `height` of which is the x axis.

    A value that is not finite is a gap. Where two series cross, the later one is seen.
    """
    points = [[p for p in zip(s.x, s.y, strict=True) if all(map(math.isfinite, p))] for s in series]
    every = [point for some in points for point in some]
    if not every or height < 3:
        return [[("no data yet", None)]]
    left, right = min(x for x, _ in every), max(x for x, _ in every)
    late = [y for x, y in every if x >= left + LATE * (right - left) or len(every) < FEW]
    low, high = min(y for _, y in every), max(late)
    if high - low < 1e-9 * max(abs(low), abs(high), 1e-9):
        low, high = low - 0.1 * (abs(low) or 1), high + 0.1 * (abs(high) or 1)
    names = [f"{value:.4g}" for value in (high, (high + low) / 2, low)]
    margin = max(map(len, names)) + 1
    columns, rows = max(1, width - margin), height - 1
    across, down = (2 * columns - 1) / ((right - left) or 1), (4 * rows - 1) / (high - low)
    pattern = [[NO_DOT] * columns for _ in range(rows)]
    owner: list[list[int | None]] = [[None] * columns for _ in range(rows)]
    for index, some in enumerate(points):
        dots = [(round((x - left) * across), max((high - y) * down, -4.0 * rows)) for x, y in some]
        for x, y in line_of(means(dots)):
            if 0 <= y < 4 * rows:
                pattern[y // 4][x // 2] |= BITS[y % 4][x % 2]
                owner[y // 4][x // 2] = index
    labels = {0: names[0], rows - 1: names[2], **({rows // 2: names[1]} if rows >= 5 else {})}
    lines = []
    for row in range(rows):
        cells = groupby(zip(pattern[row], owner[row], strict=True), key=lambda cell: cell[1])
        runs = [("".join(chr(bits) for bits, _ in some), of) for of, some in cells]
        lines.append([(f"{labels.get(row, ''):>{margin - 1}} ", None), *runs])
    first, last = " " * margin + f"{left:,.0f}", f"{right:,.0f}"
    room = margin + columns - len(first)
    return [*lines, [(first + last.rjust(room) if len(last) < room else last.rjust(margin + columns), None)]]


def means(dots: Sequence[tuple[int, float]]) -> list[Dot]:
    """One dot for each column that has some: their mean."""
    columns: dict[int, list[float]] = {}
    for x, y in dots:
        columns.setdefault(x, []).append(y)
    return [(x, round(sum(values) / len(values))) for x, values in sorted(columns.items())]


def line_of(dots: Sequence[Dot]) -> Iterator[Dot]:
    """The dots, and those between two neighbors on the straight line."""
    yield from dots[:1]
    for (x, y), (to_x, to_y) in pairwise(dots):
        steps = max(to_x - x, abs(to_y - y), 1)
        for step in range(1, steps + 1):
            yield round(x + (to_x - x) * step / steps), round(y + (to_y - y) * step / steps)
