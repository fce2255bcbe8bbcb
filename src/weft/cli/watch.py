"""`weft watch`: how a run goes, from another terminal."""

import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

import typer

from weft.cli.displays import STATES, PlainDisplay, describe_validation, ending, step_figures, step_place
from weft.errors import UsageError, shown

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from weft.analysis.watching import RunWatch
    from weft.figures.line_chart import Series

LOOK_EVERY = 1.0
"""Seconds between two looks at the files."""
DRAW_SHARE = 1 / 200
"""Most of a core's time that drawing takes."""
DRAW_AT_LEAST_EVERY = 10.0
"""Seconds between two pictures if nothing happens but that time passes."""
LEAST_CHART = 5
"""Lines of the smallest chart, with its title."""
WIDE = 120
"""Columns from which two charts stand side by side."""
STYLES = ("cyan", "bold yellow", "bright_black")
"""How the series of a chart look, in their order."""
FINISHED, SICK, STOPPED = 0, 1, 3
"""Exit codes, with the meaning that they have everywhere in weft."""


def watch(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN|STUDY|FOLDER", help="A run, which need not exist yet, a study, or a folder of runs."
        ),
    ],
    against: Annotated[
        Path | None,
        typer.Option(
            "--against",
            metavar="RUN",
            help="Compare with this run; by default with the newest finished one beside it of the same data.",
            show_default=False,
        ),
    ] = None,
    until: Annotated[
        Literal["finished", "sick"] | None,
        typer.Option(
            "--until",
            help="End once no process trains the run any more; with sick also as soon as something is wrong with it.",
            show_default=False,
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Show how it stands now, and end.")] = False,
) -> None:
    """Show how a run goes while it trains elsewhere: curves, time left, and an earlier run at the same tokens.

    Exits with 0 once the run is finished. With --until, exits with 3 if its process ended before the run was finished;
    with --until sick, also with 1 as soon as something is wrong. Ctrl-C ends only the watching.
    """
    from rich.console import Console

    from weft.analysis.run_files import needing_weft_json

    console = Console()
    try:
        with needing_weft_json(run):
            with suppress(HoldsSeveral):
                raise typer.Exit(show(view_of(run, against), until, once, console))
            raise typer.Exit(show(view_of(run, against), until, once, console))
    except KeyboardInterrupt:
        raise typer.Exit from None


class HoldsSeveral(Exception):
    """What was watched as a run that has not begun turns out to be a study, or a folder of runs."""


def show(view: "View", until: str | None, once: bool, console: "Console") -> int:
    """Show what is watched until it ends, or once; returns the exit code."""
    view.read()
    if not console.is_terminal and not once:
        return tell(view, until)
    code = view.exit_code(until)
    if code is None and not once:
        code = draw(view, until, console)
    console.print(*view.picture(console.width, console.height - 1, console), sep="\n")
    return code or 0


class View(Protocol):
    """What is watched: `read` returns whether anything is new, `exit_code` None while the watching goes on."""

    def read(self) -> bool: ...

    def exit_code(self, until: str | None) -> int | None: ...

    def picture(self, width: int, height: int, console: "Console") -> "list[Text]": ...

    def tell(self) -> None: ...


def view_of(folder: Path, against: Path | None) -> View:
    """Raises UsageError for what cannot be watched."""
    from weft.analysis.watching import RunWatch
    from weft.cli.watch_many import RunsOfFolder, Study

    if not folder.resolve().parent.parent.is_dir():
        raise UsageError(f"there is no folder {folder.parent}, in which a run {folder.name} could begin")
    if folder.is_file():
        raise UsageError(f"{folder} is a file; name the folder of a run or of a study")
    if against is not None and not (against / "metrics.jsonl").is_file():
        raise UsageError(f"--against {against} is not a run: it has no metrics.jsonl")
    is_study = is_begun_study(folder)
    if is_study or holds_runs(folder):
        if against is not None:
            raise UsageError(f"--against is for one run, and {folder} holds several")
        return Study(folder) if is_study else RunsOfFolder(folder)
    return OneRun(RunWatch(folder), None if against is None else RunWatch(against))


def is_begun_study(folder: Path) -> bool:
    """Whether it is the folder of a study that has been prepared; until then it looks like a run that has not begun."""
    return any((place / "facts.json").is_file() for place in (folder, folder / "kept"))


def holds_runs(folder: Path) -> bool:
    """Whether runs have begun in this folder, which is none itself."""
    return not (folder / "run.json").exists() and any(folder.glob("*/run.json"))


class OneRun:
    """A run, and the run that it is compared with."""

    def __init__(self, watch: "RunWatch", other: "RunWatch | None") -> None:
        self.watch, self.other, self.looks_for_other = watch, other, other is None
        self.lines, self.told, self.said = Lines(), 0, set[str]()

    def read(self) -> bool:
        from weft.analysis.watching import earlier_run

        if is_begun_study(self.watch.folder) or holds_runs(self.watch.folder):
            raise HoldsSeveral
        changed = self.watch.read()
        if self.looks_for_other and self.watch.data:
            self.other, self.looks_for_other = earlier_run(self.watch), False
        elif changed and self.other is not None:
            self.other.read()
        return changed

    def exit_code(self, until: str | None) -> int | None:
        state = self.watch.state
        if state == "finished":
            return FINISHED
        if until == "sick" and self.watch.sickness():
            return SICK
        return STOPPED if until is not None and state == "stopped" else None

    def tell(self) -> None:
        """As training itself does: now and then a line about the steps, and one about every validation."""
        watch, validations = self.watch, self.watch.run.validations
        for row in validations[min(self.told, len(validations)) or -1 :]:
            self.lines.on_validation(row, [], row is best_row(watch))
        self.told = len(validations)
        if watch.last:
            self.lines.on_log(watch.last, watch.total_steps)
        news = {STATES[watch.state], *watch.sickness()}
        for text in sorted(news - self.said):
            self.lines.on_message(f"{watch.name}: {text}")
        self.said = news

    def picture(self, width: int, height: int, console: "Console") -> "list[Text]":
        texts = head(self)
        used = sum(len(text.wrap(console, width)) for text in texts)
        return [*texts, *charts(self, width, height - used)]


def draw(view: View, until: str | None, console: "Console") -> int:
    """Draw on the whole terminal until the end: without flicker, since every picture overwrites the last one."""
    from rich.console import Group
    from rich.live import Live

    drawn_at, wait, size, changed = -DRAW_AT_LEAST_EVERY, 0.0, console.size, True
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while (code := view.exit_code(until)) is None:
            now = time.monotonic()
            due = now - drawn_at >= (wait if changed else max(wait, DRAW_AT_LEAST_EVERY))
            if due or console.size != size:
                size, began = console.size, time.process_time()
                live.update(Group(*view.picture(size.width, size.height, console)), refresh=True)
                drawn_at, wait, changed = now, (time.process_time() - began) / DRAW_SHARE, False
            time.sleep(LOOK_EVERY)
            changed = view.read() or changed
    return code


def tell(view: View, until: str | None) -> int:
    """Print lines instead."""
    while True:
        view.tell()
        if (code := view.exit_code(until)) is not None:
            return code
        time.sleep(LOOK_EVERY)
        view.read()


class Lines(PlainDisplay):
    """What is asked for goes to stdout."""

    def on_message(self, text: str) -> None:
        print(shown(text, 1000), file=sys.stdout, flush=True)


def best_row(watch: "RunWatch") -> dict[str, Any] | None:
    from weft.analysis.curves import best_validation

    found = best_validation(watch.run)
    return found and found[1]


# Pictures


def head(one: OneRun) -> "list[Text]":
    from rich.text import Text

    from weft.analysis.watching import standing

    watch, row = one.watch, one.watch.last
    texts = [Text.assemble((watch.name, "bold"), f"  {STATES[watch.state]}")]
    if row:
        total, left = watch.total_steps, watch.seconds_left
        share = f"  {100 * row['step'] / total:.0f} %" if total else ""
        end = f"  {ending(left)}" if watch.state == "training" else ""
        texts += [Text(f"{step_place(row, total)}{share}{end}"), Text(shown(step_figures(row), 1000))]
    texts += [Text(what, "bold red") for what in watch.sickness()]
    best = best_row(watch)
    if watch.run.validations:
        newest = watch.run.validations[-1]
        texts.append(Text(describe_validation(newest, newest is best)))
        if best is not None and best is not newest:
            texts.append(Text(f"best {describe_validation(best, False)}", "dim"))
    if one.other is not None and (text := standing(watch, one.other)):
        texts.append(Text(shown(text, 1000), "green"))
    return texts


def charts(one: OneRun, width: int, height: int) -> "list[Text]":
    """The loss and the headline metric: side by side, one below the other, or the first alone, as there is room."""
    from weft.analysis.curves import column
    from weft.analysis.watching import loss_key, on_steps_of

    watch, other, metric = one.watch, one.other, one.watch.headline
    if not watch.run.steps or height < LEAST_CHART:
        return []
    key = loss_key(watch.run)
    losses = [column("training", watch.run.steps, key), column("validation", watch.run.validations, "valid_loss")]
    drawn = [("loss", [*losses, *([on_steps_of(watch, other, loss_key(other.run))] if other else [])])]
    if metric is not None and metric.name != "loss":
        values = column("validation", watch.run.validations, metric.key)
        nothing = column("", [], "")  # keeps the colors of the first chart
        there = [on_steps_of(watch, other, metric.key)] if other else []
        drawn.append((metric.title, [nothing, values, *there]))
    if len(drawn) == 2 and width >= WIDE:
        half = (width - 2) // 2
        left, right = (chart(*each, half, height) for each in drawn)
        return [beside(one, another, half + 2) for one, another in zip(left, right, strict=True)]
    if height < 2 * LEAST_CHART:
        drawn = drawn[:1]
    heights = [height] if len(drawn) == 1 else [height - height // 2, height // 2]
    return [line for each, lines in zip(drawn, heights, strict=True) for line in chart(*each, width, lines)]


def chart(title: str, series: "list[Series]", width: int, height: int) -> "list[Text]":
    from rich.text import Text

    from weft.figures.terminal_chart import terminal_chart

    names = [(f"  {one.name}", style) for one, style in zip(series, STYLES, strict=False) if len(one.x)]
    top = Text.assemble((title, "bold"), *names, no_wrap=True, overflow="ellipsis")
    top.truncate(width, overflow="ellipsis")
    lines = [top]
    for runs in terminal_chart(series, width, height - 1):
        styled = [(text, "" if of is None else STYLES[of]) for text, of in runs]
        lines.append(Text.assemble(*styled, no_wrap=True, overflow="crop"))
    return [*lines, *[Text("")] * (height - len(lines))]


def beside(left: "Text", right: "Text", width: int) -> "Text":
    left.pad_right(width - left.cell_len)
    left.append_text(right)
    return left
