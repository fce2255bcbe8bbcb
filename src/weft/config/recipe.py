"""A recipe: from a file, or a dict, and the command line's `--set` to checked settings that know where they come from.

It knows no key itself: the model of the settings is handed in. Everything that is wrong is said at once.
"""

import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from weft.config.diagnosis import diagnose, found
from weft.config.keys import all_keys, near
from weft.config.settings import Settings, as_in_toml, form_of
from weft.config.toml import DEEPEST, KeyPath, line_numbers, read_toml, statements, write_key, write_value
from weft.errors import Problem, RecipeError, UsageError, refuse_one_string

R = TypeVar("R", bound=Settings)

LARGEST_FILE = 1 << 20
"""Bytes; a larger file is no recipe but was taken for one."""
MOST_PROBLEMS = 500
"""Wrong keys and values that are told one by one; finding what was meant takes time for each."""


@dataclass(frozen=True)
class Resolved(Generic[R]):
    """A checked recipe and, for each dotted key, where its value comes from.

    The origins given here are "recipe", "command line" and "default"; callers of `changed` give others: "corpus",
    "language", "measured", "init" and "teacher" (another model's), "import" (another system's), "corpus instead of
    8000" (8000 was asked for and could not be).
    A list of tables, or a table without a model of its own, counts as one value.
    """

    recipe: R
    origins: Mapping[str, str]


@dataclass(frozen=True)
class Difference:
    """A key whose value is not the same in two recipes; None stands for a value that is left out."""

    key: str
    old: Any
    new: Any


def read_recipe(
    path: str | Path, model: type[R], overrides: Sequence[str] = (), *, of_the_machine: Collection[str] = ()
) -> Resolved[R]:
    """Read a TOML file, change it by the overrides (`KEY=VALUE`) and check it against a model.

    Where the file is what rendering.py wrote, the keys `of_the_machine` that it calls measured are dropped: what was
    measured on one machine need not suit the next. So are retired keys that it calls defaults. Raises UsageError if
    there is no such file, and RecipeError with all the problems of its content and the overrides.
    """
    text = _read_text(Path(path))
    document = parse_toml(text, path)
    if of_the_machine:
        document = _without_measured(document, text, of_the_machine)
    defaults = {(*s.table, *s.content) for s in statements(text) if s.comment == "default"}
    document = without_retired(document, model, lambda path: path in defaults)
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
    """The same for a recipe that is a dict already.

    `subject` is what an error calls the recipe, `origin` what its values are said to come from, and `text` the TOML
    from which the dict was read, if it was: problems then name their lines.
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
            what = f"has more than {MOST_PROBLEMS:,} wrong keys or values, so it was hardly meant for a recipe"
            raise RecipeError(subject, [*problems, Problem("the recipe", what)]) from None
        problems += [
            Problem(sources.where(path), what) for path, whats in diagnose(model, complete).items() for what in whats
        ]
        raise RecipeError(subject, problems) from None
    if problems:
        raise RecipeError(subject, problems)
    return Resolved(recipe, {key: sources.origin(key, origin) for key in leaves(recipe)})


def changed(resolved: Resolved[R], values: Mapping[str, Any], origin: str) -> Resolved[R]:
    """The recipe with some dotted keys set to values of another origin, checked again.

    Raises RecipeError if the values do not fit.
    """
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
    """The recipe of something that exists, with overrides (`KEY=VALUE`) of some of its tables and keys.

    Raises RecipeError where an override is wrong, or its key is not in `changeable` (dotted keys or whole tables).
    """
    renewed = resolve(as_document(resolved.recipe), type(resolved.recipe), subject, overrides)
    fixed = [
        Problem(o.where, f"cannot be changed here; what can: {', '.join(changeable)}")
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
    """The keys whose values differ between two recipes, such as the one a run was begun with and the one given now."""
    before, after = leaves(old.recipe), leaves(new.recipe)
    return [
        Difference(key, before.get(key), after.get(key))
        for key in {**before, **after}
        if before.get(key) != after.get(key)
    ]


def choose_recipe_model(
    recipe: str | Path | Mapping[str, Any], models: Mapping[str, type[Settings]], overrides: Sequence[str] = ()
) -> type[Settings]:
    """The model for the task that a recipe (a file or a dict) names in its key `task`; without one, "translation".

    Raises what `read_recipe` raises, and RecipeError with the near match for a task that there is no model for.
    """
    subject = "the recipe" if isinstance(recipe, Mapping) else recipe
    document = recipe if isinstance(recipe, Mapping) else parse_toml(_read_text(Path(recipe)), recipe)
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
    """Every dotted key that holds a value rather than a table of settings -> that value, in the model's order."""
    values: dict[str, Any] = {}
    for name, value in recipe:
        if isinstance(value, Settings):
            values |= {f"{name}.{inner}": inner_value for inner, inner_value in leaves(value).items()}
        else:
            values[name] = value
    return values


def as_document(recipe: Settings) -> dict[str, Any]:
    """The recipe as the dict from which it can be made again."""
    return {name: as_document(value) if isinstance(value, Settings) else value for name, value in recipe}


def parse_toml(text: str, subject: str | Path) -> dict[str, Any]:
    """TOML text as a dict. Raises RecipeError that says at which line and column the text is broken."""
    try:
        return read_toml(text)
    except tomllib.TOMLDecodeError as error:
        place = re.fullmatch(r"(.*) \(at (.*)\)", str(error), re.DOTALL)
        what, where = place.groups() if place else (str(error), "the file")
        raise RecipeError(subject, [Problem(where, what)]) from None


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
            problems.append(Problem(where, "expected KEY=VALUE, such as training.epochs=30"))
            continue
        try:
            parsed.append(_Override(where, names, _parse_value(value)))
        except ValueError as error:
            problems.append(Problem(where, f"the value is broken TOML: {error}"))
    return parsed, problems


def _parse_value(text: str) -> Any:
    """A TOML value, or the text itself if it is none: a shell takes the quotes that TOML wants from around a word."""
    try:
        (value,) = read_toml(f"value = {text}").values()
    except ValueError:
        if text[0] in "\"'[{":
            raise
        return text
    return as_in_toml(value)


def _with_value(document: Mapping[str, Any], path: tuple[str, ...], value: Any) -> tuple[dict[str, Any], str]:
    """A document with one more value in it; or the old one, and why the value cannot be put there."""
    name, *rest = path
    if not rest:
        return {**document, name: value}, ""
    table = document.get(name)
    table = {} if table is None else as_document(table) if isinstance(table, Settings) else table
    if not isinstance(table, Mapping):
        return dict(document), f"`{name}` is no table but {found(table)}; set it as a whole"
    inner, clash = _with_value(table, tuple(rest), value)
    return {**document, name: inner}, clash


def _without_measured(document: dict[str, Any], text: str, keys: Collection[str]) -> dict[str, Any]:
    """A document without those values of these keys, each in a table, behind which its text says `# measured`."""
    measured = {(*s.table, *s.content) for s in statements(text) if s.comment == "measured"}
    for table, name in (key.split(".") for key in keys):
        if (table, name) in measured:
            document = {**document, table: {key: value for key, value in document[table].items() if key != name}}
    return document


def without_retired(
    document: Mapping[str, Any], model: type[Settings], is_dropped: Callable[[KeyPath], bool], at: KeyPath = ()
) -> dict[str, Any]:
    """A document without the keys for which `is_dropped` holds among those that its tables have no longer."""
    kept = {key: value for key, value in document.items() if key not in model.RETIRED or not is_dropped((*at, key))}
    for name, value in kept.items():
        field = model.model_fields.get(name)
        if field and isinstance(value, Mapping) and (form := form_of(field.annotation, value)):
            kept[name] = without_retired(value, form, is_dropped, (*at, name))
    return kept


def _with_tables(document: Mapping[str, Any], model: type[Settings]) -> dict[str, Any]:
    """A document with the tables that must be there and are not, empty: what is missing in them can then be named."""
    complete = dict(document)
    for name, field in model.model_fields.items():
        if form := form_of(field.annotation, complete.get(name)):
            if field.is_required():
                complete.setdefault(name, {})
            if isinstance(complete.get(name), Mapping):
                complete[name] = _with_tables(complete[name], form)
    return complete


@dataclass(frozen=True)
class _Sources:
    """What a recipe was made of; tells where a value comes from."""

    model: type[Settings]
    given: Mapping[str, Any]
    """The document before the overrides."""
    document: Mapping[str, Any]
    """The document after them."""
    overrides: Sequence[_Override]
    text: str

    def origin(self, key: str, given: str) -> str:
        """Of a value: "command line", "default" or, if it was given in the document, what it is then called."""
        path = tuple(key.split("."))
        if _value_at(self.document, path) is _ABSENT:
            return "default"
        return "command line" if self._overriding(path) else given

    def where(self, path: KeyPath) -> str:
        """The key with its value, and the line in the file or the `--set` that put it there."""
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
        """The overrides that set this key, something in it, or a table that it is in."""
        return [
            override
            for override in self.overrides
            if path and all(mine == theirs for mine, theirs in zip(path, override.path, strict=False))
        ]

    def _line(self, path: KeyPath) -> int | None:
        """The line of the statement that says this; for something within a list or an inline table, of the whole."""
        upward = (path[:depth] for depth in range(len(path), 0, -1))
        return next((self._lines[part] for part in upward if part in self._lines), None)

    @cached_property
    def _lines(self) -> dict[KeyPath, int]:
        return line_numbers(self.text)


def _value_at(document: Any, path: KeyPath) -> Any:
    """What a document says at a path, or _ABSENT; the path may lead through a ready Settings."""
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
    """`key = value`, or the key alone where the value is a table or long."""
    if value is None or isinstance(value, Mapping | Settings):
        return key
    try:
        written = write_value(value)
    except TypeError:  # a date, which no setting is
        written = str(value)
    return f"{key} = {written}" if len(written) <= 40 else key


def _read_text(path: Path) -> str:
    try:
        if path.is_dir():
            raise UsageError(f"{path} is a folder; a recipe is a TOML file")
        if path.exists() and not path.is_file():
            raise UsageError(f"{path} is a pipe or a device; save the recipe as a file, which a run is gone on with")
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except FileNotFoundError:
        near_files = near(path.stem, _recipes_in(path.parent))
        hint = f"; did you mean {path.parent / near_files[0]}.toml?" if near_files else ""
        raise UsageError(f"there is no recipe {path}{hint}") from None
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        raise UsageError(f"cannot read the recipe {path}: {getattr(error, 'strerror', None) or error}") from None
    if len(content) > LARGEST_FILE:
        raise RecipeError(path, [Problem("the file", "is larger than 1 MiB, so it cannot be a recipe")])
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise RecipeError(path, [Problem(f"line {line}", "is not UTF-8; save the file in that encoding")]) from None


def _recipes_in(folder: Path) -> Iterator[str]:
    return (file.stem for file in folder.glob("*.toml")) if folder.is_dir() else iter(())
