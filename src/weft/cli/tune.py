"""`weft tune`: train what a study asks for, and tell what it found."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from weft.cli.options import DataRoot, JsonFile, Threads
from weft.cli.outputs import give_results, refuse_place
from weft.cli.rules import Rule, check_options

RULES = [Rule(("--plan",), without=("--cluster", "--json"))]


def tune(
    context: typer.Context,
    study: Annotated[Path, Argument(help="The study, a TOML file, or the folder of one that has begun.")],
    folder: Annotated[
        Path | None, Option("--study", help="The study's folder; by default studies/ and the name of its file.")
    ] = None,
    data: DataRoot = None,
    workers: Annotated[int, Option("--workers", min=1, max=1024, help="Trials that train side by side.")] = 1,
    cluster: Annotated[bool, Option("--cluster", help="Start the workers on a Ray cluster.")] = False,
    plan: Annotated[bool, Option("--plan", help="Train nothing; say how long the study will take.")] = False,
    json: JsonFile = None,
    threads: Threads = None,
) -> None:
    """Train a recipe in many variants and compare them; the same command goes on after a stop.

    Any number of processes, on any machines that share the disk, work together when they are given the same folder.
    """
    check_options(context, RULES)
    from weft.cli.displays import PlainDisplay
    from weft.tuning.results import as_dict, table
    from weft.tuning.study import open_study
    from weft.tuning.workers import work_on_cluster, work_together
    from weft.tuning.working import work

    refuse_place("--json", json, [study])
    display = PlainDisplay()
    opened = open_study(study, folder=folder, data=data, workers=workers, listener=display)
    if cluster:
        work_on_cluster(opened, workers, display)
    elif workers > 1:
        work_together(opened, workers, display)
    else:
        work(opened, display)
    give_results(table(opened).text(), as_dict(opened), json)
