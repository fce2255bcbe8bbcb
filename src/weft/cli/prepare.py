"""`weft prepare`: the pairs of a recipe, cleaned and cut into pieces, ready for `weft train`."""

import json as json_format
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from weft.cli.options import DataRoot, Overrides, RecipeFile, RunFolder
from weft.cli.outputs import refuse_place
from weft.errors import UsageError
from weft.files import write_atomically


def prepare(
    recipe: RecipeFile,
    run: RunFolder = None,
    data: DataRoot = None,
    overrides: Overrides = None,
    processes: Annotated[
        int | None,
        typer.Option(
            min=1, help="Processes that clean and cut; left out: by the size of the files.", show_default=False
        ),
    ] = None,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Clean and cut on a Ray cluster instead: RAY_ADDRESS, or this machine's.")
    ] = False,
    examples: Annotated[int, typer.Option(min=0, max=20, help="Removed pairs of each rule that are shown.")] = 3,
    json: Annotated[
        Path | None,
        typer.Option("--json", help="Also write what became of the pairs to this file; - for stdout instead."),
    ] = None,
) -> None:
    """Clean the pairs to train on, learn the vocabularies, and keep the pairs as ids in the run folder.

    `weft train` does the same by itself; what was prepared it takes as it is, as long as files and recipe are the same.
    """
    from weft.cli.displays import PlainDisplay
    from weft.tasks.corpora import input_files
    from weft.tasks.preparation import prepare_run

    if cluster and processes is not None:
        raise UsageError(
            "give either --processes, for this machine, or --cluster, which uses all cores of its machines"
        )
    refuse_place("--json", json, input_files(recipe, data=data, overrides=overrides or ()))
    prepared, folder = prepare_run(
        recipe,
        run=run,
        data=data,
        overrides=overrides or (),
        processes=processes,
        cluster=cluster,
        listener=PlainDisplay(),
    )
    as_json = json_format.dumps(asdict(prepared.account), indent=1, ensure_ascii=False) + "\n"
    if json == Path("-"):
        typer.echo(as_json, nl=False)
        return
    if json is not None:
        write_atomically(json, as_json)
    typer.echo(prepared.account.table(examples))
    typer.echo(f"prepared: {folder}", err=True)
