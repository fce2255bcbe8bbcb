"""Requests as FastAPI reads them: fields whose bounds are the server's, and forms that are read as JSON is."""

import json
from collections.abc import Callable, Coroutine, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from re import ASCII, escape, fullmatch
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import parse_qs

from fastapi import Depends, params
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    StringConstraints,
    Tag,
)
from pydantic_core import CoreSchema
from pydantic_core.core_schema import no_info_before_validator_function
from python_multipart.multipart import parse_options_header
from starlette.requests import Request
from starlette.responses import Response

from weft.serving.refusals import Refused
from weft.serving.service import AUTO, Service

JSON, URL_ENCODED, MULTIPART = "application/json", "application/x-www-form-urlencoded", "multipart/form-data"
MAX_FIELDS = 256

serving: ContextVar[Service] = ContextVar("serving")
"""The service that answers the current request; its limits and models are the bounds of the request's fields."""


async def current_service() -> Service:
    return serving.get()


Current = Annotated[Service, Depends(current_service)]

# Fields


class ServerBound:
    """Metadata of a field whose bounds depend on the server."""

    def check(self, value: Any) -> Any:
        """The value that pydantic is to validate. Raises ValueError if it is out of bounds."""
        raise NotImplementedError

    def describe(self, schema: dict[str, Any]) -> dict[str, Any]:
        """What the bounds add to the JSON schema of the field."""
        raise NotImplementedError

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_before_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        schema = handler(core)
        return {**schema, **self.describe(schema)}


@dataclass(frozen=True)
class AtMost(ServerBound):
    """Bounds an integer, or the length of anything else, by `factor` times a limit of the server plus `extra`.

    Checked before the elements of a list or an object, since describing what is wrong with each of too many would
    block the event loop. JSON has one kind of number: 5.0 is read as 5.
    """

    limit: str
    factor: int = 1
    extra: int = 0

    @property
    def most(self) -> int:
        return self.factor * getattr(serving.get().state.limits, self.limit) + self.extra

    def check(self, value: Any) -> Any:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, int) and value > self.most:
            raise ValueError(f"should be at most {self.most}")
        if isinstance(value, str | list | dict) and len(value) > self.most:
            unit = {str: "characters", list: "items", dict: "terms"}[type(value)]
            raise ValueError(f"should have at most {self.most} {unit}, has {len(value):,}")
        return value

    def describe(self, schema: dict[str, Any]) -> dict[str, Any]:
        keywords = {"string": "maxLength", "array": "maxItems", "object": "maxProperties", "integer": "maximum"}
        keyword = keywords[schema["type"]]
        return {keyword: min(self.most, schema.get(keyword, self.most))}


LIBRETRANSLATE_CODES = {"zt": "zh-hant", "pb": "pt-br"}
"""LibreTranslate's own codes, which no standard knows."""


@dataclass(frozen=True)
class LanguageCode(ServerBound):
    """The code of a language that the server translates from or to, in any region and case; a source may also be
    "auto"."""

    role: Literal["source", "target"]

    @property
    def choices(self) -> list[str]:
        models = serving.get().models
        if self.role == "target":
            return sorted({target for _, target in models.directions})
        return [AUTO, *models.languages]  # a text that is already in the target language is a source too

    @property
    def pattern(self) -> str:
        codes = "|".join(escape(code) for code in self.choices if code != AUTO)
        pattern = f"({codes})([-_][A-Za-z0-9]{{1,8}}){{0,3}}"
        return f"{AUTO}|{pattern}" if self.role == "source" else pattern

    def check(self, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        if not serving.get().models.directions:
            raise ValueError("no model here translates; a language model goes on with a prompt by /v1/completions")
        code = value.lower()
        code = LIBRETRANSLATE_CODES.get(code, code)
        if fullmatch(self.pattern, code) is None:
            raise ValueError(f"{value[:20]!r} is not supported; choose from {', '.join(self.choices)}")
        return code

    def describe(self, schema: dict[str, Any]) -> dict[str, Any]:
        return {"pattern": f"^({self.pattern})$"}


class ModelName(ServerBound):
    """The name of one of the server's models, or nothing."""

    def check(self, value: Any) -> Any:
        known = serving.get().models.loaded
        if isinstance(value, str) and value and value not in known:
            raise ValueError(f"there is no model {value[:50]!r}; there are {', '.join(known)}")
        return value

    def describe(self, schema: dict[str, Any]) -> dict[str, Any]:
        return {"enum": ["", *serving.get().models.loaded]}


def as_number(value: Any) -> Any:
    """A whole number that is written as a string, as some clients send it."""
    return int(value) if isinstance(value, str) and fullmatch(r"\s*\d{1,9}\s*", value, ASCII) else value


def check_not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("should not be blank")
    return text


Text = Annotated[str, StringConstraints(min_length=0)]  # any constraint makes pydantic refuse lone surrogates
ShortText = Annotated[Text, AtMost("characters")]
A_TEXT, A_LIST = "a text", "a list"
ListType = TypeVar("ListType")
TextOr = Annotated[
    Annotated[ShortText, Tag(A_TEXT)] | Annotated[ListType, Tag(A_LIST)],
    Discriminator(lambda value: A_LIST if isinstance(value, list) else A_TEXT),
]
"""A text or a list, such as `TextOr[list[ShortText]]`; what is wrong is told of the one that was sent."""
Key = Annotated[str, StringConstraints(max_length=500), BeforeValidator(lambda value: "" if value is None else value)]
Term = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(check_not_blank)]
Glossary = Annotated[dict[Term, Term], AtMost("terms")]


class StrictModel(BaseModel):
    """Takes JSON values as they are: "5" is not a number."""

    model_config = ConfigDict(strict=True)


class KeyedRequest(StrictModel):
    api_key: Key = ""
    """For clients that send the key in the body."""


class TranslationRequest(KeyedRequest):
    source: Annotated[str, LanguageCode("source")]
    target: Annotated[str, LanguageCode("target")]
    model: Annotated[str, ModelName()] = ""
    """Which of several models of this direction; GET /v1/models lists them."""


def terms_of(glossary: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    """Sorted, so that equal glossaries are equal."""
    return tuple(sorted((glossary or {}).items()))


# Bodies

NOT_TEXT = frozenset({"alternatives", "beam_size", "best", "glossary"})
"""Fields whose value in a form is written as JSON, and omitted if it is empty."""


class Route(APIRoute):
    """Sets `serving`, and reads a form as JSON with the same fields: LibreTranslate's clients send either to one path,
    and FastAPI reads only one of them there."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        accepted: tuple[str, ...] = ()
        if self.body_field is not None:
            takes_form = isinstance(self.body_field.field_info, params.Form)
            accepted = (MULTIPART,) if takes_form else (JSON, URL_ENCODED, MULTIPART)

        async def handle_request(request: Request) -> Response:
            serving.set(request.app.state.service)
            if accepted:
                if JSON in accepted and "content-type" not in request.headers:  # as LibreTranslate reads what has none
                    kind = URL_ENCODED
                else:
                    kind = check_content_type(request, accepted)
                if kind != JSON and JSON in accepted:
                    request = FormRequest(request, await read_form(request, kind))
            return await handle(request)

        return handle_request


class FormRequest(Request):
    """A form that FastAPI takes for JSON."""

    def __init__(self, request: Request, fields: Mapping[str, Any]) -> None:
        others = [header for header in request.scope["headers"] if header[0] != b"content-type"]
        super().__init__({**request.scope, "headers": [(b"content-type", JSON.encode()), *others]}, request.receive)
        self.fields = fields

    async def body(self) -> bytes:
        return b"{}"  # FastAPI asks only whether there is one

    async def json(self) -> Any:
        return self.fields


def check_content_type(request: Request, accepted: tuple[str, ...]) -> str:
    """The content type of the body. Raises Refused if it is not accepted, or if a form is not in UTF-8.

    Starlette decodes a form by the charset that the client names, in the event loop, and some codecs take time
    quadratic in the length. Names are compared rather than looked up, since Python caches every unknown one.
    """
    header = request.headers.get("content-type", "")
    kind = header.partition(";")[0].strip().lower()
    if kind not in accepted:
        raise Refused(415, f"the Content-Type of the body has to be {' or '.join(accepted)}")
    _, options = parse_options_header(header)  # as Starlette reads it
    charset = options.get(b"charset", b"utf-8").decode("latin-1").lower().replace("_", "-")
    if kind != JSON and charset not in ("utf-8", "utf8"):
        raise Refused(415, "a form has to be in UTF-8; omit charset in the header Content-Type")
    return kind


async def read_form(request: Request, kind: str) -> dict[str, Any]:
    """The fields of the address and of a form that are not files; a field that occurs several times is a list."""
    values = read_fields(request.scope["query_string"])
    if kind == URL_ENCODED:
        values |= read_fields(await request.body())
    else:
        async with request.form(max_files=1, max_fields=MAX_FIELDS, max_part_size=1 << 20) as form:
            values |= {name: [each for each in form.getlist(name) if isinstance(each, str)] for name in form}
    fields = {name: texts[0] if len(texts) == 1 else texts for name, texts in values.items() if texts}
    return {name: from_form(name, value) for name, value in fields.items() if value or name not in NOT_TEXT}


def read_fields(encoded: bytes) -> dict[str, list[str]]:
    """URL-encoded fields. Starlette reads UTF-8 that is not percent-encoded, as curl sends it, as Latin-1."""
    try:
        return parse_qs(
            encoded.decode(), keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS, separator="&"
        )
    except ValueError:  # UnicodeDecodeError too
        raise Refused(400, f"Invalid request: a form has at most {MAX_FIELDS} fields, in UTF-8") from None


def from_form(name: str, value: Any) -> Any:
    if name not in NOT_TEXT or not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value  # which pydantic refuses


def explain_errors(error: RequestValidationError) -> str:
    """Up to ten problems of a request, each once."""
    return "Invalid request: " + "; ".join(list(dict.fromkeys(map(explain, error.errors())))[:10])


def explain(problem: Any) -> str:
    if problem["type"] == "json_invalid":
        return f"the body is not JSON: {problem['ctx']['error']}"
    path = problem["loc"][1:]  # without "body"
    where = ".".join(str(part) for part in path if isinstance(part, int) or part.isidentifier())
    if problem["type"] == "missing" and where:
        return f"missing {where} parameter"
    if problem["type"] in ("missing", "model_attributes_type") and not where:
        return "the body is not a JSON object"
    message = problem["msg"].removeprefix("Value error, ")
    return f"{where}: {message}" if where else message
