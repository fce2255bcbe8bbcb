"""Recipes: reads TOML, checks it against a model of settings, keeps the origin of every value, and writes it back.

No key is named here, except in hints: each model of settings is defined next to the class it configures and passed in.

    settings.py    `Settings`, the base of those models: their forms, and how they report what does not fit together
    recipe.py      a file, a dict and the command line's `--set` become a `Resolved` recipe; START READING HERE
    diagnosis.py   turns pydantic's errors into problems that a person can act on
    keys.py        the keys of a model and what they mean: near matches, `explain`, JSON schema
    rendering.py   writes a resolved recipe as TOML with the origin of every value, and reads it again
    other_names.py what other toolkits call the keys
    toml.py        writes TOML values and finds the statements of a TOML text
"""

from weft.config.diagnosis import check_value, diagnose
from weft.config.keys import explain, json_schema
from weft.config.recipe import (
    Difference,
    Resolved,
    changed,
    choose_recipe_model,
    differences,
    from_defaults,
    leaves,
    override,
    read_recipe,
    resolve,
)
from weft.config.rendering import parse_rendered, render
from weft.config.settings import FieldProblem, FieldProblems, Settings
