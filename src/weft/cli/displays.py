"""What a verb shows while it works: a live display in a terminal, plain lines anywhere else, all on stderr."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from weft.errors import shown
from weft.files import megabytes
from weft.folders.metrics import METRICS

if TYPE_CHECKING:
    from rich.progress import TaskID

PLAIN_EVERY = 10.0
"""Seconds between two plain lines about the same work."""
COUNT_EVERY = 5.0
"""Seconds between two lines of a Counter."""
MARKS = {"reference": "= ", "hypothesis": "> "}
STYLES = {"reference": "dim", "hypothesis": "cyan"}
"""How the parts of a sample are told apart."""
STATES = {
    "not begun": "not begun: waiting for weft train",
    "preparing": "being prepared",
    "training": "training",
    "stopped": "stopped: the same weft train command continues it",
    "finished": "finished",
}
"""What a run that is watched is doing, in the order in which it does it."""


@contextmanager
def choose_display() -> "Iterator[PlainDisplay | LiveDisplay]":
    """The display that suits stderr, for as long as the block runs."""
    if sys.stderr.isatty():
        with LiveDisplay() as display:
            yield display
    else:
        yield PlainDisplay()


class PlainDisplay:
    """One line at intervals, for logs and pipes."""

    def __init__(self) -> None:
        self.step_shown_at = -PLAIN_EVERY  # the first step is shown at once
        self.file_shown_at = time.monotonic()
        self.begun: dict[str, tuple[float, int]] = {}
        """For each file the time at which it was first seen, and the bytes that had been read before."""

    def on_message(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def on_log(self, row: dict[str, Any], total_steps: int | None) -> None:
        if row["seconds"] - self.step_shown_at < PLAIN_EVERY:
            return
        self.step_shown_at = row["seconds"]
        text = f"{step_place(row, total_steps)}  {step_figures(row)}"
        if total_steps is not None:
            text += f"  left {clock(row['seconds'] / row['step'] * (total_steps - row['step']))}"
        self.on_message(text)

    def on_validation(self, row: dict[str, Any], samples: list[dict[str, str]], is_best: bool) -> None:
        self.on_message(describe_validation(row, is_best))
        for sample in samples:
            self.on_message("\n".join(f"    {MARKS.get(name, '')}{text}" for name, text in sample.items()))

    def on_progress(self, name: str, done: int, total: int | None, lines: int | None = None) -> None:
        """Bytes of a file that are done, of `total` where that is known, and how many lines they are."""
        now = time.monotonic()
        began, done_before = self.begun.setdefault(name, (now, done))
        if now - self.file_shown_at < PLAIN_EVERY:
            return
        self.file_shown_at = now
        place = ""
        if total:
            read = done - done_before
            left = f", left {clock((now - began) / read * (total - done))}" if read else ""
            place = f", {100 * done / total:.1f} %{left}"
        self.on_message(f"{name}: {file_figures(done, total, lines)}{place}")


class LiveDisplay:
    """A line for the training or for each file: percent and time left, then the newest figures, in 80 columns. Messages
    scroll by above it."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import Progress, TextColumn, TimeRemainingColumn

        self.console = Console(stderr=True)
        self.progress = Progress(
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.description}", markup=False),
            TextColumn("{task.fields[figures]}", markup=False),
            console=self.console,
            refresh_per_second=4,
        )
        self.bars: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.progress.stop()

    def on_message(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, emoji=False)

    def on_log(self, row: dict[str, Any], total_steps: int) -> None:
        speeds = [f"{row[key]:,.0f} tok/s  " for key in row if key.endswith("_per_second")]
        figures = f"loss {row['loss']:.3f}  {''.join(speeds)}rate {row['learning_rate']:.1e}"
        self._show("training", f"step {row['step']:,}/{total_steps:,}", row["step"], total_steps, figures)

    def on_step(self, step: int, total_steps: int) -> None:
        """Called after every step, so that the line is there from the first one on."""
        figures = "" if "training" not in self.bars else self.progress.tasks[self.bars["training"]].fields["figures"]
        self._show("training", f"step {step:,}/{total_steps:,}", step, total_steps, figures)

    def on_validation(self, row: dict[str, Any], samples: list[dict[str, str]], is_best: bool) -> None:
        from rich.table import Table
        from rich.text import Text

        self.console.print(describe_validation(row, is_best), style="bold" if is_best else "", highlight=False)
        table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
        for sample in samples:
            table.add_row(*(Text(text, style=STYLES.get(name, "")) for name, text in sample.items()))
        self.console.print(table)

    def on_progress(self, name: str, done: int, total: int | None, lines: int | None = None) -> None:
        """Bytes of a file that are done, of `total` where that is known, and how many lines they are."""
        self._show(name, name, done, total, file_figures(done, total, lines))

    def _show(self, key: str, description: str, done: int, total: int | None, figures: str) -> None:
        if key not in self.bars:  # what was done before this command says nothing about its speed
            self.bars[key] = self.progress.add_task(description, total=total, completed=done, figures=figures)
        self.progress.update(self.bars[key], completed=done, total=total, description=description, figures=figures)


def step_place(row: dict[str, Any], total_steps: int | None) -> str:
    total = "" if total_steps is None else f"/{total_steps:,}"
    return f"step {row['step']:,}{total}  epoch {row['epoch']:.2f}"


def ending(seconds: float | None) -> str:
    """The time left, and when that will be; empty if it is not known."""
    if seconds is None:
        return ""
    return f"left {clock(seconds)}, ends {time.strftime('%H:%M', time.localtime(time.time() + seconds))}"


def step_figures(row: dict[str, Any]) -> str:
    speeds = [f"{row[key]:,.0f} {key.removesuffix('_per_second')}/s  " for key in row if key.endswith("_per_second")]
    speed = "".join(speeds).replace("_", " ")
    return f"loss {row['loss']:.3f}  {speed}rate {row['learning_rate']:.2e}  norm {row['grad_norm']:.2f}"


def file_figures(done: int, total: int | None, lines: int | None) -> str:
    size = f"{megabytes(done)} of {megabytes(total)}" if total else megabytes(done)
    return size if lines is None else f"{lines:,} lines, {size}"


def describe_validation(row: dict[str, Any], is_best: bool) -> str:
    """Every valid_NAME of the row, as the metric of that name is shown; control characters are escaped."""
    known = {metric.key: metric for metrics in METRICS.values() for metric in metrics}
    found = [
        f"{known[key].title} {value:{known[key].form}}" if key in known else f"{key.removeprefix('valid_')} {value:.4g}"
        for key, value in row.items()
        if key.startswith("valid_")
    ]
    place = f"step {row['step']:,} (epoch {row['epoch']:.2f}, {clock(row['seconds'])})"
    return shown(f"validation at {place}: {', '.join(found)}{', the best so far' if is_best else ''}", 1000)


def clock(seconds: float) -> str:
    """3725 -> 1:02:05, 65 -> 1:05."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


class Counter:
    """A line on stderr now and then about work on sentences, or something else, that takes long."""

    def __init__(self, name: str, counted: str = "sentences") -> None:
        self.counted = counted
        self.name, self.begun, self.shown_at = name, time.monotonic(), time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self.shown_at >= COUNT_EVERY and done < total:
            self.shown_at = now
            left = clock((now - self.begun) / done * (total - done))
            print(f"{self.name}: {done:,} of {total:,} {self.counted}, left {left}", file=sys.stderr, flush=True)
