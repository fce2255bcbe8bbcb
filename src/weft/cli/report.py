"""`weft report`: write the report of a run again."""

from pathlib import Path
from typing import Annotated

import typer


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run, finished or still training.")],
) -> None:
    """Write report.html into the folder of a run, and print its path."""
    from weft.analysis.report import write_report

    typer.echo(write_report(run))
