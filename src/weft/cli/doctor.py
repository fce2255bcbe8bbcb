"""`weft doctor`: find what is wrong with a corpus, or describe this machine for a bug report."""

import json as json_format
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.options import (
    DataRoot,
    HasHeader,
    JsonFile,
    PairColumns,
    SourceLanguage,
    TargetLanguage,
    languages_in_header,
    layout_of,
)
from weft.cli.outputs import give_results, refuse_place
from weft.cli.rules import Rule, check_options
from weft.errors import UsageError
from weft.files import write_atomically

if TYPE_CHECKING:
    from weft.data.corpus import CorpusEntry, Layout

USAGE = "weft doctor FILE... --source zh --target en, weft doctor RECIPE.toml, or weft doctor --machine"


def doctor(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            help="The corpus: TSV, CSV, JSONL or TMX files of pairs, or text files two by two, source then target; .gz "
            "too. "
            "Or a recipe, which names the files.",
            show_default=False,
        ),
    ] = None,
    source: SourceLanguage = None,
    target: TargetLanguage = None,
    valid: Annotated[
        list[str] | None,
        typer.Option("--valid", metavar="FILE", help="Validation file, searched for leaks; may be repeated."),
    ] = None,
    test: Annotated[
        list[str] | None,
        typer.Option("--test", metavar="FILE", help="Test file, searched for leaks; may be repeated."),
    ] = None,
    columns: PairColumns = None,
    header: HasHeader = None,
    data: DataRoot = None,
    json: JsonFile = None,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report",
            metavar="RUN",
            help="Also put the diagnosis into the report of this run, in place of the quick one.",
            show_default=False,
        ),
    ] = None,
    machine: Annotated[bool, typer.Option("--machine", help="Describe this machine and its software.")] = False,
    *,
    context: typer.Context,
) -> None:
    """Find what is wrong with a corpus, what it costs and how to fix it. Exits with 1 if there are errors.

    Reports pairs that are misaligned, in the wrong language, copied, truncated, duplicated or leaked into held-out
    files, with different numbers, markup or broken characters: each with its lines, and the 50 most suspicious pairs.
    """
    check_options(context, [Rule(("--machine",), only_with=())])
    if machine:
        describe_machine()
        return
    if not files:
        raise UsageError(f"name the files to examine: {USAGE}")
    given = {"--source": source, "--target": target, "--columns": columns, "--header": header}
    if files[0].endswith(".toml"):
        if len(files) > 1 or any(value is not None for value in given.values()):
            raise UsageError(f"a recipe names its files and how to read them; run weft doctor {shlex.quote(files[0])}")
        refuse_place("--json", json, [Path(files[0])])
        parts, layout, root = corpus_of_recipe(files[0], data)
    else:
        from weft.data.corpus import group_files

        if data is not None:
            raise UsageError("--data is the folder of a recipe's files; give other files by their paths")
        source, target = languages_in_header(files, source, target, columns, header)
        entries = [entry for names in (files, valid, test) for entry in group_files(names or ())]
        layout = layout_of(source, target, columns, header, entries, USAGE)
        parts, root = {"train": group_files(files, layout.languages)}, Path()
    examine(parts, valid or (), test or (), layout, root, json, report)


def describe_machine() -> None:
    from weft.figures.table import aligned
    from weft.runtime import describe_machine

    typer.echo("\n".join(aligned([*describe_machine().items()])))


def corpus_of_recipe(recipe: str, data: Path | None) -> tuple[dict[str, list["CorpusEntry"]], "Layout", Path]:
    from weft.data.corpus import Layout, as_entries
    from weft.preparing.corpora import find_recipe

    resolved, root, _ = find_recipe(recipe, run=None, data=data, overrides=())
    if resolved.recipe.task != "translation":
        raise UsageError(f"weft doctor examines pairs; {recipe} is a recipe for {resolved.recipe.task}")
    config = resolved.recipe.data
    parts = {"train": [*as_entries(config.train)], "valid": [*as_entries(config.valid)]}
    return parts, Layout(config.source, config.target, config.columns, config.header, config.detokenize), root


def examine(
    parts: dict[str, list["CorpusEntry"]],
    valid: list[str] | tuple[()],
    test: list[str] | tuple[()],
    layout: "Layout",
    root: Path,
    json: Path | None,
    run: Path | None,
) -> None:
    """Examine the parts and the held-out files, print the diagnosis, and exit with 1 if there are errors."""
    from weft.data.corpus import file_names, group_files
    from weft.data.doctor.examination import examine

    for name, files in (("valid", valid), ("test", test)):
        # A recipe's files are relative to its data, those of the command line are not.
        places = files if root == Path() else [Path(name).absolute() for name in files]
        held = group_files(places, layout.languages)
        parts = {**parts, name: [*parts.get(name, ()), *held]} if held else parts
    inputs = [root / name for entries in parts.values() for entry in entries for name in file_names(entry)]
    refuse_place("--json", json, inputs)
    if run is not None and not (run / "metrics.jsonl").is_file():
        raise UsageError(f"--report takes the folder of a run that has begun to train; {run} is not one")
    diagnosis = examine(parts, layout, root, on_progress=lambda what: typer.echo(f"{what} ...", err=True))
    content = diagnosis.as_dict()
    give_results(diagnosis.table(), content, json)
    if run is not None:
        from weft.analysis.report import write_report

        write_atomically(run / "doctor.json", json_format.dumps(content, ensure_ascii=False) + "\n")
        typer.echo(write_report(run), err=True)
    if diagnosis.has_errors:
        raise typer.Exit(1)
