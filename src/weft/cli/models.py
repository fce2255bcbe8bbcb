"""`weft models`: which models there are, what one is, whether it is whole; a copy of one, and one as a single
file.

What a model folder is stands in weft.folders.model_folder; what is read of it without loading it in model_summary.py.
"""

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from weft.errors import UsageError, WeftError

app = typer.Typer(help="List, show, check, copy, pack and unpack models.", no_args_is_help=True)

Model = Annotated[
    str,
    typer.Argument(metavar="MODEL", help="A model folder, a run folder, or the name of a model that comes with weft."),
]
Models = Annotated[
    list[str],
    typer.Argument(metavar="MODEL...", help="Model folders, run folders, or names of models that come with weft."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("list")
def list_models(
    folder: Annotated[
        Path | None,
        typer.Argument(help="Where to look for models and runs; left out: the models that come with weft."),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the models that come with weft, or the models and runs in a folder."""
    from weft.folders.model_folder import shipped_models
    from weft.folders.summary import aligned, models_under, summarize

    if folder is not None and not folder.is_dir():
        raise UsageError(f"there is no folder {folder}")
    names = shipped_models() if folder is None else [str(found) for found in models_under(folder)]
    summaries = []
    for name in names:
        try:
            summaries.append(summarize(name))
        except WeftError as error:  # one that is damaged, or has no weights yet, hides none of the others
            typer.echo(str(error), err=True)
    if as_json:
        typer.echo(json.dumps([summary.as_dict() for summary in summaries], indent=1, ensure_ascii=False))
    elif summaries:
        typer.echo("\n".join(aligned([summary.row() for summary in summaries])))
    elif not names:
        typer.echo("no model comes with this weft" if folder is None else f"no model or run in {folder}", err=True)


@app.command()
def show(model: Model, as_json: Json = False) -> None:
    """Say what a model is: languages, size, main settings, data, scores, license."""
    from weft.folders.summary import summarize

    summary = summarize(model)
    typer.echo(json.dumps(summary.as_dict(), indent=1, ensure_ascii=False) if as_json else summary.text())


@app.command()
def verify(models: Models) -> None:
    """Check that models are whole and unaltered; print the sha256 of each file that the manifest lists."""
    from weft.folders.export import check_any
    from weft.folders.model_folder import find_model, read_manifest

    broken = 0
    for model in models:
        try:
            folder = find_model(model)
            check_any(folder)
        except WeftError as error:
            if len(models) == 1:
                raise
            broken += 1
            typer.echo(f"weft: {error}", err=True)
            continue
        for name, digest in read_manifest(folder)[0].items():
            typer.echo(f"{digest}  {name if len(models) == 1 else folder / name}")
        typer.echo(f"{folder} is whole", err=True)
    if broken:
        raise WeftError(f"{broken} of {len(models)} models are not there or not whole")


@app.command()
def copy(
    model: Model,
    folder: Annotated[Path, typer.Argument(help="The folder to make.")],
    weights: Annotated[
        Literal["fp16", "int8"] | None,
        typer.Option(help="What to store the weights in, half or a quarter of the bytes; left out: what they are in."),
    ] = None,
) -> None:
    """Write a model into a folder of its own, without the run it came from."""
    from weft.folders.copy import copy_model

    source = copy_model(model, folder, storage=weights)
    typer.echo(f"{folder} holds the model {source}{f', its weights in {weights}' if weights else ''}", err=True)


@app.command()
def pack(
    model: Model,
    archive: Annotated[Path, typer.Argument(metavar="FILE.zip", help="The file to write.")],
) -> None:
    """Write a model into one .zip; the same model gives the same bytes."""
    from weft.folders.archive import pack as pack_model

    folder = pack_model(model, archive)
    typer.echo(f"{archive} holds the model {folder}", err=True)


@app.command()
def unpack(
    archive: Annotated[Path, typer.Argument(metavar="FILE.zip", help="What `weft models pack` wrote.")],
    folder: Annotated[Path, typer.Argument(help="The folder to make.")],
) -> None:
    """Make a model folder of a .zip; one that is damaged, or more than a model, is refused as a whole."""
    from weft.folders.archive import unpack as unpack_model

    unpack_model(archive, folder)
    typer.echo(f"{folder} is a model now: weft translate --model {folder} TEXT", err=True)
