"""`weft import`: make a model folder of a model that another system has trained."""

from pathlib import Path
from typing import Annotated

from typer import Argument, echo

from weft.cli.options import FolderToMake, KeyOverrides, SourceLanguage, TargetLanguage

ForeignFolder = Annotated[
    Path, Argument(help="A Marian or OPUS-MT folder (also in the form of transformers), or a JoeyNMT run folder.")
]


def import_(
    folder: ForeignFolder,
    output: FolderToMake,
    source: SourceLanguage = None,
    target: TargetLanguage = None,
    overrides: KeyOverrides = None,
) -> None:
    """Convert a model trained by Marian, OPUS-MT or JoeyNMT.

    --source and --target are needed if the folder does not state its languages.
    """
    from weft.importing.folder import import_model

    import_model(
        folder,
        output,
        source=source,
        target=target,
        overrides=overrides or (),
        say=lambda text: echo(text, err=True),
    )
    echo(f"{output} holds the model: weft translate --model {output} TEXT", err=True)
