"""`weft report`: write the report of a run again."""

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.options import Figures


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run, finished or still training.")],
    figures: Figures = None,
) -> None:
    """Write report.html into the folder of a run, and print its path.

    --figures also writes the curves as pictures, and their numbers as curves.csv.
    """
    from weft.analysis.report import write_report

    typer.echo(write_report(run))
    if figures is not None:
        from weft.analysis.curves import write_figures
        from weft.analysis.pictures import can_render

        written = write_figures(run, figures)
        lacking = "" if can_render() else "; PNG and PDF need typst: pip install '.[figures]' in weft's checkout"
        typer.echo(f"{figures}: {len(written)} files{lacking}", err=True)
