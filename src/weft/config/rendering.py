"""Writes a resolved recipe as TOML with the origin of every value in a comment, and reads it again.

    [model]
    model_dim = 256  # recipe
    num_heads = 8  # default
    # max_positions is left out  # default

Works on text only; no key is named here and no file is opened.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, cast

from weft.config.recipe import Resolved, choose_recipe_model, parse_toml, resolve, without_retired
from weft.config.settings import Settings
from weft.config.toml import KeyPath, statements, write_value

R = TypeVar("R", bound=Settings)


def render(resolved: Resolved[Any], later: Mapping[str, str] = MappingProxyType({})) -> str:
    """The whole recipe as TOML, defaults included, in the order of its model.

    `later` maps dotted keys whose value is chosen only when more is known to a phrase that says so. They are written as
    left out, so that reading the text leaves them open again.
    """
    return "\n".join(_table(resolved.recipe, resolved, (), later)).lstrip("\n") + "\n"


def parse_rendered(text: str, model: type[R] | Mapping[str, type[R]], subject: str | Path) -> Resolved[R]:
    """Read the output of `render`, restoring values and origins.

    `model` is the model of settings, or a table of them by the `task` of a recipe. A value without a comment, such as
    one added by hand, has the origin "recipe". Retired keys are dropped. Raises
    RecipeError.
    """
    document = parse_toml(text, subject)
    if isinstance(model, Mapping):
        model = cast(type[R], choose_recipe_model(document, model))
    comments: dict[str, str] = {}
    for statement in statements(text):
        if left_out := re.fullmatch(r"# (\w+) is left out  # (.+)", statement.text):
            name, origin = left_out.groups()
            _table_at(document, statement.table).setdefault(name, None)
        else:
            name, origin = next(iter(statement.content), ""), statement.comment
        comments[".".join([*map(str, statement.table), name])] = origin
    document = without_retired(document, model, lambda path: True)
    resolved = resolve(document, model, subject, text=text)
    origins = {key: comments.get(key) or origin for key, origin in resolved.origins.items()}
    return Resolved(resolved.recipe, origins)


def _table(recipe: Settings, resolved: Resolved[Any], path: tuple[str, ...], later: Mapping[str, str]) -> Iterator[str]:
    """The lines of one table, values before subtables: TOML would assign values after a subtable to the subtable."""
    if path:
        yield f"\n[{'.'.join(path)}]"
    plain = recipe.model_dump()
    for name, value in recipe:
        if not isinstance(value, Settings):
            key = ".".join((*path, name))
            is_left_out = value is None or key in later
            written = f"# {name} is left out" if is_left_out else f"{name} = {write_value(plain[name])}"
            yield f"{written}  # {later.get(key, resolved.origins[key])}"
    for name, value in recipe:
        if isinstance(value, Settings):
            yield from _table(value, resolved, (*path, name), later)


def _table_at(document: Any, path: KeyPath) -> Any:
    for name in path:
        document = document[name]
    return document
