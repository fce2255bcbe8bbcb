"""Checks the shape annotations of weft while tests run: jaxtyping's decorator, only where there are shapes.

To check a call takes longer than most calls. Functions without shapes are left alone: that their types hold is proved
by `make check`. Of the calls of a function within one test, numbers 1, 2, 4, 8 and so on are checked: those of a loop
differ less and less.
"""

import functools
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import jaxtyping

SOURCES = Path(__file__).parents[1] / "src"
MODULES = [
    ".".join(file.relative_to(SOURCES).with_suffix("").parts)
    for file in SOURCES.rglob("*.py")
    if "from jaxtyping import" in file.read_text(encoding="utf-8")
]
# is_pep484_tower: an int passes where a float is asked for, as it does in Python.
BEARTYPE = "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"
every_call = jaxtyping.jaxtyped
calls: Counter[Callable[..., Any]] = Counter()
"""By function, within the present test."""


def check_shapes() -> None:
    """From now on, modules of weft are imported with their shapes checked."""
    jaxtyping.jaxtyped = jaxtyped  # the hook looks it up there
    jaxtyping.install_import_hook(MODULES, BEARTYPE)


def jaxtyped(function: Any = None, *, typechecker: Any) -> Any:
    """In place of jaxtyping's decorator, which the import hook puts on every function and class."""
    if function is None:
        return functools.partial(jaxtyped, typechecker=typechecker)
    if not any(map(has_shape, getattr(function, "__annotations__", {}).values())):
        return function
    checked = every_call(function, typechecker=typechecker)
    if isinstance(function, type):
        return checked

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        calls[function] += 1
        is_power_of_two = not calls[function] & (calls[function] - 1)
        return (checked if is_power_of_two else function)(*args, **kwargs)

    return call


def has_shape(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return "[" in annotation
    is_array = isinstance(annotation, type) and issubclass(annotation, jaxtyping.AbstractArray)
    return is_array or any(map(has_shape, get_args(annotation)))
