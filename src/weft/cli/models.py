"""`weft models`: list, get, show and verify models, copy them, pack them into single files.

What a model folder is stands in folders/model_folder.py, what can be read without loading it in folders/summary.py.
"""

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from weft.cli.help import group_of_verbs
from weft.cli.options import A_MODEL
from weft.errors import Stopped, UsageError, WeftError

app = group_of_verbs("List, get, show, verify, copy, pack and unpack models.")

Model = Annotated[str, typer.Argument(metavar="MODEL", help=A_MODEL)]
Models = Annotated[
    list[str], typer.Argument(metavar="MODEL...", help="Model folders, run folders, or names of shipped models.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("list")
def list_models(
    folder: Annotated[
        Path | None,
        typer.Argument(help="Where to look for models and runs; by default the shipped models."),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the shipped models, or the models and runs in a folder."""
    from weft.figures.table import aligned
    from weft.folders.finding import PRETRAINED, shipped_models
    from weft.folders.summary import models_under, summarize

    if folder is not None and not folder.is_dir():
        raise UsageError(f"there is no folder {folder}")
    # By its folder: a model of the user may lie under a shipped model's name.
    shipped = {name: PRETRAINED / name for name in shipped_models()}
    folders = shipped if folder is None else {str(found): found for found in models_under(folder)}
    summaries = []
    for name, path in folders.items():
        try:
            summaries.append(replace(summarize(path), name=name))
        except WeftError as error:  # a damaged model, or one without weights yet, hides none of the others
            typer.echo(str(error), err=True)
    if as_json:
        typer.echo(json.dumps([summary.as_dict() for summary in summaries], indent=1, ensure_ascii=False))
    elif summaries:
        typer.echo("\n".join(aligned([summary.row() for summary in summaries])))
    elif not folders:
        typer.echo("weft is installed without models" if folder is None else f"no model or run in {folder}", err=True)


@app.command()
def get(
    name: Annotated[
        str, typer.Argument(help="opus-mt-zh-en, opus-mt-en-zh, or hf:OWNER/NAME for another Marian model of the hub.")
    ],
    output: Annotated[Path | None, typer.Option(help="The folder to make. Default: the name of the model.")] = None,
    hub: Annotated[str | None, typer.Option("--from", metavar="URL", help="A mirror of the hub.")] = None,
) -> None:
    """Download a published model and import it; the same command continues after a stop."""
    from weft.cli.displays import choose_display
    from weft.folders.summary import summarize
    from weft.importing.hub import HUB, get_model

    folder = output or Path(name.removeprefix("hf:").rpartition("/")[2])
    try:
        with choose_display() as display:
            get_model(name, folder, display, hub=hub or HUB)
    except KeyboardInterrupt:
        raise Stopped("stopped; what has arrived is kept, and the same command continues from there") from None
    typer.echo(f"license: {summarize(str(folder)).license}", err=True)
    typer.echo(f"{folder} holds the model: weft translate --model {shlex.quote(str(folder))} TEXT", err=True)


@app.command()
def show(model: Model, as_json: Json = False) -> None:
    """Show what a model is: languages, size, main settings, data, scores, license."""
    from weft.folders.summary import summarize

    summary = summarize(model)
    typer.echo(json.dumps(summary.as_dict(), indent=1, ensure_ascii=False) if as_json else summary.text())


@app.command()
def verify(models: Models) -> None:
    """Check that models are complete and unaltered; print the sha256 of each file in the manifest."""
    from weft.folders.export import check_any
    from weft.folders.finding import read_found
    from weft.folders.manifest import read_manifest

    broken = 0
    for model in models:
        try:
            _, folder = read_found(model, lambda folder: (check_any(folder), folder))
        except WeftError as error:
            if len(models) == 1:
                raise
            broken += 1
            typer.echo(f"weft: {error}", err=True)
            continue
        for name, digest in read_manifest(folder)[0].items():
            typer.echo(f"{digest}  {name if len(models) == 1 else folder / name}")
        typer.echo(f"{folder} is complete and unaltered", err=True)
    if broken:
        raise WeftError(f"{broken} of {len(models)} models are missing or damaged")


@app.command()
def copy(
    model: Model,
    folder: Annotated[Path, typer.Argument(help="The folder to make.")],
    weights: Annotated[
        Literal["fp16", "int8"] | None,
        typer.Option(
            help="Store the weights in this format, in half or a quarter of the bytes; by default as they are."
        ),
    ] = None,
) -> None:
    """Copy a model into a folder of its own, without its run."""
    from weft.folders.copy import copy_model

    source = copy_model(model, folder, storage=weights)
    typer.echo(f"{folder} holds the model {source}{f', its weights in {weights}' if weights else ''}", err=True)


@app.command()
def pack(
    model: Model,
    archive: Annotated[Path, typer.Argument(metavar="FILE.zip", help="The file to write.")],
) -> None:
    """Pack a model into one .zip; equal models give equal bytes."""
    from weft.folders.archive import pack as pack_model

    folder = pack_model(model, archive)
    typer.echo(f"{archive} holds the model {folder}", err=True)


@app.command()
def unpack(
    archive: Annotated[Path, typer.Argument(metavar="FILE.zip", help="A file that `weft models pack` wrote.")],
    folder: Annotated[Path, typer.Argument(help="The folder to make.")],
) -> None:
    """Unpack a .zip into a model folder; refuses one that is damaged or holds anything else."""
    from weft.folders.archive import unpack as unpack_model

    unpack_model(archive, folder)
    typer.echo(f"{folder} holds the model: weft translate --model {shlex.quote(str(folder))} TEXT", err=True)
