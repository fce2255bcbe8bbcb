"""What /openapi.json adds to what FastAPI derives from the routes: refusals, forms, and where a key goes."""

from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

from weft.serving.refusals import OpenAIProblem, Problem
from weft.serving.requests import MULTIPART, URL_ENCODED

Schema = dict[str, Any]
Responses = dict[int | str, Schema]

DESCRIPTION = (
    "Translation by weft: LibreTranslate's API, the part of OpenAI's that a translator can answer, streams and "
    "explanations. If the server has keys, a request needs one: in the header Authorization, or as api_key in the body."
)
REASONS = {
    400: "The request is invalid",
    401: "The key is missing or wrong",
    403: "Not allowed on this server",
    404: "Not found",
    408: "The body was not received in time",
    409: "The new models cannot be served; the old ones stay",
    413: "The body is too large",
    415: "The body has an unsupported type or charset",
    421: "The server is not known by this name",
    429: "Too many requests from this client; Retry-After says when to try again",
    503: "Too many requests, or the answer took too long; Retry-After says when to try again",
}


def refusals(*statuses: int, problem: type[BaseModel] = Problem) -> Responses:
    """The refusals that a route documents."""
    retry = {"Retry-After": {"schema": {"type": "string"}, "description": "Seconds to wait."}}
    return {
        status: {
            "model": problem,
            "description": REASONS[status],
            **({"headers": retry} if status in (429, 503) else {}),
        }
        for status in statuses
    }


BODY_STATUSES = (400, 401, 403, 408, 413, 415, 421, 429, 503)
WITH_BODY = refusals(*BODY_STATUSES)
OPENAI_WITH_BODY = refusals(404, *BODY_STATUSES, problem=OpenAIProblem)
WITHOUT_BODY = refusals(421)


def or_form(model: str) -> Schema:
    """The content types, beside JSON, of a route whose body is the schema of this name."""
    form = {
        "schema": {"$ref": f"#/components/schemas/{model}"},
        "encoding": {"glossary": {"contentType": "application/json"}},
    }
    return {"requestBody": {"content": {URL_ENCODED: form, MULTIPART: form}}}


def describe(app: FastAPI) -> Schema:
    """The OpenAPI document. Made at the first request for it, since it takes a tenth of a second."""
    if app.openapi_schema is None:
        document = app.openapi()
        for path in document["paths"].values():
            for operation in path.values():
                operation["responses"].pop("422", None)  # an invalid request is answered by 400
        for unused in ("HTTPValidationError", "ValidationError"):
            document["components"]["schemas"].pop(unused, None)
        document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{}, {"key": []}]
    assert app.openapi_schema is not None
    return app.openapi_schema
