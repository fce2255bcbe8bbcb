"""`weft train`: a recipe becomes a run folder. What is shown on the way stands in progress.py."""

from pathlib import Path
from typing import Annotated

import typer


def train(
    recipe: Annotated[Path, typer.Argument(help="The recipe, a TOML file.")],
    run: Annotated[
        Path | None, typer.Option(help="The run folder; left out: runs/ and the recipe's name.", show_default=False)
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder that data paths are relative to; left out: WEFT_DATA, else the recipe's folder.",
            show_default=False,
        ),
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a key; may be repeated.")
    ] = None,
) -> None:
    """Train a model; the same command goes on with a run that was stopped.

    Ctrl-C once saves and stops, twice quits.
    """
    from weft.analysis.report import write_report
    from weft.cli.progress import choose_display
    from weft.tasks.training import train as train_by_recipe

    with choose_display() as display:
        folder = train_by_recipe(recipe, run=run, data=data, overrides=overrides or (), listener=display)
    write_report(folder)
    typer.echo(f"report: {folder / 'report.html'}", err=True)
    typer.echo(f"try it: weft translate --model {folder} TEXT", err=True)
