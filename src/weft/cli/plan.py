"""`weft plan`: what a run will take, before anything is trained."""

import json as json_format
from pathlib import Path
from typing import Annotated

import typer

from weft.cli.options import DataRoot, Overrides, RecipeFile, RunFolder, finite, refuse_beside
from weft.cli.outputs import refuse_place
from weft.files import write_atomically


def plan(
    context: typer.Context,
    recipe: RecipeFile,
    run: RunFolder = None,
    data: DataRoot = None,
    overrides: Overrides = None,
    seconds: Annotated[float, typer.Option(min=0, callback=finite, help="How long the trial takes.")] = 20.0,
    trial: Annotated[bool, typer.Option("--trial/--no-trial", help="Whether steps are tried out and timed.")] = True,
    json: Annotated[
        Path | None,
        typer.Option("--json", help="Also write the plan to this file; - for stdout instead of the table."),
    ] = None,
) -> None:
    """Say what training by a recipe will take: steps, parameters, multiply-adds, memory, and by a trial the time.

    Nothing is written to the run folder. Of a run that has begun, the time is that of what is left.
    """
    from weft.cli.displays import PlainDisplay
    from weft.tasks.corpora import input_files
    from weft.tasks.plan import plan as plan_by_recipe

    if not trial:
        refuse_beside(context, "--no-trial", ("seconds",))
    refuse_place("--json", json, input_files(recipe, data=data, overrides=overrides or ()))
    planned = plan_by_recipe(
        recipe,
        run=run,
        data=data,
        overrides=overrides or (),
        seconds=seconds if trial else None,
        listener=PlainDisplay(),
    )
    as_json = json_format.dumps(planned.as_dict(), indent=1, ensure_ascii=False) + "\n"
    if json == Path("-"):
        typer.echo(as_json, nl=False)
        return
    if json is not None:
        write_atomically(json, as_json)
    typer.echo(planned.table())
