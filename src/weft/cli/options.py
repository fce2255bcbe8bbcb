"""What several verbs ask for in the same words."""

from pathlib import Path
from typing import Annotated

import typer

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
