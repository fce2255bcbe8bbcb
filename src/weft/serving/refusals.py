"""Refused requests and their responses: LibreTranslate's {"error": "..."}, and OpenAI's error object under /v1."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

RETRY_AFTER = {"Retry-After": "1"}
"""In seconds: the queue has a free slot as soon as a batch is done."""


class Refused(HTTPException):
    """Raised for a request that is not answered as asked; the message says why and what to do."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, message, dict(headers or {}))


class Problem(BaseModel):
    error: str
    """What is wrong, and what to do."""


class OpenAIProblemDetail(BaseModel):
    message: str
    type: str
    param: str | None = None
    code: str | None = None


class OpenAIProblem(BaseModel):
    error: OpenAIProblemDetail


def busy(message: str) -> Refused:
    return Refused(503, message, RETRY_AFTER)


def too_slow(seconds: float) -> Refused:
    return busy(f"the answer took longer than {seconds:g} s")


def internal_error() -> Refused:
    return Refused(500, "internal error; the server's log has the details")


def wrong_key(*, was_given: bool, may_be_in_body: bool) -> Refused:
    places = "as api_key in the body, or in a header" if may_be_in_body else "in a header"
    what = "this API key is not valid; a valid one is needed" if was_given else "an API key is needed"
    return Refused(401, f"{what}: {places}: Authorization: Bearer KEY", {"WWW-Authenticate": "Bearer"})


def response_to(refused: HTTPException, path: str) -> JSONResponse:
    return JSONResponse(body_of(refused, path), refused.status_code, refused.headers)


def body_of(refused: HTTPException, path: str) -> dict[str, Any]:
    message = str(refused.detail)
    if not path.startswith("/v1/"):
        return Problem(error=message).model_dump()
    kind = {401: "authentication_error", 429: "rate_limit_error"}.get(refused.status_code, "invalid_request_error")
    kind = "server_error" if refused.status_code >= 500 else kind
    return OpenAIProblem(error=OpenAIProblemDetail(message=message, type=kind)).model_dump()
