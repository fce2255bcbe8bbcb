"""Numbers, text and tables as HTML. Knows nothing about runs."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

Line = dict[str, Any]


@dataclass(frozen=True)
class Column:
    """A column of a table: its heading, and the key of its values or a function that makes the HTML of a cell."""

    title: str
    value: str | Callable[[Line], str]
    form: str = ""
    """The format of a number; "html" for what a function has formatted."""

    def cell(self, line: Line) -> str:
        if callable(self.value):
            return self.value(line)
        return number(line.get(self.value), self.form) if self.form else text(line.get(self.value))


def table(lines: Iterable[Line], columns: Sequence[Column], *, kind: str = "", caption: str = "") -> str:
    """A table of class `kind` under a `caption` in HTML; a first column of text holds the headings of the rows."""
    looks = [' class="number"' if column.form else ' dir="auto"' for column in columns]
    heads = "".join(f"<th{look}>{column.title}</th>" for column, look in zip(columns, looks, strict=True))
    tags = ["td" if columns[0].form else 'th scope="row"', *["td"] * (len(columns) - 1)]
    rows = "\n".join(
        "<tr>"
        + "".join(
            f"<{tag}{look}>{column.cell(line)}</{tag[:2]}>"
            for tag, look, column in zip(tags, looks, columns, strict=True)
        )
        + "</tr>"
        for line in lines
    )
    named = f' class="{kind}"' if kind else ""
    top = f"<caption>{caption}</caption>" if caption else ""
    return f"<table{named}>{top}\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}\n</tbody></table>"


def text(value: Any) -> str:
    return escape(str("" if value is None else value))


def count(value: Any) -> str:
    return number(value, ",.0f")


def number(value: Any, form: str) -> str:
    """The number in this form; empty for what is not finite, so that a table keeps its cell."""
    return format(value, form) if finite([value]) else ""


def spaced(name: str) -> str:
    return text(name.replace("_", " "))


def duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours:,} h {minutes:02} min"
    return f"{minutes} min {seconds:02} s" if minutes else f"{seconds} s"


def largest(lines: Sequence[Line], key: str) -> float | None:
    return max(finite(line.get(key) for line in lines), default=None)


def finite(values) -> list[float]:
    return [value for value in values if isinstance(value, int | float) and abs(value) <= LARGEST_SHOWN]


LARGEST_SHOWN = 1e15
"""A larger number counts as infinite; a run has none."""
