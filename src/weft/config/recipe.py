"""A recipe: a file or a dict and the command line's `--set` become checked settings that know where they come from.

The model of the settings is passed in; no key is named here. All problems are reported at once.
"""

import re
import shlex
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import ValidationError
from pydantic_core import PydanticUndefined

from weft.config.diagnosis import diagnose, found
from weft.config.keys import all_keys, near
from weft.config.settings import Settings, as_in_toml, form_of
from weft.config.toml import DEEPEST, KeyPath, line_numbers, read_toml, statements, write_key, write_value
from weft.errors import Problem, RecipeError, UsageError, refuse_one_string

R = TypeVar("R", bound=Settings)

LARGEST_FILE = 1 << 20
"""In bytes; a larger file was probably named by mistake."""
MOST_PROBLEMS = 500
"""Largest number of wrong keys and values reported one by one; finding near matches takes time for each."""


@dataclass(frozen=True)
class Resolved(Generic[R]):
    """A checked recipe and, for each dotted key, where its value comes from.

    Origins set here: "recipe", "command line" and "default". Callers of `changed` set others: "corpus", "language",
    "measured", "init", "teacher" and "translator" (from another model), "import" (from another system), "corpus instead
    of 8000" (8000 was requested but is not possible), "counted" (n-grams in the training texts).
    A list of tables, or a table without a model of its own, counts as one value.
    """

    recipe: R
    origins: Mapping[str, str]


@dataclass(frozen=True)
class Difference:
    """A key whose value differs between two recipes; None if it is left out."""

    key: str
    old: Any
    new: Any

    def __str__(self) -> str:
        old, new = ("not set" if value is None else repr(value) for value in (self.old, self.new))
        return f"{self.key}: was {old}, is {new}"


def read_recipe(
    path: str | Path,
    model: type[R],
    overrides: Sequence[str] = (),
    *,
    of_the_machine: Collection[str] = (),
    of_run: bool = False,
) -> Resolved[R]:
    """Read a TOML file, apply the overrides (`KEY=VALUE`) and check the result against a model.

    In a file written by rendering.py, keys in `of_the_machine` whose origin is "measured" are dropped, because they may
    not suit another machine. So are retired keys whose origin is "default", and all retired keys of a file that belongs
    to a run (`of_run`), which nobody may edit. Raises UsageError if the file does not exist, and RecipeError with all
    problems of its content and of the overrides.
    """
    text = read_text(Path(path))
    document = parse_toml(text, path)
    comments = {(*s.table, *s.content): s.comment for s in statements(text)}
    for table, name in (key.split(".") for key in of_the_machine):
        if comments.get((table, name)) == "measured":
            del document[table][name]
    document = without_retired(document, model, lambda key: of_run or comments.get(key) == "default")
    return resolve(document, model, path, overrides, text=text)


def resolve(
    document: Mapping[str, Any],
    model: type[R],
    subject: str | Path,
    overrides: Sequence[str] = (),
    *,
    origin: str = "recipe",
    text: str = "",
) -> Resolved[R]:
    """Apply the overrides (`KEY=VALUE`) to a recipe given as a dict and check the result against a model.

    `subject` names the recipe in errors and `origin` is the origin recorded for its values. If the dict was read from
    TOML, `text` is that TOML, and problems name their lines. Raises RecipeError.
    """
    parsed, problems = _parse_overrides(overrides)
    given = as_in_toml(document)
    changed_document = given
    for override in parsed:
        changed_document, clash = _with_value(changed_document, override.path, override.value)
        problems += [Problem(override.where, clash)] if clash else []
    complete = _with_tables(changed_document, model)
    sources = _Sources(model, given, complete, parsed, text)
    try:
        recipe = model.model_validate(complete)
    except ValidationError as error:
        if error.error_count() > MOST_PROBLEMS:
            what = f"has more than {MOST_PROBLEMS:,} wrong keys or values, so it is probably not a recipe"
            raise RecipeError(subject, [*problems, Problem("the recipe", what)]) from None
        problems += [
            Problem(sources.where(path), what) for path, whats in diagnose(model, complete).items() for what in whats
        ]
        raise RecipeError(subject, problems) from None
    if problems:
        raise RecipeError(subject, problems)
    return Resolved(recipe, {key: sources.origin(key, origin) for key in leaves(recipe)})


def changed(resolved: Resolved[R], values: Mapping[str, Any], origin: str) -> Resolved[R]:
    """Set some dotted keys of a recipe to values with another origin, and check it again. Raises RecipeError."""
    document = as_document(resolved.recipe)
    for key, value in values.items():
        document, clash = _with_value(document, tuple(key.split(".")), as_in_toml(value))
        if clash:
            raise RecipeError(f"the recipe with its {origin} values", [Problem(key, clash)])
    renewed = resolve(document, type(resolved.recipe), f"the recipe with its {origin} values")
    set_here = tuple(f"{key}." for key in values)
    origins = {
        key: origin if f"{key}.".startswith(set_here) else resolved.origins.get(key, "default")
        for key in leaves(renewed.recipe)
    }
    return Resolved(renewed.recipe, origins)


def override(
    resolved: Resolved[R], overrides: Sequence[str], subject: str | Path, changeable: Sequence[str]
) -> Resolved[R]:
    """Apply overrides (`KEY=VALUE`) to the recipe of an existing model or run.

    Raises RecipeError if an override is wrong, or if its key is not in `changeable` (dotted keys or whole tables).
    """
    renewed = resolve(as_document(resolved.recipe), type(resolved.recipe), subject, overrides)
    fixed = [
        Problem(o.where, f"cannot be changed here; what can be changed: {', '.join(changeable)}")
        for o in _parse_overrides(overrides)[0]
        if not any(f"{'.'.join(o.path)}.".startswith(f"{key}.") for key in changeable)
    ]
    if fixed:
        raise RecipeError(subject, fixed)
    origins = {
        key: "command line" if renewed.origins[key] == "command line" else resolved.origins.get(key, "default")
        for key in renewed.origins
    }
    return Resolved(renewed.recipe, origins)


def differences(old: Resolved[Any], new: Resolved[Any]) -> list[Difference]:
    """The keys whose values differ between two recipes, such as a run's own and the one it is resumed with."""
    before, after = leaves(old.recipe), leaves(new.recipe)
    return [
        Difference(key, before.get(key), after.get(key))
        for key in {**before, **after}
        if before.get(key) != after.get(key)
    ]


def from_defaults(recipe: Settings, path: str = "") -> list[Difference]:
    """The keys of a recipe that have another value than their default; `old` is None without a default."""
    found: list[Difference] = []
    plain = recipe.model_dump()  # without the models of settings that a list may hold
    for name, value in recipe:
        if isinstance(value, Settings):
            found += from_defaults(value, f"{path}{name}.")
            continue
        default = type(recipe).model_fields[name].get_default(call_default_factory=True, validated_data={})
        if value != default:
            found.append(Difference(f"{path}{name}", None if default is PydanticUndefined else default, plain[name]))
    return found


def choose_recipe_model(
    recipe: str | Path | Mapping[str, Any], models: Mapping[str, type[Settings]], overrides: Sequence[str] = ()
) -> type[Settings]:
    """The model of settings for the `task` of a recipe (a file or a dict); the default task is "translation".

    Raises what `read_recipe` raises, and RecipeError, with a near match, for an unknown task.
    """
    subject = "the recipe" if isinstance(recipe, Mapping) else recipe
    document = recipe if isinstance(recipe, Mapping) else parse_toml(read_text(Path(recipe)), recipe)
    if "base" in document:
        raise UsageError(f"{subject} is a study, not a recipe; weft tune {shlex.quote(str(subject))} trains it")
    task = document.get("task", "translation")
    where = _with_brief("task", task)
    for override in _parse_overrides(overrides)[0]:
        if override.path == ("task",):
            task, where = override.value, override.where
    if isinstance(task, str) and task in models:
        return models[task]
    match = near(task, models) if isinstance(task, str) else []
    hint = f"did you mean `{match[0]}`?" if match else f"found {found(task)}"
    raise RecipeError(subject, [Problem(where, f"expected one of {', '.join(models)}; {hint}")])


def leaves(recipe: Settings) -> dict[str, Any]:
    """All dotted keys with their values, in the model's order; tables of settings are replaced by their keys."""
    values: dict[str, Any] = {}
    for name, value in recipe:
        if isinstance(value, Settings):
            values |= {f"{name}.{inner}": inner_value for inner, inner_value in leaves(value).items()}
        else:
            values[name] = value
    return values


def dotted(table: Mapping[str, Any], unless: Collection[str] = ()) -> dict[str, Any]:
    """The values of nested tables by dotted key. A table that has one of the keys `unless` is a value."""
    flat: dict[str, Any] = {}
    for name, value in table.items():
        if isinstance(value, Mapping) and value.keys().isdisjoint(unless):
            flat |= {f"{name}.{inner}": inner_value for inner, inner_value in dotted(value, unless).items()}
        else:
            flat[name] = value
    return flat


def as_document(recipe: Settings) -> dict[str, Any]:
    """Convert a recipe to nested dicts, from which it can be made again."""
    return {name: as_document(value) if isinstance(value, Settings) else value for name, value in recipe}


def parse_toml(text: str, subject: str | Path) -> dict[str, Any]:
    """Parse TOML. Raises RecipeError with the line and column of an error."""
    try:
        return read_toml(text)
    except tomllib.TOMLDecodeError as error:
        place = re.fullmatch(r"(.*) \(at (.*)\)", str(error), re.DOTALL)
        what, where = place.groups() if place else (str(error), "the file")
        number = re.match(r"line (\d+)", where)
        line = text.splitlines()[int(number[1]) - 1 :][:1] if number else []
        raise RecipeError(subject, [Problem(where, f"{what}{wide_sign_in(*line)}")]) from None


WIDE_SIGNS = dict(zip("“”‘’，：＝【】", "\"\"'',:=[]", strict=True))
QUOTED = re.compile(r""" "(?:\\.|[^"\\])*" | '[^']*' """, re.VERBOSE)


def wide_sign_in(line: str = "") -> str:
    """A hint at the first sign of Chinese typing in a line that cannot be read; empty without one.

    Quoted text and comments may have such signs. If a quotation mark lacks its other half, only wide ones count.
    """
    bare = QUOTED.sub("", line).partition("#")[0]
    text, signs = (line, "“”‘’") if set(bare) & {'"', "'"} else (bare, WIDE_SIGNS)
    sign = next((sign for sign in text if sign in signs), None)
    return f"; it has {sign}, a sign of Chinese typing: write {WIDE_SIGNS[sign]}" if sign else ""


@dataclass(frozen=True)
class _Override:
    where: str
    path: tuple[str, ...]
    value: Any


def _parse_overrides(overrides: Sequence[str]) -> tuple[list[_Override], list[Problem]]:
    refuse_one_string(overrides, "a recipe", "override")
    parsed: list[_Override] = []
    problems: list[Problem] = []
    for override in overrides:
        key, _, value = (part.strip() for part in str(override).partition("="))
        where = f"--set {override}"
        names = tuple(name.strip() for name in key.split("."))
        if not value or not all(names) or len(names) > DEEPEST:
            what = f"expected KEY=VALUE, such as training.epochs=30{wide_sign_in(str(override))}"
            problems.append(Problem(where, what))
            continue
        try:
            parsed.append(_Override(where, names, _parse_value(value)))
        except ValueError as error:
            problems.append(Problem(where, f"the value is not valid TOML: {error}"))
    return parsed, problems


def _parse_value(text: str) -> Any:
    """Parse a TOML value. A bare word stands for itself, because a shell removes the quotes that TOML requires."""
    try:
        (value,) = read_toml(f"value = {text}").values()
    except ValueError:
        if text[0] in "\"'[{":
            raise
        return text
    return as_in_toml(value)


def _with_value(document: Mapping[str, Any], path: tuple[str, ...], value: Any) -> tuple[dict[str, Any], str]:
    """A copy of the document with one value set; or, if that is impossible, an unchanged copy and the reason."""
    name, *rest = path
    if not rest:
        return {**document, name: value}, ""
    table = document.get(name)
    table = {} if table is None else as_document(table) if isinstance(table, Settings) else table
    if not isinstance(table, Mapping):
        return dict(document), f"`{name}` is {found(table)}, not a table; set the whole key"
    inner, clash = _with_value(table, tuple(rest), value)
    return {**document, name: inner}, clash


def without_retired(
    document: Mapping[str, Any], model: type[Settings], is_dropped: Callable[[KeyPath], bool], at: KeyPath = ()
) -> dict[str, Any]:
    """Drop the retired keys of every table for whose path `is_dropped` holds."""
    kept = {key: value for key, value in document.items() if key not in model.RETIRED or not is_dropped((*at, key))}
    for name, value in kept.items():
        field = model.model_fields.get(name)
        if field and isinstance(value, Mapping) and (form := form_of(field.annotation, value)):
            kept[name] = without_retired(value, form, is_dropped, (*at, name))
    return kept


def _with_tables(document: Mapping[str, Any], model: type[Settings]) -> dict[str, Any]:
    """Add required tables that are missing as empty ones, so that the keys missing in them are reported."""
    complete = dict(document)
    for name, field in model.model_fields.items():
        value = complete.get(name, {} if field.is_required() else None)
        if isinstance(value, Mapping) and (form := form_of(field.annotation, value)):
            complete[name] = _with_tables(value, form)
    return complete


@dataclass(frozen=True)
class _Sources:
    """What a recipe was made from, to find where each value comes from."""

    model: type[Settings]
    given: Mapping[str, Any]
    """The document before the overrides."""
    document: Mapping[str, Any]
    """The document after them."""
    overrides: Sequence[_Override]
    text: str

    def origin(self, key: str, given: str) -> str:
        """The origin of a key's value: "command line", "default", or `given` if it stands in the document."""
        path = tuple(key.split("."))
        if _value_at(self.document, path) is _ABSENT:
            return "default"
        return "command line" if self.overrides and self._overriding(path) else given

    def where(self, path: KeyPath) -> str:
        """Describe a key for an error: with its value, and the line of the file or the `--set` that set it."""
        overriding = self._overriding(path)
        if overriding and (len(overriding[-1].path) <= len(path) or _value_at(self.given, path) is _ABSENT):
            return overriding[-1].where
        key = _dotted(path)
        if (value := _value_at(self.document, path)) is not _ABSENT:
            line = self._line(path)
            return _with_brief(key, value) + (f" (line {line})" if line else "")
        field = all_keys(self.model, self.document).get(key)
        if field is None or field.is_required():
            return key
        return _with_brief(key, field.get_default(call_default_factory=True, validated_data={})) + " (default)"

    def _overriding(self, path: KeyPath) -> list[_Override]:
        """The overrides of this key, of something inside it, or of a table that contains it."""
        return [
            override
            for override in self.overrides
            if path and all(mine == theirs for mine, theirs in zip(path, override.path, strict=False))
        ]

    def _line(self, path: KeyPath) -> int | None:
        """The line of the statement that sets this; inside a list or an inline table, the line where that begins."""
        upward = (path[:depth] for depth in range(len(path), 0, -1))
        return next((self._lines[part] for part in upward if part in self._lines), None)

    @cached_property
    def _lines(self) -> dict[KeyPath, int]:
        return line_numbers(self.text)


def _value_at(document: Any, path: KeyPath) -> Any:
    """The value at a path of a document, which may contain Settings objects; _ABSENT if there is none."""
    for name in path:
        if isinstance(document, tuple):
            document = document[name] if isinstance(name, int) and name < len(document) else _ABSENT
        elif isinstance(document, Mapping):
            document = document.get(name, _ABSENT)
        else:
            document = getattr(document, str(name), _ABSENT)
    return document


_ABSENT = object()


def _dotted(path: KeyPath) -> str:
    """`data.train[0].path`"""
    names = "".join(f"[{name}]" if isinstance(name, int) else f".{write_key(name)}" for name in path)
    return names.removeprefix(".") or "the recipe"


def _with_brief(key: str, value: Any) -> str:
    """`key = value`, or only the key if the value is a table or long."""
    if value is None or isinstance(value, Mapping | Settings):
        return key
    try:
        written = write_value(value)
    except TypeError:  # a date; no setting has that type
        written = str(value)
    return f"{key} = {written}" if len(written) <= 40 else key


def read_text(path: Path, what: str = "recipe") -> str:
    """The text of a recipe or study; raises UsageError for a path that is not a file, with a near match if any."""
    try:
        if path.is_dir():
            raise UsageError(f"{path} is a folder; a {what} is a TOML file")
        if path.exists() and not path.is_file():
            raise UsageError(
                f"{path} is a pipe or a device; save the {what} to a file, from which training can be resumed"
            )
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except FileNotFoundError:
        near_files = near(path.stem, (file.stem for file in path.parent.glob("*.toml")))
        hint = f"; did you mean {path.parent / near_files[0]}.toml?" if near_files else ""
        raise UsageError(f"there is no {what} {path}{hint}") from None
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        raise UsageError(f"cannot read the {what} {path}: {getattr(error, 'strerror', None) or error}") from None
    if len(content) > LARGEST_FILE:
        raise RecipeError(path, [Problem("the file", f"is larger than 1 MiB, so it is probably not a {what}")])
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise RecipeError(path, [Problem(f"line {line}", "is not UTF-8; save the file in that encoding")]) from None
