"""`weft import`: make a model folder of a model that another system has trained."""

import shlex
from pathlib import Path
from typing import Annotated

from typer import Argument, Context, echo

from weft.cli.options import FolderToMake, KeyOverrides, SourceLanguage, TargetLanguage
from weft.cli.rules import Rule, check_options

ForeignFolder = Annotated[
    Path,
    Argument(
        help="A Marian or OPUS-MT folder (also in the form of transformers), a JoeyNMT run folder, or an ARPA file of "
        "n-grams (.gz too)."
    ),
]


def import_(
    context: Context,
    folder: ForeignFolder,
    output: FolderToMake,
    source: SourceLanguage = None,
    target: TargetLanguage = None,
    overrides: KeyOverrides = None,
) -> None:
    """Convert a model trained by Marian, OPUS-MT or JoeyNMT, or the n-grams of an ARPA file.

    --source and --target are needed if the folder does not state its languages; --source for an ARPA file.
    """
    if folder.is_file():
        from weft.importing.arpa import import_arpa

        check_options(
            context, [Rule(("FOLDER",), only_with=("--output", "--source"), why="an ARPA file has one language")]
        )
        model = import_arpa(folder, output, source, say=lambda text: echo(text, err=True))
        echo(f"{output} holds n-grams: {model.recipe.model.describe()}", err=True)
        return
    from weft.importing.folder import import_model

    import_model(
        folder,
        output,
        source=source,
        target=target,
        overrides=overrides or (),
        say=lambda text: echo(text, err=True),
    )
    echo(f"{output} holds the model: weft translate --model {shlex.quote(str(output))} TEXT", err=True)
