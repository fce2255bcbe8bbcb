"""Turns pydantic's errors into problems a person can act on: the dotted key, what was expected, what to do.

Files are not its business: `recipe.py` adds the line or the `--set` that a key comes from.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from weft.config.keys import BOUNDS, all_keys, choices_in, in_words, near, near_keys, unknown_key
from weft.config.settings import FieldProblems, Settings, as_in_toml, form_of, forms_by_kind, members
from weft.config.toml import KeyPath


def diagnose(model: type[Settings], document: Mapping[str, Any]) -> dict[KeyPath, list[str]]:
    """All problems of a document: path -> messages. Empty if the document is valid."""
    problems: dict[KeyPath, list[str]] = {}
    misnamed: list[KeyPath] = []
    keys = all_keys(model, document)
    for path, what in _problems(model, document, ()):
        if what is UNKNOWN:
            table = ".".join(name for name in path[:-1] if isinstance(name, str))
            what, meant = unknown_key(model, keys, table, str(path[-1]))
            for home, _, name in (key.rpartition(".") for key in meant):
                misnamed.append((*path[:-1], name) if home == table else (*filter(None, home.split(".")), name))
        if what not in problems.setdefault(path, []):
            problems[path].append(what)
    return {
        path: whats
        for path, whats in problems.items()
        if not (whats[0].startswith(MISSING) and any(path[: len(key)] == key for key in misnamed))
    }


def check_value(model: type[Settings], key: str, value: Any) -> list[str]:
    """The problems of one value of a dotted key on its own, whatever the other keys are."""
    keys = all_keys(model)
    if key not in keys:
        meant = " or ".join(f"`{near}`" for near in near_keys(key, keys))
        return [f"unknown key; did you mean {meant}?" if meant else "unknown key"]
    field = keys[key]
    annotation: Any = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
    return [what for _, what in _problems(annotation, as_in_toml(value), ())]


UNKNOWN, MISSING = "unknown key", "missing"


def _problems(annotation: Any, value: Any, at: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    """Validate a value, found at the path `at`, against a type."""
    try:
        _adapter(annotation).validate_python(value)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            yield from _problem(annotation, value, at, detail)


def _adapter(annotation: Any) -> TypeAdapter[Any]:
    plain = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    if isinstance(plain, type) and issubclass(plain, BaseModel):
        return TypeAdapter(annotation)  # pydantic does not allow a configuration besides the model's own
    return TypeAdapter(annotation, config=ConfigDict(strict=True))


def _problem(annotation: Any, value: Any, at: KeyPath, detail: Any) -> Iterator[tuple[KeyPath, str]]:
    """Follow the location of a pydantic error down to its type and value, then describe it.

    In a union pydantic reports the failure of every member, with the member's name in the location. Only the member
    that the value was probably meant for is reported, so the value is validated against that one again.
    """
    for name in detail["loc"]:
        options = members(annotation)
        if len(options) > 1:
            yield from _union_problems(annotation, value, at, detail)
            return
        annotation = _inner(options[0], name)
        if name == "[key]":  # how pydantic marks the key of a table, which is always a string in TOML
            break
        at += (name,)
        value = _item(value, name)
    yield from _said(annotation, value, at, detail)


def _union_problems(annotation: Any, value: Any, at: KeyPath, detail: Any) -> Iterator[tuple[KeyPath, str]]:
    if forms_by_kind(annotation):
        yield from _form_problems(annotation, value, at)
        return
    meant = [list(_problems(option, value, at)) for option in members(annotation) if _is_meant(option, value)]
    if not meant:
        yield at, _expected(annotation, value)
    elif all(meant):
        yield from min(meant, key=len)
    else:  # some member accepts the value, so a constraint on the whole union rejects it
        yield from _said(annotation, value, at, detail)


def _form_problems(annotation: Any, table: Any, at: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    """The problems of a table that takes one of several forms. With an unknown kind, only keys that no form has."""
    forms = forms_by_kind(annotation)
    if not isinstance(table, Mapping):
        yield at, _expected(annotation, table)
    elif form := form_of(annotation, table):
        for path, what in _problems(form, table, at):
            owners = [kind for kind, other in forms.items() if path[:-1] == at and path[-1] in other.model_fields]
            if what is UNKNOWN and owners:
                belongs = " or ".join(f'"{kind}"' for kind in owners)
                what = f'belongs to kind = {belongs}; this is kind = "{table.get("kind", next(iter(forms)))}"'
            yield path, what
    else:
        kind = table["kind"]
        meant = [
            f'kind = "{name}" with {key} = "{kind}"'
            for name, form in forms.items()
            for key, field in form.model_fields.items()
            if key != "kind" and kind in choices_in(field.annotation)
        ]
        expected = _expected(Literal[*forms], kind)
        yield (*at, "kind"), f"{expected}; did you mean {' or '.join(meant[:2])}?" if meant else expected
        known = {key for form in forms.values() for key in form.model_fields}
        yield from (((*at, key), UNKNOWN) for key in table if key not in known)


def _is_meant(option: Any, value: Any) -> bool:
    """Whether a value has the type of this member of a union, whether or not its content is valid."""
    if get_origin(option) is Annotated:
        return _is_meant(get_args(option)[0], value)
    if get_origin(option) is Literal:
        return False  # a wrong word may be meant for any member, so the message lists them all
    kind = get_origin(option) or option
    if isinstance(kind, type) and issubclass(kind, Mapping | BaseModel):
        return isinstance(value, Mapping | BaseModel)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return type(value) is kind


def _inner(annotation: Any, name: str | int) -> Any:
    """The type of the entry with this name in a table, or at this position in a list."""
    if get_origin(annotation) is Annotated:
        return _inner(get_args(annotation)[0], name)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        field = annotation.model_fields.get(str(name))
        return field.annotation if field else Any
    arguments = get_args(annotation)
    if get_origin(annotation) is tuple and isinstance(name, int):
        return arguments[0] if arguments[-1] is Ellipsis else arguments[min(name, len(arguments) - 1)]
    return arguments[-1] if arguments else Any


def _item(value: Any, name: str | int) -> Any:
    if isinstance(value, Mapping):
        return value.get(name)
    return value[name] if isinstance(value, tuple) and isinstance(name, int) and name < len(value) else None


def _said(annotation: Any, value: Any, at: KeyPath, detail: Any) -> Iterator[tuple[KeyPath, str]]:
    kind, context = detail["type"], detail.get("ctx", {})
    bound = next((name for name in BOUNDS if name in context), "")
    if kind == "too_short" and len(value) >= context["min_length"]:
        return  # pydantic counts only valid entries; the invalid ones are reported on their own
    if bound.endswith("_length"):
        yield at, f"must have a length of {BOUNDS[bound].format(context[bound])}, found {len(value)}"
    elif bound:
        yield at, f"must be {BOUNDS[bound].format(context[bound])}, found {found(value)}"
    elif kind == "extra_forbidden":
        yield at, UNKNOWN
    elif kind == "union_tag_invalid":
        yield from _form_problems(annotation, value, at)
    elif kind == "missing":
        yield at, f"{MISSING}; expected {in_words(annotation)}"
    elif kind in ("value_error", "assertion_error"):
        yield from _raised(context["error"], at)
    elif kind == "literal_error" or kind.endswith("_type"):
        yield at, _expected(annotation, value)
    else:
        yield at, f"{detail['msg']}, found {found(value)}"


def _raised(error: Exception, at: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    """The problems reported by an exception from a model's own validator."""
    if isinstance(error, FieldProblems):
        for field, what in error.problems:
            yield (*at, *(int(name) if name.isdecimal() else name for name in field.split("."))), what
    else:
        yield from ((at, line) for line in str(error).splitlines())


def _expected(annotation: Any, value: Any) -> str:
    expected = f"expected {in_words(annotation)}"
    match = near(value, choices_in(annotation)) if isinstance(value, str) else []
    return f"{expected}; did you mean `{match[0]}`?" if match else f"{expected}, found {found(value)}"


def found(value: Any) -> str:
    """Describe a value for an error message: "true", "the text 'x'", "a table"."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"the text {value!r}" if len(value) <= 40 else f"the text {value[:40]!r}..."
    if isinstance(value, Mapping | BaseModel):
        return "a table"
    if isinstance(value, tuple | list):
        return "a list"
    if isinstance(value, int | float):
        return str(value)
    return "nothing" if value is None else f"the {type(value).__name__} {value}"
