"""`weft evaluate`: how good a model is on a file of pairs."""

import json as json_format
from pathlib import Path
from typing import Annotated

import typer

from weft.errors import UsageError
from weft.files import refuse_replacing, write_atomically


def evaluate(
    model: Annotated[
        str, typer.Option("--model", help="A model folder, a run folder, or the name of a model that comes with weft.")
    ],
    data: Annotated[Path, typer.Option("--data", help="Pairs to translate and compare: TSV or JSONL; .gz too.")],
    json: Annotated[
        Path | None,
        typer.Option("--json", help="Also write everything to this file; - for stdout instead of the table."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", help="Write each sentence, its translation and its scores to this TSV.")
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Change a key, such as decoding.beam_size=5 or data.header=false."
        ),
    ] = None,
) -> None:
    """Translate held-out sentences and score the result; the recipe's require table decides the exit code."""
    from weft.data.corpus import read_corpora
    from weft.tasks.evaluation import evaluate as evaluate_translator
    from weft.tasks.translation import load_translator

    if output == Path("-"):
        raise UsageError("--output names a file; --json - prints to stdout")
    for option, path in (("--json", json), ("--output", output)):
        refuse_replacing(option, path, [data])
        if path is not None and path != Path("-") and not path.resolve().parent.is_dir():
            raise UsageError(f"{path} cannot be written: {path.resolve().parent} is no folder")
    translator = load_translator(model, overrides or ())
    pairs = read_corpora([str(data)], translator.model.recipe.data, Path())
    result = evaluate_translator(translator, pairs)

    as_json = json_format.dumps(result.as_dict(), indent=1, ensure_ascii=False) + "\n"
    if output is not None:
        write_atomically(output, "".join("\t".join(row) + "\n" for row in result.rows()))
    if json == Path("-"):
        typer.echo(as_json, nl=False)
    else:
        if json is not None:
            write_atomically(json, as_json)
        typer.echo(result.table())
    for requirement in result.requirements:
        typer.echo(requirement.text, err=json == Path("-"))
    if not all(requirement.passed for requirement in result.requirements):
        raise typer.Exit(1)
