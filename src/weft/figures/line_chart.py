"""Line charts: columns of numbers to one SVG string, the same for the same numbers. Knows no runs, metrics or files.

A value that cannot be drawn (NaN, infinity, and on a logarithmic axis zero and less) leaves a gap in its line.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from weft.figures.svg import escaped, fit, svg_figure, text_width, title_width
from weft.figures.theme import NUM_COLORS
from weft.figures.words import Say, figure_words

Point = tuple[float, float]

MOST_POINTS = 1000  # drawn of one series; more cannot be seen and make the file heavy
EDGE = 6.0  # pixels right of the plot, enough for the ring around a marked last point
MOST_MARKERS = 60  # up to this many, each point of a series gets a dot that tells its value


@dataclass(frozen=True)
class Series:
    """One line: its points (x[i], y[i]) in drawing order, and its name in the legend."""

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
    height: float = 320,
    log_y: bool = False,
    from_zero: bool = False,
    limits: tuple[float, float] = (-math.inf, math.inf),
    lowest: str | None = None,
    highest: str | None = None,
    language: str = "en",
) -> str:
    """Draw a chart as an SVG string that works inline in HTML and alone in a file.

    `from_zero` makes a linear y axis contain 0, and `limits` are values that it does not pass. `lowest` and `highest`
    name the series whose lowest or highest point is marked with its value and x. `language`, "en" or "zh", is that of
    the description for screen readers. `width` and `height` are in pixels, the height without the rows of the legend;
    the SVG shrinks with its container.
    """
    say = figure_words(language)
    every = [_Line(one.name, index, _pieces(one, log_y)) for index, one in enumerate(series)]
    lines = [line for line in every if line.pieces]
    legend, legend_height = _legend(lines if len(every) > 1 else [], title, width)
    height += legend_height
    top, bottom = 52.0 + legend_height, height - 36.0
    body = [f'<text class="title" x="0" y="16">{escaped(fit(title, width))}</text>', *legend]
    if lines:
        x_values, y_values = zip(*(point for line in lines for point in line.points), strict=True)
        names = [line.name for line in lines]
        room_below, room_above = 0.12 * (lowest in names), 0.12 * (highest in names)
        if log_y:
            y_axis = _log_axis(min(y_values), max(y_values), room_below, room_above)
        else:
            values = (*y_values, 0.0) if from_zero else y_values
            y_axis = _linear_axis(min(values), max(values), room_below, room_above, most_ticks=(bottom - top) / 36)
            y_axis = _within(y_axis, limits)
        left = 8 + max((text_width(label) for label in y_axis.labels), default=0)
        x_axis = _x_axis(min(x_values), max(x_values), most_ticks=(width - left) / 80)
        plot = _Plot(left, width - EDGE, top, bottom, x_axis, y_axis)
        body += _draw_axes(plot, x_label, y_label, width)
        body += [part for line in lines for part in _draw_line(line, plot, say)]
        for name, choose, offset in ((lowest, min, 19), (highest, max, -10)):
            marked = [line for line in lines if line.name == name]
            body += [
                part for line in marked for part in _draw_mark(line, choose(line.points, key=_y), offset, plot, say)
            ]
    else:
        empty = say("no data yet")
        body.append(f'<text x="{width / 2:g}" y="{(top + height) / 2:g}" text-anchor="middle">{empty}</text>')
    return svg_figure(title, _describe(every, x_label, y_label, say), body, width, height)


@dataclass(frozen=True)
class _Line:
    name: str
    index: int
    pieces: list[list[Point]]
    """Points without a gap between them."""

    @property
    def points(self) -> list[Point]:
        return [point for piece in self.pieces for point in piece]

    @property
    def look(self) -> str:
        return f"s{self.index % NUM_COLORS}"

    @property
    def dashes(self) -> str:
        """Lines past the last color repeat the colors with dashes."""
        cycle = self.index // NUM_COLORS
        return f' stroke-dasharray="{6 / cycle:g} 3"' if cycle else ""


def _y(point: Point) -> float:
    return point[1]


def _pieces(series: Series, log_y: bool) -> list[list[Point]]:
    points = [(_settled(x), _settled(y)) for x, y in zip(series.x, series.y, strict=True)]

    def is_drawn(point: Point) -> bool:
        return math.isfinite(point[0]) and math.isfinite(point[1]) and (point[1] > 0 or not log_y)

    return [list(piece) for drawn, piece in groupby(points, is_drawn) if drawn]


def _settled(value: float) -> float:
    """Keep the arithmetic of the axes away from the ends of the floating-point range."""
    value = float(value)
    if abs(value) > 1e100:
        return math.nan
    return 0.0 if abs(value) < 1e-100 else value


# Drawing


@dataclass(frozen=True)
class _Plot:
    left: float
    right: float
    top: float
    bottom: float
    x_axis: "_Axis"
    y_axis: "_Axis"

    def pixels(self, point: Point) -> Point:
        x = self.left + self.x_axis.share(point[0]) * (self.right - self.left)
        y = self.bottom - self.y_axis.share(point[1]) * (self.bottom - self.top)
        return x, y


def _draw_axes(plot: _Plot, x_label: str, y_label: str, width: float) -> Iterator[str]:
    """All labels are horizontal, that of y above its axis."""
    left, right, bottom, x_axis, y_axis = plot.left, plot.right, plot.bottom, plot.x_axis, plot.y_axis
    yield f'<text x="0" y="34">{escaped(fit(y_label + y_axis.factor, width))}</text>'
    for value, label in zip(y_axis.ticks, y_axis.labels, strict=True):
        _, y = plot.pixels((x_axis.low, value))
        yield f'<path class="grid" d="M{left:.1f},{y:.1f}H{right:.1f}"/>'
        yield f'<text x="{left - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'
    yield f'<path class="axis" d="M{left:.1f},{bottom:.1f}H{right:.1f}"/>'
    for value, label in zip(x_axis.ticks, x_axis.labels, strict=True):
        x, _ = plot.pixels((value, y_axis.low))
        yield f'<path class="axis" d="M{x:.1f},{bottom:.1f}v4"/>'
        half = 0.6 * text_width(label)  # a little more, since on a phone the type is larger
        middle = max(half, min(x, width - half))
        yield f'<text x="{middle:.1f}" y="{bottom + 17:.1f}" text-anchor="middle">{label}</text>'
    label = escaped(fit(x_label + x_axis.factor, width))
    yield f'<text x="{right:.1f}" y="{bottom + 33:.1f}" text-anchor="end">{label}</text>'


def _draw_line(line: _Line, plot: _Plot, say: Say) -> Iterator[str]:
    """One path with jumps over the gaps; lone points, and all points of short lines, are dots too."""
    count = len(line.points)
    path, dots = "", []
    for piece in line.pieces:
        points = _thinned(piece, math.ceil(count / MOST_POINTS))
        places = [f"{x:.1f},{y:.1f}" for x, y in map(plot.pixels, points)]
        path += "M" + "L".join(places)
        if count <= MOST_MARKERS or len(piece) == 1:
            dots += zip(points, places, strict=True)
    weight = "" if count <= MOST_MARKERS else " dense"
    yield f'<path class="line{weight} {line.look}"{line.dashes} d="{path}"/>'
    for point, place in dots:
        x, y = place.split(",")
        told = f"<title>{escaped(line.name)}: {_told(point, say)}</title>"
        yield f'<circle class="point {line.look}" cx="{x}" cy="{y}" r="2.2">{told}</circle>'


def _draw_mark(line: _Line, point: Point, offset: float, plot: _Plot, say: Say) -> Iterator[str]:
    """A ring around a point, and its value `offset` pixels below it."""
    x, y = plot.pixels(point)
    if y + offset > plot.bottom - 4:  # the axis ends at the limit of the values
        offset = -10
    elif y + offset < plot.top + 10:
        offset = 19
    note = _told(point, say)
    half = 0.6 * text_width(note)
    if x - half < plot.left:
        x_note, anchor = plot.left, "start"
    elif x + half > plot.right:
        x_note, anchor = plot.right, "end"
    else:
        x_note, anchor = x, "middle"
    yield f'<circle class="ring {line.look}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>'
    yield f'<text class="note" x="{x_note:.1f}" y="{y + offset:.1f}" text-anchor="{anchor}">{note}</text>'


def _thinned(points: list[Point], share: int) -> list[Point]:
    """About one point in `share`: the first, lowest, highest and last of each run of equal length."""
    if share == 1:
        return points
    kept = []
    for start in range(0, len(points), 4 * share):
        run = range(start, min(start + 4 * share, len(points)))
        lowest = min(run, key=lambda index: points[index][1])
        highest = max(run, key=lambda index: points[index][1])
        kept += [points[index] for index in sorted({run[0], lowest, highest, run[-1]})]
    return kept


def _legend(lines: Sequence[_Line], title: str, width: float) -> tuple[list[str], float]:
    """The legend, next to the title where it fits, otherwise in rows below the y label; and the height of the rows."""
    swatch, space, row_height = 22.0, 14.0, 18.0
    names = [fit(line.name, width - swatch) for line in lines]
    sizes = [swatch + text_width(name) for name in names]
    total = sum(sizes) + space * (len(sizes) - 1)
    is_next_to_title = title_width(title) + 2 * space + total + EDGE <= width
    x, y = (width - EDGE - total, 16.0) if is_next_to_title else (0.0, 34.0 + row_height)
    parts = []
    for line, name, size in zip(lines, names, sizes, strict=True):
        if x > 0 and x + size > width + 0.01:
            x, y = 0.0, y + row_height
        parts.append(f'<path class="line {line.look}"{line.dashes} d="M{x:.1f},{y - 4:.1f}h16"/>')
        parts.append(f'<text x="{x + swatch:.1f}" y="{y:.1f}">{escaped(name)}</text>')
        x += size + space
    return parts, 0.0 if is_next_to_title or not lines else y - 34.0


# Axes


@dataclass(frozen=True)
class _Axis:
    low: float
    high: float
    ticks: list[float]
    labels: list[str]
    factor: str = ""
    """What all labels are multiplied by, written after the label of the axis."""
    is_log: bool = False

    def share(self, value: float) -> float:
        """Where on the axis the value is: 0 at `low`, 1 at `high`."""
        if self.is_log:
            low, high = math.log(self.low), math.log(self.high)
            return (math.log(value) - low) / (high - low)
        return (value - self.low) / (self.high - self.low)


def _x_axis(low: float, high: float, most_ticks: float) -> _Axis:
    low, high = _widened(low, high)
    if 0 < low < 0.1 * high:
        low = 0.0
    return _ticked(low, high, _round_step((high - low) / most_ticks))


def _linear_axis(low: float, high: float, room_below: float, room_above: float, most_ticks: float) -> _Axis:
    low, high = _widened(low, high)
    low, high = low - room_below * (high - low), high + room_above * (high - low)
    step = _round_step((high - low) / most_ticks)
    # A hair inward, so that rounding errors do not add an empty row.
    low, high = step * math.floor(low / step + 1e-6), step * math.ceil(high / step - 1e-6)
    return _ticked(low, high, step)


def _within(axis: _Axis, limits: tuple[float, float]) -> _Axis:
    """The axis without what lies beyond the limits, unless nothing else is left."""
    low, high = max(axis.low, limits[0]), min(axis.high, limits[1])
    if low >= high or (low, high) == (axis.low, axis.high):
        return axis
    kept = [pair for pair in zip(axis.ticks, axis.labels, strict=True) if low <= pair[0] <= high]
    return replace(axis, low=low, high=high, ticks=[tick for tick, _ in kept], labels=[label for _, label in kept])


def _log_axis(low: float, high: float, room_below: float, room_above: float) -> _Axis:
    low, high = math.log10(low), math.log10(high)
    if high - low < 0.005:
        low, high = low - 0.2, high + 0.2
    low, high = low - room_below * (high - low), high + room_above * (high - low)
    decades = high - low
    if decades < 1:
        linear = _ticked(10.0**low, 10.0**high, _round_step((10.0**high - 10.0**low) / 5))
        return replace(linear, is_log=True)
    factors = (1,) if decades > 2.5 else (1, 3) if decades > 1.5 else (1, 2, 5)
    exponents = [n for n in range(math.floor(low), math.ceil(high) + 1) if n % math.ceil(decades / 6) == 0]
    ticks = [factor * 10.0**exponent for exponent in exponents for factor in factors]
    ticks = [tick for tick in ticks if low - 1e-9 <= math.log10(tick) <= high + 1e-9]
    return _Axis(10.0**low, 10.0**high, ticks, [_number(tick) for tick in ticks], is_log=True)


def _widened(low: float, high: float) -> tuple[float, float]:
    """Give a range some extent where all values are the same but for rounding; zeros are at its low end."""
    largest = max(abs(low), abs(high))
    if not largest:
        return 0.0, 1.0
    if high - low > 1e-9 * largest:
        return low, high
    return low - 0.1 * largest, high + 0.1 * largest


def _round_step(least: float) -> float:
    """The smallest of 1, 2, 2.5, 5 times a power of ten that is not less than `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= least * (1 - 1e-9))


def _ticked(low: float, high: float, step: float) -> _Axis:
    ticks = [index * step for index in range(math.ceil(low / step - 1e-6), math.floor(high / step + 1e-6) + 1)]
    largest = max(abs(low), abs(high))
    magnitude = math.floor(math.log10(largest) + 1e-9)
    exponent = magnitude if largest < 0.01 else 3 * (magnitude // 3) if largest >= 1e6 else 0
    scaled_step = step / 10.0**exponent
    decimals = next((d for d in range(12) if abs(round(scaled_step, d) - scaled_step) < 1e-6 * scaled_step), 12)
    # + 0.0 turns a rounded -0.0 into 0.0
    labels = [_minus(f"{round(tick / 10.0**exponent, decimals) + 0.0:,.{decimals}f}") for tick in ticks]
    return _Axis(low, high, ticks, labels, f" (×{_power_of_ten(exponent)})" if exponent else "")


# Text


def _told(point: Point, say: Say) -> str:
    return say("{y} at {x}", x=_number(point[0]), y=_number(point[1]))


def _number(value: float) -> str:
    """Four significant digits of a fraction: 12,500  23.61  0.00042  1.5×10⁻⁷."""
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


def _describe(lines: Sequence[_Line], x_label: str, y_label: str, say: Say) -> str:
    description = say("Line chart of {y} by {x}.", x=x_label, y=y_label)
    for line in lines:
        if not (points := line.points):
            description += say(" {name}: no data.", name=line.name)
            continue
        (low_x, low), (high_x, high) = min(points, key=_y), max(points, key=_y)
        numbers = {"low": low, "low_x": low_x, "high": high, "high_x": high_x, "last": points[-1][1]}
        shown = {key: _number(value) for key, value in numbers.items()}
        plural = "s" if len(points) > 1 else ""
        description += say(
            " {name}: {count} point{s}, lowest {low} at {low_x}, highest {high} at {high_x}, last {last}.",
            name=line.name,
            count=f"{len(points):,}",
            s=plural,
            **shown,
        )
    return description
