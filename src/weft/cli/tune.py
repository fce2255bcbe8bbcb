"""`weft tune`: train what a study asks for, and tell what it found."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from weft.cli.options import DataRoot, JsonFile, Latex, Markdown, ReportLanguage, Threads
from weft.cli.outputs import give_results, refuse_places
from weft.cli.rules import Rule, check_options
from weft.errors import counted

if TYPE_CHECKING:
    from weft.cli.displays import PlainDisplay
    from weft.tuning.study import Study

StudyFolder = Annotated[
    Path | None,
    Option("--study", help="The study's folder; by default studies/ and the name of its file, or RECIPE-ablation."),
]
Workers = Annotated[int, Option("--workers", min=1, max=1024, help="Trials that train side by side.")]
Cluster = Annotated[bool, Option("--cluster", help="Start the workers on a Ray cluster.")]
Plan = Annotated[bool, Option("--plan", help="Train nothing; make the study and say how long it will take.")]
Worker = Annotated[
    int | None, Option("--worker", hidden=True, help="Train for the process of this number, which tells the results.")
]

PLAN_ALONE = Rule(("--plan",), without=("--cluster", "--json", "--markdown", "--latex"))


def tune(
    context: typer.Context,
    study: Annotated[Path, Argument(help="The study, a TOML file, or the folder of one that has begun.")],
    folder: StudyFolder = None,
    data: DataRoot = None,
    workers: Workers = 1,
    cluster: Cluster = False,
    plan: Plan = False,
    json: JsonFile = None,
    markdown: Markdown = None,
    latex: Latex = None,
    language: ReportLanguage = "en",
    threads: Threads = None,
    worker: Worker = None,
) -> None:
    """Train a recipe in many variants and compare them; the same command goes on after a stop.

    Any number of processes, on any machines that share the disk, work together when they are given the same folder.
    """
    check_options(context, [PLAN_ALONE])
    from weft.training.signals import stop_with_parent

    if worker is not None:
        stop_with_parent(worker)
    from weft.cli.displays import PlainDisplay
    from weft.tuning.opening import open_study

    refuse_places({"--json": json, "--markdown": markdown, "--latex": latex}, [study])
    display = PlainDisplay()
    opened = open_study(study, folder=folder, data=data, workers=workers, listener=display)
    if plan:
        tell_hours(opened, workers, display)
        return
    train_study(opened, workers, cluster, display, threads)
    if worker is None:
        give_study(opened, language, json, markdown, latex)


def tell_hours(study: "Study", workers: int, display: "PlainDisplay") -> None:
    from weft.tuning.hours import plan_study

    typer.echo(plan_study(study, workers, display).text())


def train_study(
    study: "Study", workers: int, cluster: bool, display: "PlainDisplay", asked_threads: int | None = None
) -> None:
    """Train all trials of a study, in this process or in several."""
    from weft.runtime import choose_threads, usable_cores
    from weft.tuning.workers import work_on_cluster, work_together
    from weft.tuning.working import work

    threads = study.base.recipe.training.threads or 1
    if asked_threads is not None and max(1, choose_threads() // workers) != threads:
        display.on_message(
            f"the study computes with {counted(threads, 'thread')}, chosen when it was made; --threads has no effect"
        )
    if workers * threads > max(usable_cores(), threads) and not cluster:
        display.on_message(
            f"{workers} workers of {threads} threads each compete for {usable_cores()} cores; threads were chosen when "
            "the study was made, for the --workers of that command"
        )
    if cluster:
        work_on_cluster(study, workers, display)
    elif workers > 1:
        work_together(study, workers, display)
    else:
        work(study, display)


def give_study(study: "Study", language: str, json: Path | None, markdown: Path | None, latex: Path | None) -> None:
    """Print what a study has found, and write the files that options name; those of a report have its paragraph too."""
    from weft.tuning.results import as_dict, paragraph, tables

    found = tables(study, language)
    from weft.figures.table import in_latex, in_markdown

    files = [
        (
            markdown,
            lambda: "\n\n".join([*(table.markdown() for table in found), in_markdown(paragraph(study, language))]),
        ),
        (latex, lambda: "\n\n".join([*(table.latex() for table in found), in_latex(paragraph(study, language))])),
    ]
    text = "\n\n".join(table.text() for table in found)
    give_results(text, as_dict(study), json, [(path, lambda made=made: made() + "\n") for path, made in files])
