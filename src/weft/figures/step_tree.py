"""Trees that grow step by step: branches -> one SVG string. Knows no search; what is drawn may be any such tree.

Each step is a column. Within it branches stand in their order, the first on top, and a line leads to each from its
parent in the column before. The main branch is drawn last, over all others.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from weft.figures.svg import escaped, fit, svg_figure, text_width, title_width

Look = Literal["main", "end", "plain", "faint"]
"""The main branch, a finished end, a branch that was continued, and one that was dropped."""

ORDER: tuple[Look, ...] = ("faint", "plain", "end", "main")
"""Drawing order: later looks are drawn over earlier ones."""

ROW_HEIGHT = 24.0
TOP = 32.0
GAP = 26.0
"""Pixels between two columns, for the lines."""
LONGEST_NAME = 120.0
PADDING = 6.0


@dataclass(frozen=True)
class Branch:
    """A node of the tree; `parent` is the index of an earlier branch, None at the root."""

    name: str
    parent: int | None
    look: Look
    tip: str = ""
    """Its tooltip."""


def step_tree(branches: Sequence[Branch], *, title: str) -> str:
    """One tree as an SVG string. Raises ValueError where a branch stands before its parent."""
    for number, branch in enumerate(branches):
        if branch.parent is not None and not 0 <= branch.parent < number:
            raise ValueError(f"branch {number} stands before its parent {branch.parent}")
    boxes = list(_boxes(branches))
    width = max([title_width(title), *(box.x + box.width + 2 for box in boxes)])
    height = max([TOP, *(box.y + ROW_HEIGHT for box in boxes)]) + 2
    order = sorted(range(len(branches)), key=lambda number: ORDER.index(branches[number].look))
    body = [
        f'<text class="title" x="0" y="16">{escaped(title)}</text>',
        *(line for number in order for line in _edge(branches[number], boxes, number)),
        *(_label(branches[number], boxes[number]) for number in order),
    ]
    return svg_figure(title, _describe(branches), body, width, height, shrinks=False)


@dataclass(frozen=True)
class _Box:
    x: float
    y: float
    width: float


def _boxes(branches: Sequence[Branch]) -> Iterator[_Box]:
    steps: list[int] = []
    for branch in branches:
        steps.append(0 if branch.parent is None else steps[branch.parent] + 1)
    widths = [0.0] * (max(steps, default=0) + 1)
    for step, branch in zip(steps, branches, strict=True):
        widths[step] = max(widths[step], min(LONGEST_NAME, text_width(branch.name)) + 2 * PADDING)
    taken = [0] * len(widths)
    for step, branch in zip(steps, branches, strict=True):
        x = 1 + sum(widths[:step]) + GAP * step
        yield _Box(x, TOP + taken[step] * ROW_HEIGHT, min(LONGEST_NAME, text_width(branch.name)) + 2 * PADDING)
        taken[step] += 1


def _edge(branch: Branch, boxes: Sequence[_Box], number: int) -> Iterator[str]:
    if branch.parent is None:
        return
    start, end = boxes[branch.parent], boxes[number]
    x, y = start.x + start.width, start.y + ROW_HEIGHT / 2
    middle, level = end.x - GAP / 2, end.y + ROW_HEIGHT / 2
    # Level until the gap before its column, so that lines do not run through the names of others.
    curve = f"M{x:.1f},{y:g}H{end.x - GAP:.1f}C{middle:.1f},{y:g} {middle:.1f},{level:g} {end.x:.1f},{level:g}"
    yield f'<path class="edge {branch.look}" d="{curve}"/>'


def _label(branch: Branch, box: _Box) -> str:
    tip = f"<title>{escaped(branch.tip)}</title>" if branch.tip else ""
    return (
        f'<g class="branch {branch.look}">{tip}'
        f'<rect x="{box.x:.1f}" y="{box.y + 2:g}" width="{box.width:.1f}" height="{ROW_HEIGHT - 4:g}" rx="4"/>'
        f'<text x="{box.x + box.width / 2:.1f}" y="{box.y + 16:g}" text-anchor="middle">'
        f"{escaped(fit(branch.name, LONGEST_NAME))}</text></g>"
    )


def _describe(branches: Sequence[Branch]) -> str:
    main = " ".join(branch.name for branch in branches if branch.look == "main")
    others = sum(branch.look != "main" for branch in branches)
    return f"A tree of {len(branches):,} branches; the main one reads: {main}; {others:,} others."
