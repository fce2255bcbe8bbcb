"""The keys of a model of settings and what they mean: near matches, `weft config explain`, JSON schema.

The values of a recipe are handled in `recipe.py`.
"""

import difflib
import inspect
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from weft.config.other_names import NAMES_HERE
from weft.config.settings import Settings, form_of, forms_by_kind, is_table, members
from weft.config.toml import write_value
from weft.errors import UsageError

BOUNDS: Mapping[str, str] = {
    "gt": "greater than {:.12g}",
    "ge": "at least {:.12g}",
    "lt": "less than {:.12g}",
    "le": "at most {:.12g}",
    "multiple_of": "a multiple of {:.12g}",
    "min_length": "at least {}",
    "max_length": "at most {}",
}
"""What a bound says, by its name in the metadata of a field and in pydantic's errors."""


def explain(model: type[Settings], key: str = "", later: Mapping[str, str] = MappingProxyType({})) -> str:
    """Explain a dotted key: its help text, type, bounds and default. For a table (or "", the recipe), list its keys.

    Where the kinds of a table differ, each is explained. `later` maps keys whose value is chosen only when more is
    known to a phrase that says so, shown in place of their default.

    Raises UsageError, with a near match, if the model has no such key.
    """
    keys = all_keys(model)
    if key and key not in keys:
        raise UsageError(f"there is no key `{key}`{_did_you_mean(near_keys(key, keys))}")
    about = _about_key(model, key, later.get(key)) if key else [model.__doc__ or ""]
    return "\n\n".join(filter(None, [*about, *_inside(model, key)]))


def _about_key(model: type[Settings], key: str, later: str | None) -> Iterator[str]:
    """The help text and facts of a key, repeated for each kind of its table if they differ."""
    table, _, name = key.rpartition(".")
    forms = _forms_at(model, table)
    said: dict[tuple[Any, ...], list[str]] = {}
    for kind, fields in forms.items():
        if name in fields:
            said.setdefault((_about(fields[name]), *_facts(fields[name], later)), []).append(kind)
    for (about, *facts), kinds in said.items():
        if len(kinds) < len(forms):
            facts.insert(0, ("only if", f"{table}.kind is {' or '.join(map(write_value, kinds))}"))
        yield "\n  ".join([key, *about.splitlines()])
        yield _aligned(facts)


def _inside(model: type[Settings], key: str) -> Iterator[str]:
    """One line per key of a table: first the keys shared by all its kinds, then those of each kind."""
    rows = {
        kind: [(name, _one_line(field)) for name, field in fields.items()]
        for kind, fields in _forms_at(model, key).items()
    }
    shared = [row for row in next(iter(rows.values()), []) if all(row in others for others in rows.values())]
    yield _aligned(shared)
    for kind, its_rows in rows.items():
        if own := [row for row in its_rows if row not in shared]:
            yield f"  only if kind is {write_value(kind)}:\n{_aligned(own)}"


def _forms_at(model: type[Settings], table: str) -> dict[str, dict[str, FieldInfo]]:
    """The fields of the table with this dotted key, for each of its kinds; the kind is "" if there is only one form."""
    forms = {"": dict(model.model_fields)}
    for name in filter(None, table.split(".")):
        outer, forms = forms, {}
        for kind, field in ((kind, fields[name]) for kind, fields in outer.items() if name in fields):
            choices = forms_by_kind(field.annotation)
            for inner_kind, form in choices.items() or ((kind, inner) for inner in tables_in(field.annotation)):
                forms.setdefault(inner_kind, {}).update(form.model_fields)
                if choices:
                    forms[inner_kind]["kind"] = _choice_of(choices)
    return forms


def _choice_of(forms: Mapping[str, type[Settings]]) -> FieldInfo:
    """A field `kind` that chooses between all of these forms."""
    (first, form), *_ = forms.items()
    kinds: Any = Literal[*forms]
    return FieldInfo(annotation=kinds, default=first, description=form.model_fields["kind"].description)


def json_schema(model: type[Settings]) -> dict[str, Any]:
    """The model as a JSON schema (draft 2020-12), for completion and checks in an editor."""
    schema = model.model_json_schema()
    definitions = schema.get("$defs", {})
    for table in [schema, *definitions.values()]:
        for key in table.get("properties", {}).values():
            if "discriminator" in key:  # without a kind a table has the first form, so the others require it
                for form in key["oneOf"][1:]:
                    definitions[form["$ref"].rpartition("/")[2]].setdefault("required", []).append("kind")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def all_keys(model: type[Settings], document: Mapping[str, Any] | None = None) -> dict[str, FieldInfo]:
    """All dotted keys of a model with their fields, each table before its keys; `train.path` for a list of tables.

    A table that takes one of several forms has the keys of the form chosen in the document; without a document, of all.
    """
    keys: dict[str, FieldInfo] = {}
    for name, field in model.model_fields.items():
        keys[name] = field
        table = None if document is None else document.get(name, {})
        form = None if table is None else form_of(field.annotation, table)
        for inner_model in [form] if form else tables_in(field.annotation):
            inner_document = table if isinstance(table, Mapping) else None
            for inner, inner_field in all_keys(inner_model, inner_document).items():
                keys.setdefault(f"{name}.{inner}", inner_field)
    return keys


def tables_in(annotation: Any) -> list[type[Settings]]:
    """The models of settings that occur in a type, inside unions, lists and annotations too."""
    if is_table(annotation):
        return [annotation]
    inside = get_args(annotation)[:1] if get_origin(annotation) is Annotated else get_args(annotation)
    return [table for inner in inside for table in tables_in(inner)]


def in_words(annotation: Any) -> str:
    """Describe a type in words: "a whole number", "text", "one of pre, post"."""
    options = members(annotation)
    if len(options) > 1:
        options = [option for option in options if not (option is int and float in options)]
        return " or ".join(dict.fromkeys(map(in_words, options)))
    origin, arguments = get_origin(options[0]), get_args(options[0])
    if origin is Annotated:
        return " that is ".join([in_words(arguments[0]), *filter(None, [_bounds(arguments[1:])])])
    if origin is Literal:
        choices = ", ".join(map(_plainly, arguments))
        return f"one of {choices}" if len(arguments) > 1 else choices
    if origin is tuple and arguments[-1] is Ellipsis:
        return "a list of values" if arguments[0] is Any else f"a list, each entry {in_words(arguments[0])}"
    if origin is tuple:
        return f"a list of {len(arguments)}: {', '.join(map(in_words, arguments))}"
    plain = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
    return plain.get(options[0], "a table")


def choices_in(annotation: Any) -> list[str]:
    """The strings that a type allows, where it or a member of it is a choice of strings."""
    if get_origin(annotation) is Literal:
        return [choice for choice in get_args(annotation) if isinstance(choice, str)]
    inside = get_args(annotation)[:1] if get_origin(annotation) is Annotated else members(annotation)
    return [choice for inner in inside if inner is not annotation for choice in choices_in(inner)]


def near(word: str, words: Iterable[str]) -> list[str]:
    """The most similar word, letter case and hyphens aside, as a list of one; empty if none is similar."""
    plain: dict[str, str] = {}
    for other in words:
        plain.setdefault(other.lower().replace("_", "-"), other)
    return [plain[match] for match in difflib.get_close_matches(word.lower().replace("_", "-"), plain, n=1)]


def near_keys(key: str, keys: Iterable[str]) -> list[str]:
    """The dotted keys probably meant by an unknown one: those with this name in other tables, else those with this name
    in another toolkit, else the most similar key."""
    keys = list(keys)
    table, _, name = key.rpartition(".")
    same = [other for other in keys if other.rpartition(".")[2] == name]
    return same or called_elsewhere(table, name, keys) or near(key, keys)


def called_elsewhere(table: str, name: str, keys: Iterable[str]) -> list[str]:
    """The dotted keys that another toolkit calls by this name; only those of the table, if there are any."""
    meant = [key for key in keys if key.rpartition(".")[2] in NAMES_HERE.get(name.replace("-", "_"), ())]
    return [key for key in meant if key.rpartition(".")[0] == table] or meant


def unknown_key(model: type[Settings], keys: Mapping[str, FieldInfo], table: str, name: str) -> tuple[str, list[str]]:
    """The message for an unknown name in a table, and those of `all_keys` that were possibly meant."""
    for settings in tables_in(keys[table].annotation) if table in keys else [model]:
        if name in settings.RETIRED:
            return f"is no longer a key; {settings.RETIRED[name]}", []
    prefix = f"{table}." if table else ""
    here = [key.removeprefix(prefix) for key in keys if key.rpartition(".")[0] == table]
    elsewhere = [key for key in keys if key.rpartition(".")[2] == name]
    if elsewhere:
        homes = [f"in [{home}]" if (home := key.rpartition(".")[0]) else "above the first table" for key in elsewhere]
        return f"unknown key here; belongs {' or '.join(homes)}", elsewhere
    if meant := called_elsewhere(table, name, keys):
        return "unknown key" + _did_you_mean([key.removeprefix(prefix) for key in meant]), meant
    if match := near(name, here):
        return f"unknown key; did you mean `{match[0]}`?", [prefix + match[0]]
    if match := near(name, [key.rpartition(".")[2] for key in keys]):
        meant = near_keys(match[0], keys)
        return "unknown key" + _did_you_mean(meant), meant
    return f"unknown key; known here: {', '.join(here)}", []


def _did_you_mean(keys: list[str]) -> str:
    return f"; did you mean {' or '.join(f'`{key}`' for key in keys)}?" if keys else ""


def _about(field: FieldInfo) -> str:
    """The help text of a field, or else the docstring of its table's model."""
    models = [member.__doc__ for member in members(field.annotation) if is_table(member)]
    return inspect.cleandoc(field.description or "\n".join(filter(None, models)))


def _facts(field: FieldInfo, later: str | None) -> list[tuple[str, str]]:
    default = later or _default(field)
    facts = [("type", in_words(field.annotation)), ("bounds", _bounds(field.metadata)), ("default", default)]
    return [(name, fact) for name, fact in facts if fact]


def _default(field: FieldInfo) -> str:
    if all(map(is_table, members(field.annotation))):
        return ""
    if field.is_required():
        return "none (required)"
    default = field.get_default(call_default_factory=True, validated_data={})
    return "not set" if default is None else write_value(default)


def _bounds(metadata: Iterable[Any]) -> str:
    return " and ".join(bound for constraint in metadata for bound in _bound(constraint))


def _bound(constraint: Any) -> Iterator[str]:
    for name, words in BOUNDS.items():
        if hasattr(constraint, name):
            yield words.format(getattr(constraint, name)) + " long" * name.endswith("_length")
    if isinstance(constraint, FieldInfo):  # a `Field` with bounds for one member of a union
        yield from filter(None, [_bounds(constraint.metadata)])


def _one_line(field: FieldInfo) -> str:
    first_paragraph = (_about(field) or in_words(field.annotation)).partition("\n\n")[0]
    summary = " ".join(first_paragraph.split())
    default = _default(field)
    return f"{summary} (default: {default})" if default else summary


def _aligned(rows: list[tuple[str, str]]) -> str:
    width = max((len(name) for name, _ in rows), default=0)
    return "\n".join(f"  {name:<{width}}  {text}" for name, text in rows)


def _plainly(choice: Any) -> str:
    return choice if isinstance(choice, str) else write_value(choice)
