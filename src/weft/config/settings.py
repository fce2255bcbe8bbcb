"""The base of every model of settings, and the errors with which such a model says that its values do not fit together.

It knows neither files nor TOML: a model of settings can be made in Python like any other object.
"""

import os
from collections.abc import Mapping, Sequence
from numbers import Integral
from types import MappingProxyType
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, model_validator


class FieldProblem(ValueError):
    """What is wrong with one field, raised in a validator of the model that has the field.

    `field` is the field's name, or a dotted key below the model (`"training.warmup"`, raised by the whole recipe).

        @model_validator(mode="after")
        def _heads_divide_the_model(self) -> Self:
            if self.model_dim % self.num_heads:
                raise FieldProblem("num_heads", f"must divide model_dim = {self.model_dim}")
            return self
    """

    def __init__(self, field: str, what: str) -> None:
        self.field, self.what = field, what
        super().__init__(f"{field} {what}")


class FieldProblems(ValueError):
    """Several field problems, raised at once: pydantic stops at the first validator of a model that raises."""

    def __init__(self, problems: Sequence[FieldProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(map(str, problems)))


class Settings(BaseModel):
    """A table of a recipe: frozen, strict, closed to unknown keys; the string below a field is the field's help text.

    Strict means: no text passes for a number, `true` is no number, 6.0 is no whole number; 6 is a number, though, and
    a list serves where a tuple is declared. Declare lists as tuples, choices as `Literal`, tables as `Settings`, and
    defaults of a `Field` by name (`Field(default=8, gt=0)`), for type checkers overlook them otherwise. What Python
    alone has, such as a path, serves as what TOML has for it (`as_in_toml`).
    """

    RETIRED: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Keys of earlier versions -> what to do without them. Rendered recipes of that time are still read."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _as_in_toml(cls, values: Any) -> Any:
        return as_in_toml(values)

    @model_validator(mode="after")
    def _nan_is_no_setting(self) -> Self:
        # nan slips through every bound that is not a comparison and never equals itself, so no run could be resumed.
        problems = [FieldProblem(name, "nan is not a number to work with") for name, value in self if value != value]
        if problems:
            raise FieldProblems(problems)
        return self


def as_in_toml(value: Any) -> Any:
    """The same value with everything in it, at any depth of lists and tables, as TOML might say it: a path is text, and
    a whole number of NumPy's one of Python's. A list, though, is a tuple, which nobody changes."""
    if isinstance(value, str | int | float):  # most are, and to ask whether one is a Mapping takes its time
        return value
    if isinstance(value, Mapping):
        return {key: as_in_toml(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return tuple(as_in_toml(inner) for inner in value)
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if isinstance(value, Integral):
        return int(value)
    return value
