"""`weft report`: write the report of a run again, or set several runs side by side."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from weft.cli.options import Figures
from weft.cli.outputs import STDOUT, refuse_place, tell_figures
from weft.errors import UsageError, shown

Runs = Annotated[list[Path], typer.Argument(metavar="RUN...", help="The folders of runs, finished or still training.")]
To = Annotated[
    Path | None,
    typer.Option(
        "--to",
        metavar="FILE",
        help="With several runs, the page to write. Default: comparison.html beside the first.",
    ),
]

PageLanguage = Annotated[Literal["en", "zh"], typer.Option("--language", help="The language of report and figures.")]


def report(runs: Runs, to: To = None, figures: Figures = None, language: PageLanguage = "en") -> None:
    """Write report.html into the folder of a run, and print its path; or compare several runs.

    Several runs are drawn over target tokens and over time, with the keys that differ, and ranked if their scores are
    of the same data with the same signature. --figures also writes the curves as pictures, those of one run with their
    numbers as curves.csv.
    """
    if to and len(runs) == 1:
        raise UsageError("--to names the page of several runs; that of one run is report.html in its folder")
    if to == STDOUT:
        raise UsageError("--to needs a file: a page has no place in a terminal")
    refuse_place("--to", to, [])
    if len(runs) > 1:
        from weft.analysis.pictures import write_pictures
        from weft.analysis.runs_report import compare_runs, write_runs_report

        contest = compare_runs(runs, language)
        to = to or runs[0].resolve().parent / "comparison.html"
        write_runs_report(contest, to)
        tables = "\n\n".join(table.text() for table in contest.tables())
        typer.echo(shown(tables, len(tables)))
        for refusal in contest.refusals():
            typer.secho(shown(refusal, len(refusal)), fg="red")
        typer.echo(to, err=True)
        written = write_pictures(figures, contest.charts()) if figures else []
    else:
        from weft.analysis.curves import write_figures
        from weft.analysis.report import write_report

        typer.echo(write_report(runs[0], language))
        written = write_figures(runs[0], figures, language) if figures else []
    if figures:
        tell_figures(figures, written)
