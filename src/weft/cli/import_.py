"""`weft import`: a model that another system has trained becomes a model folder."""

from pathlib import Path
from typing import Annotated

import typer


def import_(
    folder: Annotated[
        Path,
        typer.Argument(help="A folder of Marian, of OPUS-MT (also as transformers has it), or a JoeyNMT run folder."),
    ],
    output: Annotated[Path, typer.Option("--output", help="The folder to make.")],
    source: Annotated[
        str | None, typer.Option("--source", help="The language it translates from, where the folder does not tell.")
    ] = None,
    target: Annotated[str | None, typer.Option("--target", help="The language it translates into.")] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a key that the model keeps: decoding.beam_size=5."),
    ] = None,
) -> None:
    """Make a model of what Marian, OPUS-MT or JoeyNMT have trained."""
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
