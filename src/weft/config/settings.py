"""The base of all models of settings, the forms a table can take, and errors for values that do not fit together.

Independent of files and TOML: a model of settings can be created in Python like any other object.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, ClassVar, NamedTuple, Self, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, model_validator


class FieldProblem(NamedTuple):
    """A problem with one field of a model of settings, found by the model's `misfits`."""

    field: str
    """The field's name, or a dotted key below the model, such as `"training.warmup"` in a whole recipe."""
    what: str


class FieldProblems(ValueError):
    """Several field problems raised together, because pydantic stops at the first exception of a model's validators."""

    def __init__(self, problems: Sequence[FieldProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(f"{field} {what}" for field, what in problems))


class Settings(BaseModel):
    """A table of a recipe: frozen, strict, closed to unknown keys; the string below a field is the field's help text.

    Strict means that text, `true` and 6.0 are not accepted as a whole number. 6 is accepted as a float, and a list as a
    tuple. Declare lists as tuples, choices as `Literal`, tables as `Settings`, and defaults of a `Field` by keyword
    (`Field(default=8, gt=0)`), because type checkers overlook positional ones. Python values that TOML does not have,
    such as paths, are converted (`as_in_toml`).

    A table may take one of several forms, each with a field `kind: Literal["lstm"] = "lstm"`. A table without a kind
    has the first form:

        model: TransformerConfig | RecurrentConfig = Field(default=TransformerConfig(), discriminator="kind")
    """

    RETIRED: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Keys of earlier versions -> what to do instead. Recipes rendered by those versions can still be read, and the
    values of these keys are dropped, so retire only a key that does not change what a run computes."""

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
    def _refuse_misfits(self) -> Self:
        # Not every bound excludes nan, and nan never equals itself, so a run with it could not be resumed.
        nans = [FieldProblem(name, "must not be nan") for name, value in self if value != value]
        if problems := nans or [*self.misfits()]:
            raise FieldProblems(problems)
        return self

    def misfits(self) -> Iterator[FieldProblem]:
        """The fields whose values do not fit together. Subclasses add theirs, so that all are reported at once.

        if self.model_dim % self.num_heads:
            yield FieldProblem("num_heads", f"must divide model_dim = {self.model_dim}")
        """
        yield from ()


def as_in_toml(value: Any) -> Any:
    """Convert a value, and everything inside it, to types that TOML has: a path to text, a NumPy integer to an int.
    Lists become tuples, which cannot be modified later."""
    plain = (str, int, float, NoneType)  # the common case; checking for Mapping first would be slower
    if isinstance(value, plain):
        return value
    if isinstance(value, Mapping):
        return {key: inner if isinstance(inner, plain) else as_in_toml(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return tuple([inner if isinstance(inner, plain) else as_in_toml(inner) for inner in value])
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if isinstance(value, Integral):
        return int(value)
    return value


def members(annotation: Any) -> list[Any]:
    """The members of a union, without None; any other type is returned as the only member."""
    if get_origin(annotation) in (Union, UnionType):
        return [member for member in get_args(annotation) if member is not NoneType]
    if get_origin(annotation) is Annotated and len(inside := members(get_args(annotation)[0])) > 1:
        return inside
    return [annotation]


def is_table(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Settings)


def forms_by_kind(annotation: Any) -> dict[str, type[Settings]]:
    """The forms that a table can take, by kind, in the order of the union; empty if it has one form only."""
    forms = members(annotation)
    if len(forms) < 2 or not all(is_table(form) and "kind" in form.model_fields for form in forms):
        return {}
    return {kind: form for form in forms for kind in get_args(form.model_fields["kind"].annotation)}


def form_of(annotation: Any, table: Any) -> type[Settings] | None:
    """The model of settings for a table with this type; None if the type is not a table or the kind is unknown."""
    if not (forms := forms_by_kind(annotation)):
        (only, *others) = members(annotation)
        return only if is_table(only) and not others else None
    if isinstance(table, Settings):
        return type(table)
    kind = with_kind(annotation, table)["kind"] if isinstance(table, Mapping) else next(iter(forms))
    return forms.get(kind) if isinstance(kind, str) else None


def with_kind(annotation: Any, table: Any) -> Any:
    """Add the kind of the first form to a table without a kind."""
    forms = forms_by_kind(annotation)
    return {"kind": next(iter(forms)), **table} if forms and isinstance(table, Mapping) else table
