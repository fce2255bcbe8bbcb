"""Bar charts: counts or scores by category to one SVG string, with a number beside every bar."""

from collections.abc import Callable, Sequence

from weft.figures.svg import escaped, fit, svg_figure, text_width, title_width

BAR, SPACE = 13.0, 7.0
LONGEST_NAME = 150.0

Bars = tuple[str, Sequence[float | None]]
"""A name, and a number for each category; None is not drawn."""


def bar_chart(
    series: Sequence[Bars],
    categories: Sequence[str],
    *,
    title: str,
    label: str,
    write: Callable[[float], str] = "{:,.0f}".format,
    width: float = 430,
) -> str:
    """Horizontal bars, those of one category below each other; `label` says what the numbers are.

    Raises ValueError if a series does not have a number for each category.
    """
    if any(len(values) != len(categories) for _, values in series):
        raise ValueError(f"a bar chart of {len(categories)} categories needs as many numbers in each series")
    left = min(LONGEST_NAME, max(map(text_width, categories), default=0.0)) * 1.1 + 8
    drawn = [value for _, values in series for value in values if value is not None]
    room = width - left - 8 - max(map(text_width, map(write, drawn)), default=0.0)
    scale = room / max(drawn, default=0.0) if max(drawn, default=0.0) > 0 else 0.0
    legend, top = _legend([name for name, _ in series], title, width)
    body = [f'<text class="title" x="0" y="16">{escaped(fit(title, width))}</text>', *legend]
    body.append(f'<text x="0" y="34">{escaped(fit(label, width))}</text>')
    said = []
    for row, category in enumerate(categories):
        y = top + row * (BAR * len(series) + SPACE)
        middle = y + BAR * len(series) / 2 + 4
        name = escaped(fit(category, LONGEST_NAME))
        body.append(f'<text class="name" x="{left - 8:.1f}" y="{middle:.1f}" text-anchor="end">{name}</text>')
        for place, (_, values) in enumerate(series):
            if (value := values[row]) is None:
                continue
            below, length = y + place * BAR, max(0.0, value) * scale
            body.append(
                f'<rect class="point s{place}" x="{left:.1f}" y="{below:.1f}" width="{length:.1f}" '
                f'height="{BAR - 1:g}"/>'
                f'<text x="{left + length + 5:.1f}" y="{below + 10:.1f}">{escaped(write(value))}</text>'
            )
        told = (f"{name} {write(v[row])}".strip() for name, v in series if v[row] is not None)  # type: ignore[arg-type]
        said.append(f"{category}: {', '.join(told)}")
    height = top + len(categories) * (BAR * len(series) + SPACE)
    return svg_figure(title, f"{label}; {'; '.join(said)}.", body, width, height)


def _legend(names: Sequence[str], title: str, width: float) -> tuple[list[str], float]:
    """The names with their colors, beside the title or in a row below the label; and where the bars begin."""
    if len(names) < 2:
        return [], 44.0
    sizes = [18 + 1.2 * text_width(name) + 12 for name in names]  # on a phone the type is larger
    is_beside = title_width(title) + 20 + sum(sizes) <= width
    x, y = (width - sum(sizes), 16.0) if is_beside else (0.0, 52.0)
    parts = []
    for place, (name, size) in enumerate(zip(names, sizes, strict=True)):
        parts.append(f'<rect class="point s{place}" x="{x:.1f}" y="{y - 9:g}" width="11" height="11"/>')
        parts.append(f'<text x="{x + 16:.1f}" y="{y:g}">{escaped(name)}</text>')
        x += size
    return parts, 44.0 if is_beside else 62.0
