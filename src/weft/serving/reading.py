"""A request's body becomes a checked request: JSON strictly, forms as text can be read."""

import json
from collections.abc import Mapping
from typing import Any, NoReturn, TypeVar
from urllib.parse import parse_qs

from pydantic import BaseModel, ValidationError, ValidationInfo
from python_multipart.multipart import parse_options_header
from starlette.exceptions import HTTPException
from starlette.requests import Request

from weft.serving.refusals import Refused

Model = TypeVar("Model", bound=BaseModel)

JSON, URL_ENCODED, MULTIPART = "application/json", "application/x-www-form-urlencoded", "multipart/form-data"
MOST_FIELDS = 256


async def read_request(request: Request, model: type[Model]) -> Model:
    """Raises Refused with all that is wrong with the body."""
    kind = content_type(request)
    if kind == JSON:
        return checked(read_json(await request.body()), model)
    if kind in (URL_ENCODED, MULTIPART):
        refuse_other_charset(request)
    if kind == URL_ENCODED:
        return checked(read_url_encoded(await request.body()), model, is_form=True)
    if kind == MULTIPART:
        return checked(await read_multipart(request), model, is_form=True)
    raise Refused(415, f"the body is neither {JSON} nor a form; say which in the header Content-Type")


def content_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def refuse_other_charset(request: Request) -> None:
    """Starlette decodes fields in the event loop by the codec that a client names, and some take the square of the
    length. Names are compared and not looked up: Python would keep each that it does not know."""
    _, options = parse_options_header(request.headers.get("content-type"))  # as Starlette reads it
    charset = options.get(b"charset", b"utf-8").decode("latin-1")
    if charset.lower().replace("_", "-") not in ("utf-8", "utf8"):
        raise Refused(415, "a form is in UTF-8; leave charset out of the header Content-Type")


def read_json(body: bytes) -> Any:
    try:
        return json.loads(body.decode("utf-8"), parse_constant=refuse_constant)
    except UnicodeDecodeError as error:
        what = f"is not UTF-8: byte 0x{body[error.start]:02x} at {error.start + 1}"
    except RecursionError:
        what = "is nested too deeply"
    except ValueError as error:
        what = f"is not JSON: {error}"
    raise Refused(400, f"Invalid request: the body {what}")


def refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def read_url_encoded(body: bytes) -> dict[str, Any]:
    try:
        fields = parse_qs(
            body.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS, separator="&"
        )
    except ValueError:  # UnicodeDecodeError too
        raise Refused(400, f"Invalid request: the form is not of at most {MOST_FIELDS} fields in UTF-8") from None
    return as_fields(fields)


async def read_multipart(request: Request) -> dict[str, Any]:
    """Its fields that are no files."""
    try:
        async with request.form(max_files=1, max_fields=MOST_FIELDS, max_part_size=1 << 20) as form:
            values = {name: [each for each in form.getlist(name) if isinstance(each, str)] for name in form}
    except (HTTPException, ValueError, KeyError) as error:
        reason = error.detail if isinstance(error, HTTPException) else "it cannot be read"
        raise Refused(400, f"Invalid request: the form: {reason}") from None
    return as_fields(values)


def as_fields(values: Mapping[str, list[str]]) -> dict[str, Any]:
    """A field that comes several times is a list."""
    return {name: texts[0] if len(texts) == 1 else texts for name, texts in values.items() if texts}


def checked(fields: Any, model: type[Model], *, is_form: bool = False) -> Model:
    """In a form everything is text: a number is read as one, an object as JSON (`from_form`), and nothing of either is
    a field that was left empty."""
    if not isinstance(fields, dict):
        raise Refused(400, "Invalid request: the body is no object with fields")
    if is_form:
        fields = {name: value for name, value in fields.items() if value != "" or may_be_empty(model, name)}
    try:
        return model.model_validate(fields, strict=not is_form, context={"is_form": is_form})
    except ValidationError as error:
        problems = dict.fromkeys(described(problem) for problem in error.errors(include_input=False, include_url=False))
        raise Refused(400, f"Invalid request: {'; '.join(list(problems)[:10])}") from None


def may_be_empty(model: type[BaseModel], name: str) -> bool:
    field = model.model_fields.get(name)
    return field is None or field.is_required() or isinstance(field.default, str)


def from_form(value: Any, info: ValidationInfo) -> Any:
    """For fields that are objects."""
    is_written = isinstance(value, str) and (info.context or {}).get("is_form")
    return read_json(value.encode("utf-8", "surrogatepass")) if is_written else value


def described(problem: Any) -> str:
    where = ".".join(str(part) for part in problem["loc"] if isinstance(part, int) or part.isidentifier())
    if problem["type"] == "missing":
        return f"missing {where} parameter"
    return f"{where}: {problem['msg'].removeprefix('Value error, ')}"
