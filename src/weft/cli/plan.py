"""`weft plan`: what a run will take, before anything is trained."""

from typing import Annotated

from typer import Context, Option

from weft.cli.options import DataRoot, JsonFile, Overrides, RecipeFile, RunFolder, Threads, finite
from weft.cli.outputs import give_results, refuse_place
from weft.cli.rules import Rule, check_options

Seconds = Annotated[
    float, Option("--seconds", min=0, callback=finite, help="Length of the trial, which takes a few steps at least.")
]
Trial = Annotated[bool, Option("--trial/--no-trial", help="Run some steps to estimate the time.")]

RULES = [Rule(("--no-trial",), without=("--seconds",))]


def plan(
    context: Context,
    recipe: RecipeFile,
    run: RunFolder = None,
    data: DataRoot = None,
    overrides: Overrides = None,
    seconds: Seconds = 20.0,
    trial: Trial = True,
    json: JsonFile = None,
    threads: Threads = None,
) -> None:
    """Show what training by a recipe will take: steps, parameters, multiply-adds, memory and, from a trial, the time.

    Nothing is written to the run folder. For a run that has begun, the time is that of the remaining steps.
    """
    check_options(context, RULES)
    from weft.cli.displays import PlainDisplay
    from weft.preparing.corpora import input_files
    from weft.runs.plan import plan as plan_by_recipe

    refuse_place("--json", json, input_files(recipe, data=data, overrides=overrides or ()))
    planned = plan_by_recipe(
        recipe,
        run=run,
        data=data,
        overrides=overrides or (),
        seconds=seconds if trial else None,
        listener=PlainDisplay(),
    )
    give_results(planned.table(), planned.as_dict(), json)
