"""`weft config`: what the keys of a recipe mean, the schema for an editor, and what a recipe comes to.

It knows no key: the models of the recipes are found in `weft.folders.recipes`, imported when a command runs.
"""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(no_args_is_help=True, help="Explain the keys of a recipe, and show what a recipe comes to.")

CHOSEN = "chosen when the training pairs are known; weft plan shows it"

Task = Annotated[str, typer.Option(help="The task whose recipes are meant.")]


@app.command()
def explain(
    key: Annotated[
        str, typer.Argument(help="A dotted key or a table, such as model.num_heads; left out: all tables.")
    ] = "",
    task: Task = "translation",
) -> None:
    """Say what a key means: its type, bounds and default; for a table, which keys it has."""
    from weft.config import choose_recipe_model
    from weft.config import explain as explain_key
    from weft.folders.recipes import RECIPES
    from weft.preparing.defaults import OPEN

    typer.echo(explain_key(choose_recipe_model({"task": task}, RECIPES), key, dict.fromkeys(OPEN, CHOSEN)))


@app.command()
def schema(task: Task = "translation") -> None:
    """Print the JSON schema of a recipe, with which an editor completes and checks it."""
    from weft.config import choose_recipe_model, json_schema
    from weft.folders.recipes import RECIPES

    typer.echo(json.dumps(json_schema(choose_recipe_model({"task": task}, RECIPES)), indent=2, ensure_ascii=False))


@app.command()
def show(
    recipe: Annotated[Path, typer.Argument(help="A recipe, a TOML file.")],
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a key; may be repeated.")
    ] = None,
) -> None:
    """Print a recipe with every default filled in and the origin of every value beside it."""
    from weft.config import Resolved, choose_recipe_model, read_recipe, render
    from weft.folders.recipes import OF_THE_MACHINE, RECIPES
    from weft.preparing.defaults import open_keys

    model = choose_recipe_model(recipe, RECIPES, overrides or ())
    resolved: Resolved[Any] = read_recipe(recipe, model, overrides or (), of_the_machine=OF_THE_MACHINE)
    typer.echo(render(resolved, dict.fromkeys(open_keys(resolved), CHOSEN)), nl=False)
