"""`weft config`: the meaning of recipe keys, the JSON schema for editors, and the resolved form of a recipe.

The recipes of all tasks are found in `weft.folders.recipes`, imported when a command runs.
"""

import json
from typing import Annotated, Any

import typer

from weft.cli.help import group_of_verbs
from weft.cli.options import Overrides, RecipeFile

app = group_of_verbs("Explain the keys of a recipe, and show a recipe with its defaults.")

CHOSEN = "chosen from the training data; weft plan shows it"

Task = Annotated[str, typer.Option(help="The task of the recipe.")]


@app.command()
def explain(
    key: Annotated[
        str, typer.Argument(help="A dotted key or a table, such as model.num_heads; by default all tables.")
    ] = "",
    task: Task = "translation",
) -> None:
    """Explain a key: its meaning, type, bounds and default; for a table, list its keys."""
    from weft.config import choose_recipe_model
    from weft.config import explain as explain_key
    from weft.folders.recipes import RECIPES
    from weft.preparing.defaults import OPEN

    chosen = dict.fromkeys(OPEN if task == "translation" else (), CHOSEN)
    typer.echo(explain_key(choose_recipe_model({"task": task}, RECIPES), key, chosen))


@app.command()
def schema(task: Task = "translation") -> None:
    """Print the JSON schema of a recipe, for editors that complete and check it."""
    from weft.config import choose_recipe_model, json_schema
    from weft.folders.recipes import RECIPES

    typer.echo(json.dumps(json_schema(choose_recipe_model({"task": task}, RECIPES)), indent=2, ensure_ascii=False))


@app.command()
def show(
    recipe: RecipeFile,
    overrides: Overrides = None,
) -> None:
    """Print a recipe with every default filled in, and the origin of every value."""
    from weft.config import Resolved, choose_recipe_model, parse_rendered, read_recipe, render
    from weft.folders.finding import run_of
    from weft.folders.recipes import OF_THE_MACHINE, RECIPES
    from weft.preparing.defaults import open_keys

    model = choose_recipe_model(recipe, RECIPES, overrides or ())
    is_of_run = run_of(recipe) is not None  # which shows what it was trained with, on whatever machine
    of_the_machine = () if is_of_run else OF_THE_MACHINE
    resolved: Resolved[Any] = read_recipe(
        recipe, model, overrides or (), of_the_machine=of_the_machine, of_run=is_of_run
    )
    if is_of_run:
        kept = parse_rendered(recipe.read_text(encoding="utf-8"), model, recipe).origins
        of_keys = resolved.origins.items()
        origins = {key: origin if origin == "command line" else kept.get(key, origin) for key, origin in of_keys}
        resolved = Resolved(resolved.recipe, origins)
    chosen = open_keys(resolved) if resolved.recipe.task == "translation" else ()
    typer.echo(render(resolved, dict.fromkeys(chosen, CHOSEN)), nl=False)
