"""The base of every model of settings, and the errors with which such a model says that its values do not fit together.

It knows neither files nor TOML: a model of settings can be made in Python like any other object.
"""

import os
from collections.abc import Mapping, Sequence
from numbers import Integral
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, ClassVar, Self, Union, get_args, get_origin

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

    A table may take one of several forms, each of which declares its name: `kind: Literal["lstm"] = "lstm"`. A table
    without a kind has the first form.

        model: TransformerConfig | RecurrentConfig = Field(default=TransformerConfig(), discriminator="kind")
    """

    RETIRED: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Keys of earlier versions -> what to do without them. Recipes that those versions rendered are still read, without
    the keys' values: only a key that does not change what a run computes may be retired."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _as_in_toml(cls, values: Any) -> Any:
        values = as_in_toml(values)
        if isinstance(values, Mapping):
            several = [name for name, field in cls.model_fields.items() if field.discriminator and name in values]
            values = {
                **values,
                **{name: with_kind(cls.model_fields[name].annotation, values[name]) for name in several},
            }
        return values

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


def members(annotation: Any) -> list[Any]:
    """The types that a union chooses from, without None; any other type is its own only member."""
    if get_origin(annotation) in (Union, UnionType):
        return [member for member in get_args(annotation) if member is not NoneType]
    if get_origin(annotation) is Annotated and len(inside := members(get_args(annotation)[0])) > 1:
        return inside
    return [annotation]


def is_table(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Settings)


def forms_by_kind(annotation: Any) -> dict[str, type[Settings]]:
    """The forms of a table under their kinds, in the order of the union; empty if there are not several."""
    forms = members(annotation)
    if len(forms) < 2 or not all(is_table(form) and "kind" in form.model_fields for form in forms):
        return {}
    return {kind: form for form in forms for kind in get_args(form.model_fields["kind"].annotation)}


def form_of(annotation: Any, table: Any) -> type[Settings] | None:
    """The form of a table that is a value of this type. None if the type is not a table, or the kind is unknown."""
    if not (forms := forms_by_kind(annotation)):
        (only, *others) = members(annotation)
        return only if is_table(only) and not others else None
    if isinstance(table, Settings):
        return type(table)
    kind = with_kind(annotation, table)["kind"] if isinstance(table, Mapping) else next(iter(forms))
    return forms.get(kind) if isinstance(kind, str) else None


def with_kind(annotation: Any, table: Any) -> Any:
    """A table with the kind that is meant where it names none."""
    forms = forms_by_kind(annotation)
    return {"kind": next(iter(forms)), **table} if forms and isinstance(table, Mapping) else table
