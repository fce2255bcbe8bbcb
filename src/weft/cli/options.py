"""What several verbs ask for in the same words."""

import math
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.errors import UsageError

if TYPE_CHECKING:
    from weft.data.corpus import CorpusEntry, Layout

RecipeFile = Annotated[Path, typer.Argument(help="The recipe, a TOML file.")]
RunFolder = Annotated[
    Path | None,
    typer.Option("--run", help="The run folder; left out: runs/ and the recipe's name.", show_default=False),
]
DataRoot = Annotated[
    Path | None,
    typer.Option(
        "--data",
        help="Folder that data paths are relative to; left out: WEFT_DATA, else the recipe's folder.",
        show_default=False,
    ),
]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a key; may be repeated.")
]
SourceLanguage = Annotated[
    str | None, typer.Option("--source", help="Code of the source language, such as zh.", show_default=False)
]
TargetLanguage = Annotated[
    str | None, typer.Option("--target", help="Code of the target language, such as en.", show_default=False)
]
PairColumns = Annotated[
    str | None,
    typer.Option(
        "--columns",
        metavar="SOURCE,TARGET",
        help="The columns of the pair; left out: those named as the languages, or without a header the first two.",
        show_default=False,
    ),
]
HasHeader = Annotated[
    bool | None,
    typer.Option("--header/--no-header", help="Whether the first line of a TSV names its columns.", show_default="yes"),
]


def finite(seconds: float) -> float:
    """A callback of options whose bounds let infinity, and what is no number, through."""
    if not math.isfinite(seconds):
        raise typer.BadParameter(f"{seconds} is no number of seconds")
    return seconds


def refuse_beside(context: typer.Context, option: str, others: Collection[str] | None = None) -> None:
    """Raise UsageError where one of the other parameters (by their names; left out, any) was given beside an option
    that would not look at it."""
    given = [
        parameter.opts[0] if parameter.opts[0].startswith("-") else str(parameter.metavar or parameter.name).upper()
        for parameter in context.command.params
        if (source := context.get_parameter_source(parameter.name)) is not None
        and source.name == "COMMANDLINE"
        and f"--{parameter.name}" != option
        and (others is None or parameter.name in others)
    ]
    if given:
        raise UsageError(f"{option} does not go with {', '.join(given)}; leave out one or the other")


def only_model(models: Sequence[str], what: str) -> str:
    """The one of --model; raises UsageError for several, which elsewhere are an ensemble, with what is done by one."""
    if len(models) > 1:
        raise UsageError(f"{what} one model, and --model names {len(models)}: {', '.join(models)}; name one")
    return models[0]


def layout_of(
    source: str | None,
    target: str | None,
    columns: str | None,
    header: bool | None,
    entries: Sequence["CorpusEntry"],
    usage: str,
) -> "Layout":
    """What the four options above say of these files; raises UsageError, with the usage, where no language is named,
    and for an option that none of the files has a use for."""
    from weft.data.corpus import Columns, Layout, is_jsonl

    if not source or not target:
        missing = " and ".join(name for name, value in (("--source", source), ("--target", target)) if not value)
        raise UsageError(f"say the languages: {missing} is missing; {usage}")
    files_of_pairs = [entry.path for entry in entries if entry.path is not None]
    if columns is not None and not files_of_pairs:
        raise UsageError("--columns is for files of pairs; text files two by two have none: leave it out")
    if header is not None and all(map(is_jsonl, files_of_pairs)):
        raise UsageError("--header and --no-header are for TSV files, and none is named: leave them out")
    named = None
    if columns is not None:
        names = [name.strip() for name in columns.split(",")]
        if len(names) != 2 or not all(names):
            raise UsageError(f"--columns takes two names or numbers with a comma between, such as zh,en; got {columns}")
        named = Columns(source=names[0], target=names[1])
    elif source == target and files_of_pairs:
        raise UsageError(
            f"--source and --target are both {source}; name the two columns as well, by the header, or by "
            "number: --columns 1,2 --no-header"
        )
    return Layout(source, target, named, header is not False)
