"""Line charts: columns of numbers -> one SVG string, the same for the same numbers. Knows no runs, metrics or files.

What cannot stand on the paper (NaN, infinity, and on a logarithmic axis zero and less) leaves a gap in its line.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from weft.figures.svg import escaped, fit, svg_figure, text_width, title_width
from weft.figures.theme import NUM_COLORS

Point = tuple[float, float]
GAP: Point = (math.nan, math.nan)

MOST_POINTS = 1000  # of one series in the SVG; more cannot be seen and makes the file heavy
EDGE = 6.0  # pixels right of the plot, enough for the ring around a marked last point
MOST_MARKERS = 60  # up to this many, each point of a series gets a dot that tells its value


@dataclass(frozen=True)
class Series:
    """One line: its points (x[i], y[i]) in drawing order, and the name it has in the legend."""

    name: str
    x: Sequence[float]
    y: Sequence[float]

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise ValueError(f"series {self.name!r} has {len(self.x)} x values and {len(self.y)} y values")


def line_chart(
    series: Sequence[Series],
    *,
    title: str,
    x_label: str,
    y_label: str,
    width: int = 720,
    height: int = 320,
    log_y: bool = False,
    from_zero: bool = False,
    lowest: str | None = None,
    highest: str | None = None,
    language: str = "en",
) -> str:
    """One chart as an SVG string that stands inline in HTML or alone in a file.

    `from_zero` makes a linear y axis contain 0. `lowest` and `highest` name the series whose lowest or highest point is
    marked, its value and x written beside it. `language`, "en" or "zh", is that of the description for those who do not
    see the chart. `width` and `height` are in pixels; the SVG shrinks with its container.
    """
    lines = [_Line(one.name, index, _points(one, log_y)) for index, one in enumerate(series)]
    marks = [
        _Mark(line, choose(line.drawable, key=lambda point: point[1]), above)
        for name, choose, above in ((lowest, min, False), (highest, max, True))
        for line in lines
        if line.name == name and line.drawable
    ]
    everything = [point for line in lines for point in line.drawable]
    description = _describe(lines, x_label, y_label, language)

    legend = _legend([line for line in lines if len(lines) > 1 and line.drawable], title, width)
    top, bottom = 52.0 + legend.extra_height, height - 36.0
    body = [f'<text class="title" x="0" y="16">{escaped(fit(title, width))}</text>', *legend.parts]
    if everything:
        y_values = [y for _, y in everything]
        room_below, room_above = any(not mark.above for mark in marks), any(mark.above for mark in marks)
        if log_y:
            y_axis = _log_axis(y_values, room_below, room_above)
        else:
            y_axis = _linear_axis(y_values, room_below, room_above, from_zero, most_ticks=(bottom - top) / 36)
        left = 8 + max((text_width(label) for label in y_axis.labels), default=0)
        x_axis = _x_axis([x for x, _ in everything], most_ticks=(width - left) / 80)
        paper = _Paper(left, width - EDGE, top, bottom, x_axis, y_axis)
        body += _draw_axes(paper, x_label, y_label, width)
        body += [part for line in lines for part in _draw_line(line, paper)]
        body += [part for mark in marks for part in _draw_mark(mark, paper)]
    else:
        body.append(f'<text x="{width / 2:g}" y="{(top + height) / 2:g}" text-anchor="middle">no data yet</text>')
    return svg_figure(title, description, body, width, height)


@dataclass(frozen=True)
class _Line:
    name: str
    index: int
    points: list[Point]  # with GAP where the pen is lifted

    @property
    def drawable(self) -> list[Point]:
        return [point for point in self.points if point is not GAP]

    @property
    def look(self) -> str:
        return f"s{self.index % NUM_COLORS}"

    @property
    def dashes(self) -> str:
        """Lines past the last color repeat the colors, told apart by their dashes."""
        cycle = self.index // NUM_COLORS
        return f' stroke-dasharray="{6 / cycle:g} 3"' if cycle else ""


@dataclass(frozen=True)
class _Mark:
    line: _Line
    point: Point
    above: bool


def _points(series: Series, log_y: bool) -> list[Point]:
    points = []
    for raw_x, raw_y in zip(series.x, series.y, strict=True):
        x, y = _settled(raw_x), _settled(raw_y)
        points.append((x, y) if math.isfinite(x) and math.isfinite(y) and (y > 0 or not log_y) else GAP)
    return points


def _settled(value: float) -> float:
    """Keep the arithmetic of the axes away from the ends of the floating-point range."""
    value = float(value)
    if abs(value) > 1e100:
        return math.nan
    return 0.0 if abs(value) < 1e-100 else value


# The drawing


@dataclass(frozen=True)
class _Paper:
    left: float
    right: float
    top: float
    bottom: float
    x_axis: "_Axis"
    y_axis: "_Axis"

    def place(self, point: Point) -> Point:
        """From the numbers of the data to pixels."""
        x = self.left + self.x_axis.share(point[0]) * (self.right - self.left)
        y = self.bottom - self.y_axis.share(point[1]) * (self.bottom - self.top)
        return x, y


def _draw_axes(paper: _Paper, x_label: str, y_label: str, width: float) -> Iterator[str]:
    """Labels stand level, the one of y above its axis, so that nobody has to turn the head."""
    left, right, bottom, x_axis, y_axis = paper.left, paper.right, paper.bottom, paper.x_axis, paper.y_axis
    yield f'<text x="0" y="34">{escaped(fit(y_label + y_axis.factor, width))}</text>'
    for value, label in zip(y_axis.ticks, y_axis.labels, strict=True):
        _, y = paper.place((x_axis.low, value))
        yield f'<path class="grid" d="M{left:.1f},{y:.1f}H{right:.1f}"/>'
        yield f'<text x="{left - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'
    yield f'<path class="axis" d="M{left:.1f},{bottom:.1f}H{right:.1f}"/>'
    for value, label in zip(x_axis.ticks, x_axis.labels, strict=True):
        x, _ = paper.place((value, y_axis.low))
        yield f'<path class="axis" d="M{x:.1f},{bottom:.1f}v4"/>'
        half = 0.6 * text_width(label)  # a little more, since on a phone the type is larger
        middle = max(half, min(x, width - half))
        yield f'<text x="{middle:.1f}" y="{bottom + 17:.1f}" text-anchor="middle">{label}</text>'
    label = escaped(fit(x_label + x_axis.factor, width))
    yield f'<text x="{right:.1f}" y="{bottom + 33:.1f}" text-anchor="end">{label}</text>'


def _draw_line(line: _Line, paper: _Paper) -> Iterator[str]:
    """The line as one path with jumps over its gaps; lone points, and all points of short lines, as dots too."""
    thinned = _thinned(line.points)
    path, dots, previous = "", [], GAP
    has_markers = len(line.drawable) <= MOST_MARKERS
    for index, point in enumerate(thinned):
        if point is not GAP:
            x, y = paper.place(point)
            path += f"{'M' if previous is GAP else 'L'}{x:.1f},{y:.1f}"
            following = thinned[index + 1] if index + 1 < len(thinned) else GAP
            if has_markers or (previous is GAP and following is GAP):
                told = f"<title>{escaped(line.name)}: {_number(point[1])} at {_number(point[0])}</title>"
                dots.append(f'<circle class="point {line.look}" cx="{x:.1f}" cy="{y:.1f}" r="2.2">{told}</circle>')
        previous = point
    if path:
        weight = "" if has_markers else " dense"
        yield f'<path class="line{weight} {line.look}"{line.dashes} d="{path}"/>'
    yield from dots


def _draw_mark(mark: _Mark, paper: _Paper) -> Iterator[str]:
    x, y = paper.place(mark.point)
    note = f"{_number(mark.point[1])} at {_number(mark.point[0])}"
    baseline = y - 10 if mark.above else y + 19
    half = 0.6 * text_width(note)
    if x - half < paper.left:
        x_note, anchor = paper.left, "start"
    elif x + half > paper.right:
        x_note, anchor = paper.right, "end"
    else:
        x_note, anchor = x, "middle"
    yield f'<circle class="ring {mark.line.look}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>'
    yield f'<text class="note" x="{x_note:.1f}" y="{baseline:.1f}" text-anchor="{anchor}">{note}</text>'


def _thinned(points: list[Point]) -> list[Point]:
    """At most MOST_POINTS of them: of each of many equal runs the first, lowest, highest and last, and one gap."""
    if len(points) <= MOST_POINTS:
        return points
    kept_of_each = 5
    size = math.ceil(len(points) / (MOST_POINTS // kept_of_each))
    kept = []
    for start in range(0, len(points), size):
        run = range(start, min(start + size, len(points)))
        drawable = [index for index in run if points[index] is not GAP]
        chosen = set()
        if drawable:
            lowest = min(drawable, key=lambda index: points[index][1])
            highest = max(drawable, key=lambda index: points[index][1])
            chosen = {drawable[0], lowest, highest, drawable[-1]}
        if len(drawable) < len(run):
            chosen.add(next(index for index in run if points[index] is GAP))
        kept += [points[index] for index in sorted(chosen)]
    return kept


@dataclass(frozen=True)
class _Legend:
    parts: list[str]
    extra_height: float


def _legend(lines: Sequence[_Line], title: str, width: float) -> _Legend:
    """Beside the title where it fits, else in rows of its own below the y label."""
    swatch, space, row_height = 22.0, 14.0, 18.0
    names = [fit(line.name, width - swatch) for line in lines]
    sizes = [swatch + text_width(name) for name in names]
    total = sum(sizes) + space * (len(sizes) - 1)
    beside = title_width(title) + 2 * space + total + EDGE <= width
    x, y = (width - EDGE - total, 16.0) if beside else (0.0, 34.0 + row_height)
    parts = []
    for line, name, size in zip(lines, names, sizes, strict=True):
        if x > 0 and x + size > width + 0.01:
            x, y = 0.0, y + row_height
        parts.append(f'<path class="line {line.look}"{line.dashes} d="M{x:.1f},{y - 4:.1f}h16"/>')
        parts.append(f'<text x="{x + swatch:.1f}" y="{y:.1f}">{escaped(name)}</text>')
        x += size + space
    return _Legend(parts, 0.0 if beside or not lines else y - 34.0)


# Axes


@dataclass(frozen=True)
class _Axis:
    low: float
    high: float
    ticks: list[float]
    labels: list[str]
    factor: str = ""  # what every label is to be multiplied by, written after the axis label
    is_log: bool = False

    def share(self, value: float) -> float:
        """How far along the axis the value stands: 0 at `low`, 1 at `high`."""
        if self.is_log:
            low, high = math.log(self.low), math.log(self.high)
            return (math.log(value) - low) / (high - low)
        return (value - self.low) / (self.high - self.low)


def _x_axis(values: Sequence[float], most_ticks: float) -> _Axis:
    low, high = _widened(min(values), max(values))
    if 0 < low < 0.1 * high:
        low = 0.0
    return _ticked(low, high, _round_step((high - low) / most_ticks))


def _linear_axis(
    values: Sequence[float], room_below: bool, room_above: bool, from_zero: bool, most_ticks: float
) -> _Axis:
    low, high = min(values), max(values)
    if from_zero:
        low, high = min(low, 0.0), max(high, 0.0)
    low, high = _widened(low, high)
    room = 0.12 * (high - low)
    low, high = low - room * room_below, high + room * room_above
    step = _round_step((high - low) / most_ticks)
    # A hair inward, so that rounding errors do not add an empty row.
    low, high = step * math.floor(low / step + 1e-6), step * math.ceil(high / step - 1e-6)
    return _ticked(low, high, step)


def _widened(low: float, high: float) -> tuple[float, float]:
    """A range with some extent, also where all values are the same but for rounding; zeros stand at its foot."""
    largest = max(abs(low), abs(high))
    if not largest:
        return 0.0, 1.0
    if high - low > 1e-9 * largest:
        return low, high
    margin = 0.1 * largest
    return low - margin, high + margin


def _round_step(least: float) -> float:
    """The smallest of 1, 2, 2.5, 5 times a power of ten that is not less than `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= least * (1 - 1e-9))


def _ticked(low: float, high: float, step: float) -> _Axis:
    first, last = math.ceil(low / step - 1e-6), math.floor(high / step + 1e-6)
    ticks = [index * step for index in range(first, last + 1)]
    largest = max(abs(low), abs(high))
    magnitude = math.floor(math.log10(largest) + 1e-9)
    exponent = magnitude if largest < 0.01 else 3 * (magnitude // 3) if largest >= 1e6 else 0
    scaled_step = step / 10.0**exponent
    decimals = next((d for d in range(12) if abs(round(scaled_step, d) - scaled_step) < 1e-6 * scaled_step), 12)
    # + 0.0 turns a rounded -0.0 into 0.0
    labels = [_minus(f"{round(tick / 10.0**exponent, decimals) + 0.0:,.{decimals}f}") for tick in ticks]
    return _Axis(low, high, ticks, labels, f" (×{_power_of_ten(exponent)})" if exponent else "")


def _log_axis(values: Sequence[float], room_below: bool, room_above: bool) -> _Axis:
    low, high = math.log10(min(values)), math.log10(max(values))
    if high - low < 0.005:
        low, high = low - 0.2, high + 0.2
    room = 0.12 * (high - low)
    low, high = low - room * room_below, high + room * room_above
    decades = high - low
    if decades < 1:
        linear = _ticked(10.0**low, 10.0**high, _round_step((10.0**high - 10.0**low) / 5))
        return replace(linear, is_log=True)
    every = math.ceil(decades / 6)
    exponents = range(math.floor(low), math.ceil(high) + 1)
    factors = (1,) if decades > 2.5 else (1, 3) if decades > 1.5 else (1, 2, 5)
    ticks = [factor * 10.0**exponent for exponent in exponents if exponent % every == 0 for factor in factors]
    ticks = [tick for tick in ticks if low - 1e-9 <= math.log10(tick) <= high + 1e-9]
    return _Axis(10.0**low, 10.0**high, ticks, [_number(tick) for tick in ticks], is_log=True)


# Text


def _number(value: float) -> str:
    """As a reader writes it, most often four digits: 12,500  23.61  0.00042  1.5×10⁻⁷."""
    if value == 0 or 1e-4 <= abs(value) < 1e7:
        decimals = 0 if value == round(value) else max(0, 3 - math.floor(math.log10(abs(value))))
        written = f"{value:,.{decimals}f}"
        return _minus(written.rstrip("0").rstrip(".") if decimals else written)
    mantissa, exponent = f"{value:.2e}".split("e")
    power = _power_of_ten(int(exponent))
    return power if mantissa == "1.00" else f"{_minus(mantissa.rstrip('0').rstrip('.'))}×{power}"


def _power_of_ten(exponent: int) -> str:
    return "10" + str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _minus(number: str) -> str:
    return number.replace("-", "−")


@dataclass(frozen=True)
class _Description:
    chart: str
    line: str
    point: str
    points: str
    no_data: str
    space: str


_DESCRIPTIONS = {
    "en": _Description(
        chart="Line chart of {y} by {x}.",
        line="{name}: {points}, lowest {low} at {low_x}, highest {high} at {high_x}, last {last}.",
        point="{count} point",
        points="{count} points",
        no_data="{name}: no data.",
        space=" ",
    ),
    "zh": _Description(
        chart="折线图：{y}随{x}的变化。",
        line="{name}：{points}，最低 {low}（在 {low_x}），最高 {high}（在 {high_x}），最后 {last}。",
        point="{count} 个点",
        points="{count} 个点",
        no_data="{name}：没有数据。",
        space="",
    ),
}


def _describe(lines: Sequence[_Line], x_label: str, y_label: str, language: str) -> str:
    words = _DESCRIPTIONS[language]
    parts = [words.chart.format(x=x_label, y=y_label)]
    for line in lines:
        points = line.drawable
        if not points:
            parts.append(words.no_data.format(name=line.name))
            continue
        low, high = min(points, key=lambda point: point[1]), max(points, key=lambda point: point[1])
        numbers = {"low": low[1], "low_x": low[0], "high": high[1], "high_x": high[0], "last": points[-1][1]}
        count = (words.points if len(points) > 1 else words.point).format(count=f"{len(points):,}")
        shown = {key: _number(value) for key, value in numbers.items()}
        parts.append(words.line.format(name=line.name, points=count, **shown))
    return words.space.join(parts)
