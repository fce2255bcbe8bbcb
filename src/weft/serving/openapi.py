"""What /openapi.json says of a route: bodies with their limits, and every status that it can answer with."""

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel

from weft.serving.reading import JSON, MULTIPART, URL_ENCODED

Schema = dict[str, Any]
SCHEMAS = "#/components/schemas/"


class Problem(BaseModel):
    error: str
    """What is wrong, and what to do."""


class OpenAIProblemDetail(BaseModel):
    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIProblem(BaseModel):
    error: OpenAIProblemDetail


REASONS = {
    400: "The request is not as it has to be",
    401: "A key is needed, or this one is wrong",
    403: "Not allowed on this server",
    404: "There is no such thing",
    408: "The body did not come in time",
    409: "The new models are not served; the old ones are",
    413: "The body is too large",
    415: "A body of another kind is needed",
    421: "The server is not known by this name",
    429: "Too many requests of this client; Retry-After says when",
    503: "Too many requests, or the answer took too long; Retry-After says when",
}
WITH_BODY = (400, 401, 403, 408, 413, 415, 421, 429, 503)
WITHOUT_BODY = (421,)


def refusals(*statuses: int, problem: type[BaseModel] = Problem) -> dict[int | str, Schema]:
    """What a route says that it may answer in place of what was asked."""
    retry = {"Retry-After": {"schema": {"type": "string"}, "description": "Seconds to wait."}}
    return {
        status: {
            "model": problem,
            "description": REASONS[status],
            **({"headers": retry} if status in (429, 503) else {}),
        }
        for status in statuses
    }


def body_of(model: type[BaseModel], *, form: bool = False) -> Schema:
    """A request's body, as JSON and, if the route takes it, as forms; fields that are objects are for JSON alone."""
    reference = {"$ref": SCHEMAS + model.__name__}
    content: Schema = {JSON: {"schema": reference}}
    if form:
        content[URL_ENCODED] = content[MULTIPART] = {"schema": {"$ref": SCHEMAS + model.__name__ + "Form"}}
    return {"requestBody": {"required": True, "content": content}, BODY_SCHEMAS: schemas_of(model, form)}


BODY_SCHEMAS = "x-body-schemas"
"""Under this name a route keeps the schemas of its body, until they are put where all are."""


def schemas_of(model: type[BaseModel], form: bool) -> Schema:
    schema = model.model_json_schema(ref_template=SCHEMAS + "{model}")
    schemas: Schema = {**schema.pop("$defs", {}), model.__name__: schema}
    if form:
        fields: Mapping[str, Schema] = schema["properties"]
        flat = {name: field for name, field in fields.items() if not is_object(field)}
        schemas[model.__name__ + "Form"] = {**schema, "title": schema["title"] + "Form", "properties": flat}
    return schemas


def describe(app: FastAPI) -> Schema:
    """The whole document."""
    document = get_openapi(title="weft", version="1", description=DESCRIPTION, routes=app.routes)
    schemas: Schema = document.setdefault("components", {}).setdefault("schemas", {})
    for path in document["paths"].values():
        for route in path.values():
            schemas.update(route.pop(BODY_SCHEMAS, {}))
            route["responses"].pop("422", None)
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{}, {"key": []}]
    return document


DESCRIPTION = (
    "Translation by weft: LibreTranslate's API, the part of OpenAI's that a translator can answer, streams and "
    "explanations. Where the server has keys, one is needed: in the header Authorization, or as api_key in the body."
)


def is_object(field: Schema) -> bool:
    return any(kind.get("type") == "object" for kind in [field, *field.get("anyOf", [])])
