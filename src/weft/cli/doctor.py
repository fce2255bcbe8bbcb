"""`weft doctor`: what is wrong with a corpus, or what a bug report needs to know about this machine."""

import json as json_format
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.errors import UsageError
from weft.files import refuse_replacing, write_atomically

if TYPE_CHECKING:
    from weft.data.corpus import CorpusEntry
    from weft.data.doctor.reading import Layout

USAGE = "weft doctor FILE... --source zh --target en, weft doctor RECIPE.toml, or weft doctor --machine"


def doctor(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            help="The corpus: TSV or JSONL files of pairs, or text files two by two, source then target; .gz too. "
            "Or a recipe, whose files these are.",
            show_default=False,
        ),
    ] = None,
    source: Annotated[
        str | None, typer.Option(help="Code of the source language, such as zh.", show_default=False)
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Code of the target language, such as en.", show_default=False)
    ] = None,
    valid: Annotated[
        list[str] | None,
        typer.Option("--valid", metavar="FILE", help="Held out to choose by; looked at for leaks. May be repeated."),
    ] = None,
    test: Annotated[
        list[str] | None, typer.Option("--test", metavar="FILE", help="Held out to test on. May be repeated.")
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="SOURCE,TARGET",
            help="The columns of the pair; left out: those named as the languages, or without a header the first two.",
            show_default=False,
        ),
    ] = None,
    header: Annotated[
        bool | None,
        typer.Option("--header/--no-header", help="Whether the first line of a TSV names its columns.  [default: yes]"),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder that a recipe's data paths are relative to; left out: WEFT_DATA, else the recipe's folder.",
            show_default=False,
        ),
    ] = None,
    json: Annotated[
        Path | None,
        typer.Option("--json", help="Also write everything to this file; - for stdout instead of the table."),
    ] = None,
    machine: Annotated[bool, typer.Option("--machine", help="Describe this machine and what weft runs on.")] = False,
) -> None:
    """Say what is wrong with a corpus, what it costs and what to do. Exits with 1 where there are errors.

    Pairs out of step, in a wrong language, copied, cut, repeated, leaked into held-out files, with other numbers, with
    markup or broken characters: each with its lines, and the fifty most suspicious pairs.
    """
    if machine:
        describe_machine()
        return
    if not files:
        raise UsageError(f"say what to look at: {USAGE}")
    given = {"--source": source, "--target": target, "--columns": columns, "--header": header}
    if files[0].endswith(".toml"):
        if len(files) > 1 or any(value is not None for value in given.values()):
            raise UsageError(f"a recipe says itself which files it has and how to read them: weft doctor {files[0]}")
        parts, layout, root = corpus_of_recipe(files[0], data)
    else:
        parts, layout, root = corpus_of_files(files, source, target, columns, header)
    examine(parts, valid or (), test or (), layout, root, json)


def describe_machine() -> None:
    from weft.runtime import describe_machine

    facts = describe_machine()
    width = max(map(len, facts))
    for name, value in facts.items():
        typer.echo(f"{name:<{width}}  {value}")


def corpus_of_recipe(recipe: str, data: Path | None) -> tuple[dict[str, list["CorpusEntry"]], "Layout", Path]:
    from weft.data.corpus import CorpusEntry
    from weft.data.doctor.reading import Layout
    from weft.tasks.training import find_recipe

    resolved, root, _ = find_recipe(recipe, run=None, data=data, overrides=())
    config = resolved.recipe.data
    parts = {
        name: [CorpusEntry(path=entry) if isinstance(entry, str) else entry for entry in entries]
        for name, entries in (("train", config.train), ("valid", config.valid))
    }
    return parts, Layout(config.source, config.target, config.columns, config.header), root


def corpus_of_files(
    files: list[str], source: str | None, target: str | None, columns: str | None, header: bool | None
) -> tuple[dict[str, list["CorpusEntry"]], "Layout", Path]:
    from weft.data.corpus import Columns
    from weft.data.doctor.reading import Layout, group_files

    if not source or not target:
        missing = " and ".join(name for name, value in (("--source", source), ("--target", target)) if not value)
        raise UsageError(f"say the languages: {missing} is missing; {USAGE}")
    named = None
    if columns is not None:
        names = [name.strip() for name in columns.split(",")]
        if len(names) != 2 or not all(names):
            raise UsageError(f"--columns takes two names or numbers with a comma between, such as zh,en; got {columns}")
        named = Columns(source=names[0], target=names[1])
    return {"train": group_files(files)}, Layout(source, target, named, header is not False), Path()


def examine(
    parts: dict[str, list["CorpusEntry"]],
    valid: list[str] | tuple[()],
    test: list[str] | tuple[()],
    layout: "Layout",
    root: Path,
    json: Path | None,
) -> None:
    """Look at the parts and the held-out files of the command line, print what is found, and exit with 1 for errors."""
    from weft.data.doctor.examination import examine
    from weft.data.doctor.reading import group_files

    for name, files in (("valid", valid), ("test", test)):
        held = group_files(files)
        if root != Path():  # a recipe's files are relative to its data, those of the command line are not
            held = [entry.model_copy(update=absolute(entry)) for entry in held]
        parts = {**parts, name: [*parts.get(name, ()), *held]} if held else parts
    inputs = [root / name for entries in parts.values() for entry in entries for name in names_of(entry)]
    refuse_replacing("--json", json, inputs)
    diagnosis = examine(parts, layout, root, on_progress=lambda what: typer.echo(f"{what} ...", err=True))
    as_json = json_format.dumps(diagnosis.as_dict(), ensure_ascii=False) + "\n"
    if json == Path("-"):
        typer.echo(as_json, nl=False)
    else:
        if json is not None:
            write_atomically(json, as_json)
        typer.echo(diagnosis.table())
    if diagnosis.has_errors:
        raise typer.Exit(1)


def names_of(entry: "CorpusEntry") -> list[str]:
    return [name for name in (entry.path, entry.source, entry.target) if name is not None]


def absolute(entry: "CorpusEntry") -> dict[str, str]:
    return {
        field: str(Path(name).absolute())
        for field in ("path", "source", "target")
        if (name := getattr(entry, field)) is not None
    }
