"""Follows a run by the files that it writes, from another process, and judges how it goes. Computes nothing heavy.

Nothing is written, and no lock is held: a run trains as if nobody watched.
"""

import json
import math
import os
import statistics
import time
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np

from weft.analysis.curves import best_validation, column, unit_of_speed
from weft.analysis.html import finite, spaced
from weft.analysis.run_files import Line, Run, needing_weft_json, read_json, read_recipe
from weft.analysis.runs_report import Contender
from weft.errors import RunError, shown
from weft.figures.line_chart import Series
from weft.files import is_locked
from weft.training.divergence import JUDGED_OVER, is_much_worse
from weft.training.metric import Metric

QUIET = 5.0
"""Seconds without news after which it is looked whether a process still works in the folder."""
LONGEST_SILENCE = 900.0
"""Seconds without news, of a process that still works in the folder, that are never too many."""
SILENCES = 20
"""How many times its longest silence so far a run may be silent, if that is more."""
SKIPPED_SHARE = 0.1
"""Share of skipped steps, over JUDGED_OVER steps, from which a run is sick."""
COMPARED = 0.1
"""The losses of two runs are compared over this share of the tokens so far, the last ones."""
UNREAD = Run(
    "", {}, steps=[], validations=[], samples=[], evaluations=[], doctor={}, account={}, machine={}, data={}, recipe=""
)

Points = list[tuple[float, float]]
State = Literal["not begun", "preparing", "training", "stopped", "finished"]


class Tail:
    """The objects in a file of JSON lines that another process writes, replaces or cuts back; null is NaN."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[Line] = []
        self.times_begun = 0
        """How often it was read from its beginning."""
        self.forget()

    def forget(self) -> None:
        self.rows, self.place, self.end, self.file = [], 0, b"", (0, 0)

    def read(self) -> bool:
        """Read the lines that are complete and were not yet read; returns whether `rows` has changed."""
        before = self.times_begun, len(self.rows)
        try:
            with open(self.path, "rb") as file:
                found = os.fstat(file.fileno())
                file.seek(self.place - len(self.end))
                if (found.st_dev, found.st_ino) != self.file or file.read(len(self.end)) != self.end:
                    self.forget()
                    self.times_begun += 1
                    self.file = found.st_dev, found.st_ino
                    file.seek(0)
                data = file.read()
        except (FileNotFoundError, NotADirectoryError):
            self.times_begun += bool(self.rows)
            self.forget()
            return before != (self.times_begun, 0)
        except OSError as error:
            raise RunError(f"{self.path} cannot be read: {error.strerror}") from None
        whole = data[: data.rfind(b"\n") + 1]
        self.place, self.end = self.place + len(whole), (self.end + whole)[-64:]
        for line in whole.splitlines():
            with suppress(ValueError, RecursionError):
                row = json.loads(line)
                if isinstance(row, dict) and finite([row.get("step")]):
                    self.rows.append({key: math.nan if value is None else value for key, value in row.items()})
        return before != (self.times_begun, len(self.rows))


class RunWatch:
    """What the files of a run say. `read` reads what is new; everything else is about what was read."""

    def __init__(self, folder: Path, name: str | None = None) -> None:
        self.folder = folder
        self.name = shown(name or folder.resolve().name, 200)
        self.metrics = Tail(folder / "metrics.jsonl")
        self.run = self.counted = replace(UNREAD, name=self.name)
        self.in_order: list[Line] = []
        self.stamp: tuple[int, int] | None = None
        self.heard_at, self.is_held = 0.0, False

    def read(self) -> bool:
        """Whether anything has changed. Raises RunError for a file that cannot be read or is damaged."""
        changed = self.metrics.read()
        stamp = stamp_of(self.folder / "run.json")
        if stamp != self.stamp:
            changed, self.stamp = True, stamp
            state = read_json(self.folder / "run.json", dict, {})
            last = read_json(self.folder / str(state.get("last")) / "training.json", dict, {}) if state else {}
            recipe = read_recipe(self.folder, state) if state else ""
            self.run = replace(self.run, state=state, data=last.get("data", {}), recipe=recipe)
        if changed:
            rows = self.metrics.rows
            validations = [row for row in rows if any(key.startswith("valid_") for key in row)]
            self.run = replace(self.run, steps=[row for row in rows if "loss" in row], validations=validations)
        held = self.is_held
        if changed or time.time() - self.heard_at > QUIET or self.run.state.get("finished"):
            self.heard_at = max(newest_change(self.folder), self.heard_at)
            self.is_held = is_locked(self.folder / "lock")
        return changed or held != self.is_held

    @property
    def data(self) -> frozenset[str]:
        """sha256 of the files that it trains and validates on."""
        return frozenset(digest for part in self.run.data.values() for digest in part.values())

    @property
    def state(self) -> State:
        if self.is_held:
            return "training" if self.metrics.rows or self.run.state else "preparing"
        if self.run.state.get("finished"):
            return "finished"
        return "stopped" if self.run.state or (self.folder / "checkpoints").is_dir() else "not begun"

    @property
    def last(self) -> Line:
        """The newest line about training, at the step of a newer validation; empty before the first."""
        if not self.run.steps:
            return {}
        newest, places = self.run.steps[-1], self.run.validations[-1:]
        later = [row for row in places if row["step"] > newest["step"]]
        return newest | {key: row[key] for row in later for key in ("step", "epoch", "seconds") if key in row}

    @property
    def lines(self) -> list[Line]:
        """All lines in the order of their steps, each with `seen`, how many tokens were trained on until then."""
        if self.counted is not self.run:
            self.in_order, self.counted = Contender(self.name, self.run).lines, self.run
        return self.in_order

    @property
    def tokens(self) -> Points:
        """Steps, and how many tokens (or what else the task counts) were trained on until each; from (0, 0) on."""
        return [(0.0, 0.0), *((line["step"], line.get("seen", 0.0)) for line in self.lines)]

    @property
    def total_steps(self) -> int | None:
        """How many steps the recipe asks for, where that is known."""
        steps, epochs = (self.number("training", key) for key in ("steps", "epochs"))
        if epochs is not None and self.last.get("epoch", 0) >= 0.005:  # four digits after the point are logged
            epochs = epochs * round(self.last["step"] / self.last["epoch"])
        elif epochs is not None:
            return None
        total = min(int(end) for end in (steps, epochs) if end is not None) if (steps or epochs) else None
        return total if total is None or total >= self.last.get("step", 0) else None

    def number(self, table: str, key: str) -> float | None:
        """A number of the recipe."""
        with suppress(ValueError):
            return float(self.run.setting(table, key))
        return None

    @property
    def seconds_left(self) -> float | None:
        """By the mean time of a step so far, as `weft train` tells it."""
        row, total = self.last, self.total_steps
        if total is None or not row or not finite([row.get("seconds")]):
            return None
        since = min(max(0.0, time.time() - self.heard_at), QUIET)
        return max(0.0, row["seconds"] / row["step"] * (total - row["step"]) - since)

    @property
    def headline(self) -> Metric | None:
        """The metric that selects the best weights; None before the first validation."""
        found = best_validation(self.run)
        return found and found[0]

    def sickness(self) -> list[str]:
        """What is wrong with the run by its metrics, in words; empty if nothing is."""
        return [*diverged(self.run, self.number("training", "divergence") or 1.0), *skipping(self.run), *self.silence()]

    def silence(self) -> Iterator[str]:
        if self.state in ("preparing", "training"):
            silent = time.time() - self.heard_at
            seconds = [row["seconds"] for row in self.metrics.rows if finite([row.get("seconds")])]
            longest = max((b - a for a, b in pairwise(seconds)), default=0.0)
            if silent > max(LONGEST_SILENCE, SILENCES * longest):
                yield f"for {silent / 60:,.0f} minutes its process has written nothing"


def stamp_of(path: Path) -> tuple[int, int] | None:
    """Changes when the file is replaced or written."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def newest_change(folder: Path) -> float:
    """When a file of the run, or one of its checkpoints or prepared files, was last written; 0 without any."""
    times = [0.0]
    for place in (folder, folder / "checkpoints", folder / "corpus"):
        with suppress(OSError):
            for entry in os.scandir(place):
                with suppress(OSError):  # training may remove it at any time
                    times.append(entry.stat().st_mtime)
    return max(times)


# What is wrong


def skipping(run: Run) -> Iterator[str]:
    rows = run.steps
    if not rows:
        return
    if not finite([rows[-1]["loss"]]):
        yield f"at step {rows[-1]['step']:,} the loss is infinite or NaN"
        return
    before = next((row for row in reversed(rows) if rows[-1]["step"] - row["step"] >= JUDGED_OVER), {"step": 0})
    steps, skipped = (rows[-1].get(key, 0) - before.get(key, 0) for key in ("step", "skipped"))
    if skipped > SKIPPED_SHARE * max(steps, JUDGED_OVER):
        yield f"{skipped:,} of the last {steps:,} steps were skipped, since their loss or gradient is infinite or NaN"


def diverged(run: Run, by: float) -> Iterator[str]:
    """By the newest validation, as `rescue.has_diverged` judges; where there was none to compare with, by the
    training loss alone."""
    losses = [(row["step"], row.get("valid_loss", math.nan), row.get("back_to")) for row in run.validations]
    if losses and losses[-1][2] is not None:
        step, loss, back_to = losses[-1]
        yield f"at step {step:,} training had diverged (validation loss {loss:.3g}): back to step {back_to:,}"
        return
    levels = list(levels_of(run))
    if not levels or math.isinf(by):
        return
    lowest, newest = min(levels), levels[-1]
    earlier = [loss for _, loss, _ in losses[:-1] if math.isfinite(loss)]
    is_confirmed = not earlier or is_much_worse(losses[-1][1], min(earlier), by)
    if newest[0] > lowest[0] + by and is_confirmed:
        yield (
            f"the training loss has risen from {lowest[0]:.3g} at step {lowest[1]:,} to {newest[0]:.3g} at step "
            f"{newest[1]:,}"
        )


def levels_of(run: Run) -> Iterator[tuple[float, int]]:
    """The mean training loss over at least JUDGED_OVER steps, and the last of them, again and again."""
    losses, begun = list[float](), 0
    for row in run.steps:
        losses += finite([row.get("nll", row["loss"])])
        if row["step"] - begun >= JUDGED_OVER and losses:
            yield statistics.fmean(losses), row["step"]
            losses, begun = [], row["step"]


# Beside an earlier run


def earlier_run(watch: RunWatch) -> RunWatch | None:
    """The newest finished run beside this one with the same data, task and tokenizer."""
    if not watch.data:
        return None
    here = watch.folder.resolve()
    stamps = {path.parent: stamp_of(path) or (0, 0) for path in here.parent.glob("*/run.json")}
    for place in sorted(stamps.keys() - {here}, key=lambda place: stamps[place][1], reverse=True):
        other = RunWatch(place)
        with suppress(RunError), needing_weft_json(place):
            other.read()
            if other.run.state.get("finished") and other.data and not differences(watch, other):
                return other
    return None


def differences(watch: RunWatch, other: RunWatch) -> list[str]:
    """Why the losses of two runs at the same tokens cannot be compared. What is not known before the first checkpoint
    does not count."""
    unlike = ["data"] if watch.data and other.data and watch.data != other.data else []
    if watch.run.recipe and other.run.recipe:
        unlike += ["task"] if watch.run.setting("", "task") != other.run.setting("", "task") else []
        unlike += ["tokenizer"] if tokenizer_of(watch) != tokenizer_of(other) else []
    return unlike


def tokenizer_of(watch: RunWatch) -> Mapping[str, Any]:
    values = watch.run.values.get("tokenizer", {})
    return values if isinstance(values, Mapping) else {}


def along(points: Points, x: float | None) -> float | None:
    """The y at this x, on the straight line between two points; None outside of them."""
    place = 0 if x is None else bisect_right(points, x, key=lambda point: point[0])
    if x is None or not place or (place == len(points) and x > points[-1][0]):
        return None
    (low, left), (high, right) = points[place - 1], points[min(place, len(points) - 1)]
    return left + (right - left) * (x - low) / ((high - low) or 1)


def loss_key(run: Run) -> str:
    """The key of the training loss, without smoothing if that is logged."""
    return "nll" if run.steps and "nll" in run.steps[-1] else "loss"


def along_rows(rows: Sequence[Line], key: str, step: float | None) -> float | None:
    return along([(row["step"], row[key]) for row in rows if finite([row.get(key)])], step)


def on_steps_of(watch: RunWatch, other: RunWatch, key: str) -> Series:
    """The key in the lines of another run, at the steps where this one had seen as many tokens."""
    steps, tokens = zip(*watch.tokens, strict=True)
    rows = [line for line in other.lines if key in line and line.get("seen", math.inf) <= tokens[-1]]
    places = np.interp([line["seen"] for line in rows], tokens, steps).tolist()
    return column(other.name, [{"step": at, key: row[key]} for at, row in zip(places, rows, strict=True)], key)


def loss_between(run: Run, first: float | None, last: float | None) -> float | None:
    """The mean training loss over these steps, the first not counted; on a line between two rows if there is none."""
    if last is None:
        return None
    key = loss_key(run)
    found = finite([row.get(key) for row in run.steps if (first or 0) < row["step"] <= last])
    return statistics.fmean(found) if found else along_rows(run.steps, key, last)


def standing(watch: RunWatch, other: RunWatch) -> str:
    """How a run stands against another at the same number of tokens, in words; empty before it can be said."""
    here, there = watch.tokens, other.tokens
    (_, tokens), (_, most) = here[-1], there[-1]
    if not tokens or not most:
        return ""
    steps_here, steps_there = ([(y, x) for x, y in points] for points in (here, there))
    unlike = f" (another {', another '.join(unlike)})" if (unlike := differences(watch, other)) else ""
    if tokens > most:
        return f"past the {most:,.0f} {spaced(unit_of_speed(other.run))} of {other.name}{unlike}"
    begin = (1 - COMPARED) * tokens
    loss = loss_between(watch.run, along(steps_here, begin), watch.last["step"])
    other_loss = loss_between(other.run, along(steps_there, begin), along(steps_there, tokens))
    if loss is None or other_loss is None:
        return ""
    apart = f"{abs(loss - other_loss):.2f} nats {'above' if loss > other_loss else 'below'} {other.name}"
    said = f"{apart} at the same tokens{unlike}: {loss:.3f}, there {other_loss:.3f}"
    metric, rows = watch.headline, watch.run.validations
    if metric and metric.name != "loss" and finite([rows[-1].get(metric.key)]):
        step = along(steps_there, along(here, rows[-1]["step"]))
        found = along_rows(other.run.validations, metric.key, step)
        if found is not None:
            said += f"; {metric.title} {rows[-1][metric.key]:{metric.form}}, there {found:{metric.form}}"
    return said
