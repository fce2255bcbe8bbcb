"""`weft import`: make a model folder of a model that another system has trained."""

from pathlib import Path
from typing import Annotated

import typer


def import_(
    folder: Annotated[
        Path,
        typer.Argument(help="A Marian or OPUS-MT folder (also in the form of transformers), or a JoeyNMT run folder."),
    ],
    output: Annotated[Path, typer.Option("--output", help="The folder to make.")],
    source: Annotated[
        str | None, typer.Option("--source", help="The source language, if the folder does not tell.")
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", help="The target language, if the folder does not tell.")
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Change a key that the model keeps, such as decoding.beam_size=5."
        ),
    ] = None,
) -> None:
    """Convert a model trained by Marian, OPUS-MT or JoeyNMT."""
    from weft.importing.folder import import_model

    import_model(
        folder,
        output,
        source=source,
        target=target,
        overrides=overrides or (),
        say=lambda text: typer.echo(text, err=True),
    )
    typer.echo(f"{output} holds the model: weft translate --model {output} TEXT", err=True)
