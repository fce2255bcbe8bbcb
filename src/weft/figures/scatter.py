"""Scatter plots of named points to one SVG string. Both axes have one scale, so distances can be compared.

The first points matter most: a name is left out where it would cover an earlier one; its point and its tooltip stay.
"""

from collections.abc import Iterator, Mapping

from weft.figures.svg import escaped, svg_figure, text_width, title_width

WIDTH, HEIGHT, EDGE, TOP = 720.0, 540.0, 14.0, 34.0
NAME_HEIGHT = 13.0

Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""


def scatter(points: Mapping[str, tuple[float, float]], *, title: str, x_label: str, y_label: str) -> str:
    """Draw each point with its name beside it, where there is room."""
    placed = dict(_placed(points))
    taken: list[Box] = []
    body = [f'<text class="title" x="0" y="16">{escaped(title)}</text>']
    body += [
        f'<circle class="point s0" cx="{x:.1f}" cy="{y:.1f}" r="2"><title>{escaped(name)}</title></circle>'
        for name, (x, y) in placed.items()
    ]
    for name, (x, y) in placed.items():
        width = 1.1 * text_width(name)
        for left in (x + 5, x - 5 - width):
            box = (left, y - NAME_HEIGHT / 2, left + width, y + NAME_HEIGHT / 2)
            if left >= 0 and box[2] <= WIDTH and not any(_overlap(box, other) for other in taken):
                taken.append(box)
                body.append(f'<text class="name" x="{left:.1f}" y="{y + 4:.1f}">{escaped(name)}</text>')
                break
    bottom = HEIGHT + 20
    body += [
        f'<line class="axis" x1="0" y1="{HEIGHT:g}" x2="{WIDTH:g}" y2="{HEIGHT:g}"/>',
        f'<line class="axis" x1="0" y1="{TOP:g}" x2="0" y2="{HEIGHT:g}"/>',
        f'<text x="{WIDTH:g}" y="{bottom - 4:g}" text-anchor="end">{escaped(x_label)} →</text>',
        f'<text x="6" y="{TOP - 4:g}">{escaped(y_label)} ↑</text>',
    ]
    description = f"Scatter plot of {len(points)} points, {len(taken)} of them named; {x_label} by {y_label}."
    return svg_figure(title, description, body, max(WIDTH, title_width(title)), bottom)


def _placed(points: Mapping[str, tuple[float, float]]) -> Iterator[tuple[str, tuple[float, float]]]:
    """The place of each point in pixels."""
    if not points:
        return
    xs, ys = zip(*points.values(), strict=True)
    middle_x, middle_y = (min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2
    wide, high = WIDTH - 2 * EDGE, HEIGHT - TOP - 2 * EDGE
    scale = min(wide / ((max(xs) - min(xs)) or 1.0), high / ((max(ys) - min(ys)) or 1.0))
    for name, (x, y) in points.items():
        yield name, (WIDTH / 2 + scale * (x - middle_x), (TOP + HEIGHT) / 2 - scale * (y - middle_y))


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
