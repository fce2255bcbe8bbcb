"""`weft train`: train by a recipe into a run folder."""

import os
import shlex
import time
from contextlib import nullcontext
from typing import Annotated

import typer

from weft.cli.options import DataRoot, Overrides, RecipeFile, RunFolder, Threads


def train(
    recipe: RecipeFile,
    run: RunFolder = None,
    data: DataRoot = None,
    overrides: Overrides = None,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Train for as many steps as fit into this time from start to exit, such as 30m or 1h30m.",
            show_default=False,
        ),
    ] = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write the metrics for TensorBoard, into RUN/tensorboard.")
    ] = False,
    threads: Threads = None,
) -> None:
    """Train a model; the same command resumes a run that was stopped.

    Ctrl-C saves and stops, twice quits. On several devices: torchrun --nproc-per-node 2 -m -- weft train ...
    """
    began = process_began()  # starting Python and its imports take seconds of a budget
    from weft.analysis.report import write_report
    from weft.cli.displays import choose_display
    from weft.folders.finding import task_of
    from weft.folders.kinds import KINDS
    from weft.runs.budget import Budget, describe_outcome
    from weft.runs.train import Silent
    from weft.runs.train import train as train_by_recipe
    from weft.training.distributed import is_first_process

    given = None if budget is None else Budget.parse(budget, began)
    with choose_display() if is_first_process() else nullcontext(Silent()) as display:
        folder = train_by_recipe(
            recipe,
            run=run,
            data=data,
            overrides=overrides or (),
            budget=given,
            listener=display,
            tensorboard=tensorboard,
        )
    if not is_first_process():
        return
    trained = time.monotonic()
    write_report(folder)
    typer.echo(f"report: {folder / 'report.html'}", err=True)
    typer.echo(f"try it: {KINDS[task_of(folder)].usage.format(folder=shlex.quote(str(folder)))}", err=True)
    if given is not None:
        typer.echo(describe_outcome(folder, since=time.monotonic() - trained), err=True)


def process_began() -> float:
    """When this process started, by the clock of time.monotonic(): on Linux as the kernel counts it, otherwise now."""
    try:
        with open("/proc/self/stat", encoding="utf-8") as file:
            ticks = int(file.read().rpartition(")")[2].split()[19])  # starttime of proc(5)
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, AttributeError):
        age = 0.0
    return time.monotonic() - age
