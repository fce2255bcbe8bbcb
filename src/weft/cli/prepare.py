"""`weft prepare`: the pairs of a recipe, cleaned and split into pieces, ready for `weft train`."""

from dataclasses import asdict
from typing import Annotated

from typer import Context, Option, echo

from weft.cli.options import DataRoot, JsonFile, Overrides, RecipeFile, RunFolder
from weft.cli.outputs import STDOUT, give_results, refuse_place
from weft.cli.rules import Rule, check_options

Processes = Annotated[
    int | None,
    Option("--processes", min=1, help="Processes that clean and tokenize; by default chosen by the size of the files."),
]
Cluster = Annotated[
    bool,
    Option("--cluster", help="Clean and tokenize on a Ray cluster: that of RAY_ADDRESS, else this machine."),
]
Examples = Annotated[int, Option("--examples", min=0, max=20, help="How many removed pairs to show for each rule.")]

RULES = [Rule(("--cluster",), without=("--processes",), why="it uses all cores of its machines")]


def prepare(
    context: Context,
    recipe: RecipeFile,
    run: RunFolder = None,
    data: DataRoot = None,
    overrides: Overrides = None,
    processes: Processes = None,
    cluster: Cluster = False,
    examples: Examples = 3,
    json: JsonFile = None,
) -> None:
    """Clean the training pairs, learn the vocabularies, and keep the pairs as ids in the run folder.

    `weft train` does the same by itself, and reuses what is prepared as long as files and recipe stay the same.
    """
    check_options(context, RULES)
    from weft.cli.displays import PlainDisplay
    from weft.preparing.corpora import input_files
    from weft.runs.prepare import prepare_run

    refuse_place("--json", json, input_files(recipe, data=data, overrides=overrides or ()))
    prepared, folder = prepare_run(
        recipe,
        run=run,
        data=data,
        overrides=overrides or (),
        processes=processes,
        cluster=cluster,
        listener=PlainDisplay(),
    )
    give_results(prepared.account.table(examples), asdict(prepared.account), json)
    if json != STDOUT:
        echo(f"prepared: {folder}", err=True)
