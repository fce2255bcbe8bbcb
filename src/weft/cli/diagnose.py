"""`weft diagnose`: what is wrong with a run."""

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.options import JsonFile, Threads


def diagnose(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run, finished or still training.")],
    data: Annotated[
        Path | None,
        typer.Option(
            "--data", help="Folder that data paths are relative to; by default the one that the run began with."
        ),
    ] = None,
    json: JsonFile = None,
    threads: Threads = None,
) -> None:
    """Find what is wrong with a run by experiments on its last checkpoint.

    Exits with 1 if it finds an error or a warning. Shuffles sources, changes later tokens, doubles padding, learns one
    batch by heart on a copy, compares the loss with baselines, and looks at what the run has logged and at its data.
    Changes nothing in the run.
    """
    from weft.analysis.checkup import diagnose
    from weft.cli.displays import PlainDisplay
    from weft.cli.outputs import give_results, refuse_place

    refuse_place("--json", json, [])
    found = diagnose(run, data=data, listener=PlainDisplay())
    give_results(found.table(), found.as_dict(), json)
    if not found.is_healthy:
        raise typer.Exit(1)
