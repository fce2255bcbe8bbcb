"""Options that several verbs have in common."""

import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, BadParameter, Option
from typer.core import TyperCommand

from weft.errors import UsageError

if TYPE_CHECKING:
    from weft.data.corpus import CorpusEntry, Layout

# Models and decoding

A_MODEL = "A model folder, a run folder, or the name of a shipped model."
NAME_A_MODEL = "name a model folder, a run folder, or a shipped model such as zh-en"
OneModel = Annotated[list[str] | None, Option("--model", help=A_MODEL)]
"""A list, so that a second --model is refused (`only_model`) instead of replacing the first."""
Ensemble = Annotated[list[str] | None, Option("--model", help=f"{A_MODEL} Repeat the option for an ensemble.")]
Engine = Annotated[
    Literal["native", "ctranslate2", "onnx"] | None,
    Option("--engine", help="The engine that computes; by default the one that the folder was made for."),
]
ModelName = Annotated[str, Option("--model", help=A_MODEL)]
KeyOverrides = Annotated[
    list[str] | None,
    Option("--set", metavar="KEY=VALUE", help="Change a key of the model, such as decoding.beam_size=5; repeatable."),
]
Methods = Annotated[
    str | None,
    Option(
        "--methods",
        help="Decodings to compare instead of a model's own, such as greedy,beam:5,beam:5+length_penalty=none.",
    ),
]
Confidence = Annotated[float, Option("--confidence", help="Confidence of the intervals of scores.")]
Comet = Annotated[Path | None, Option("--comet", help="Also score with this checkpoint of a COMET model.")]


def set_threads(threads: int | None) -> int | None:
    """A callback that sets the threads before torch is imported, which reads them then."""
    if threads is not None:
        os.environ["OMP_NUM_THREADS"] = str(threads)
    return threads


Threads = Annotated[
    int | None,
    Option("--threads", min=1, callback=set_threads, help="CPU threads for matrix products; by default one per core."),
]
"""Acts by its callback."""

# Recipes and runs


def readable(recipe: Path) -> Path:
    """A callback that raises the error for a recipe that cannot be read before anything heavy is imported. For a run it
    returns the recipe of its last checkpoint. Of several processes only the first needs the file."""
    if os.environ.get("RANK", "0") != "0":
        return recipe
    from weft.config.recipe import parse_toml, read_text

    if (recipe / "run.json").is_file():
        recipe = recipe_of_run(recipe, read_text(recipe / "run.json"))
    parse_toml(read_text(recipe), recipe)
    return recipe


def recipe_of_run(run: Path, state: str) -> Path:
    """The recipe of a run's last checkpoint, or of the model that a finished run has left."""
    try:
        found = [run / json.loads(state)["last"] / "config.toml", run / "config.toml"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UsageError(f"{run / 'run.json'} is damaged; name the TOML file of the recipe") from None
    if not (there := [path for path in found if path.is_file()]):
        raise UsageError(f"{run} has no recipe any more; name the TOML file of the recipe")
    return there[0]


RecipeFile = Annotated[
    Path, Argument(callback=readable, help="The recipe: a TOML file, or a run folder, whose recipe is used.")
]
RunFolder = Annotated[
    Path | None,
    Option("--run", help="The run folder; by default runs/ and the recipe's name, or the one given as recipe."),
]
DataRoot = Annotated[
    Path | None,
    Option(
        "--data",
        help="Folder that data paths are relative to; by default WEFT_DATA, else the recipe's folder (of a run folder: "
        "the current one).",
    ),
]
Overrides = Annotated[list[str] | None, Option("--set", metavar="KEY=VALUE", help="Change a key; repeatable.")]

# Text and pairs

GlossaryFile = Annotated[
    Path | None,
    Option(
        "--glossary",
        help="Glossary: TSV, CSV or JSONL with columns named by the two language codes, or TBX or TMX. Each term is "
        "translated as it says.",
    ),
]
MemoryFile = Annotated[
    Path | None,
    Option(
        "--memory", help="Earlier translations: TMX, or TSV, CSV or JSONL with columns named by the two language codes."
    ),
]

A_FILE_OF_PAIRS = "one TSV, CSV, JSONL or TMX file, or two text files, --data SOURCE TARGET; .gz too."
Pairs = Annotated[list[Path], Option("--data", help=f"Pairs to evaluate on: {A_FILE_OF_PAIRS}")]
SomePairs = Annotated[list[Path] | None, Option("--data", help=f"The pairs: {A_FILE_OF_PAIRS}")]
InputFile = Annotated[Path | None, Option("--input", help="Read a text file, one sentence per line; .gz too.")]
OutputFile = Annotated[Path | None, Option("--output", help="Write to this file, .gz too; by default to stdout.")]
SourceLanguage = Annotated[str | None, Option("--source", help="Code of the source language, such as zh.")]
TargetLanguage = Annotated[str | None, Option("--target", help="Code of the target language, such as en.")]
PairColumns = Annotated[
    str | None,
    Option(
        "--columns",
        metavar="SOURCE,TARGET",
        help="The columns of the pair; by default those named after the languages, without a header the first two.",
    ),
]
HasHeader = Annotated[
    bool | None,
    Option(
        "--header/--no-header", help="Whether the first line of a TSV or CSV names its columns.", show_default="yes"
    ),
]


class TakesPairs(TyperCommand):
    """A verb whose --data takes two text files as well as one file of pairs."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        from weft.data.pair_files import TABLES, XML, suffix_of

        for place in range(len(args) - 2, 0, -1):
            option, first, second = args[place - 1 : place + 2]
            if option == "--data" and suffix_of(first) not in (*TABLES, *XML) and Path(second).is_file():
                args = [*args[: place + 1], "--data", *args[place + 1 :]]
        return super().parse_args(ctx, args)


# Results

FolderToMake = Annotated[Path, Option("--output", help="The folder to make.")]
JsonLines = Annotated[bool, Option("--json", help="Print one JSON object per line.")]
JsonFile = Annotated[
    Path | None, Option("--json", help="Also write everything to this file; - prints JSON instead of the table.")
]
Markdown = Annotated[Path | None, Option("--markdown", help="Also write the tables to this file, as Markdown.")]
Latex = Annotated[Path | None, Option("--latex", help="Also write the tables to this file, as LaTeX.")]
Figures = Annotated[
    Path | None,
    Option(
        "--figures", metavar="DIR", help="Also write the figures into this folder: SVG, and with typst PNG and PDF."
    ),
]
ReportLanguage = Annotated[Literal["en", "zh"], Option("--language", help="Language of the tables: en or zh.")]
Html = Annotated[Path | None, Option("--html", help="Also write one HTML page that opens from disk.")]


def finite(seconds: float) -> float:
    """A callback for options whose bounds admit infinity and NaN."""
    if not math.isfinite(seconds):
        raise BadParameter(f"{seconds} is not a finite number of seconds")
    return seconds


def only_model(models: Sequence[str] | None, verb: str) -> str:
    """The model that --model names; raises UsageError for none and for several."""
    if not models:
        raise UsageError(f"missing --model: {NAME_A_MODEL}")
    if len(models) > 1:
        raise UsageError(f"weft {verb} takes one model, but --model names {len(models)}: {', '.join(models)}")
    return models[0]


def languages_in_header(
    files: Sequence[str], source: str | None, target: str | None, columns: str | None, header: bool | None
) -> tuple[str, str] | tuple[str | None, str | None]:
    """The languages that the columns of these files are named after where nothing is said of languages and columns: for
    verbs to which the direction makes no difference."""
    from weft.errors import CorpusError
    from weft.files import reporting_read_errors
    from weft.preparing.new_recipe import languages_of, unfit

    if columns is not None or header is False or (source and target):
        return source, target
    paths = [Path(name) for name in files]
    for path in paths:
        with reporting_read_errors(path):
            path.stat()  # that a file is missing is said before that its languages are
    try:
        return languages_of(paths, source, target) or (source, target)
    except CorpusError:  # what is missing will be said
        if problems := [problem for path in paths for problem in unfit(path)]:
            raise CorpusError("the data", problems) from None
        return source, target


def layout_of(
    source: str | None,
    target: str | None,
    columns: str | None,
    header: bool | None,
    entries: Sequence["CorpusEntry"],
    usage: str,
) -> "Layout":
    """How these files are read, by the options for languages, columns and header.

    Raises UsageError where a language is missing, and for an option that applies to none of the files.
    """
    from weft.data.corpus import Columns, Layout, language_in_name
    from weft.data.pair_files import XML, is_jsonl, suffix_of
    from weft.text.language import refuse_unknown

    if entries and entries[0].source and entries[0].target and not (source or target):
        named = [language_in_name(name) for name in (entries[0].source, entries[0].target)]
        if named[0] and named[1] and named[0][1] == named[1][1]:
            source, target = named[0][0], named[1][0]
    if not source or not target:
        missing = " and ".join(name for name, value in (("--source", source), ("--target", target)) if not value)
        raise UsageError(f"missing {missing}: name both languages, as in {usage}")
    for option, code in (("--source", source), ("--target", target)):
        refuse_unknown(code, option)
    files_of_pairs = [entry.path for entry in entries if entry.path is not None]
    tables = [name for name in files_of_pairs if suffix_of(name) not in XML]
    if columns is not None and not tables:
        raise UsageError("--columns is for TSV, CSV and JSONL files; text files, TMX and TBX have no columns")
    if header is not None and all(map(is_jsonl, tables)):
        raise UsageError("--header and --no-header are for TSV and CSV files, and none is given")
    named = None
    if columns is not None:
        names = [name.strip() for name in columns.split(",")]
        if len(names) != 2 or not all(names):
            raise UsageError(
                f"--columns takes two names or numbers, separated by a comma, such as zh,en; got {columns}"
            )
        named = Columns(source=names[0], target=names[1])
    elif source == target and files_of_pairs:
        raise UsageError(
            f"--source and --target are both {source}; also name the two columns, by the header or by number: "
            "--columns 1,2 --no-header"
        )
    return Layout(source, target, named, header is not False)
