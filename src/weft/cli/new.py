"""`weft new`: a recipe for files that are there."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.options import HasHeader, PairColumns, SourceLanguage, TargetLanguage

if TYPE_CHECKING:
    from weft.data.corpus import CorpusEntry, Layout


def new(
    data: Annotated[
        list[Path],
        typer.Argument(help="A folder, or its files: pairs as TSV, CSV, JSONL, TMX or two text files; or plain text."),
    ],
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="RECIPE", help="The recipe to write; by default here, named after the data."),
    ] = None,
    source: SourceLanguage = None,
    target: TargetLanguage = None,
    columns: PairColumns = None,
    header: HasHeader = None,
) -> None:
    """Write a recipe for a corpus: its files, and a model size that suits the number of rows.

    Files with the words train, valid and test in their names are used as such. Without one for validation, pairs are
    held out and the parts are written into a folder beside the recipe. No file is overwritten.
    """
    from weft.cli.options import layout_of
    from weft.preparing.new_recipe import Asked, new_recipe

    def layout(source: str, target: str, entries: "Sequence[CorpusEntry]") -> "Layout":
        return layout_of(source, target, columns, header, entries, "weft new FILE... --source zh --target en")

    path, draft = new_recipe(data, to, Asked(source, target, layout))
    for file in draft.made:
        typer.echo(f"{file}", err=True)
    for sentence in draft.about:
        typer.echo(sentence, err=True)
    for key, note in draft.notes.items():
        typer.echo(f"data.{key}: {note}", err=True)
    shown = shlex.quote(str(path))
    typer.echo(f"weft plan {shown}     tells how long it takes; weft train {shown} trains it", err=True)
    typer.echo(path)
