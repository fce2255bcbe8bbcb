"""What a refusal looks like: LibreTranslate's {"error": "..."}, and under /v1 OpenAI's object."""

from collections.abc import Mapping
from typing import Any

from starlette.responses import JSONResponse

RETRY_AFTER = {"Retry-After": "1"}
"""Seconds; a place in the queue is free as soon as a batch is done."""


class Refused(Exception):
    """A request is not answered as asked; `status` is HTTP's."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, dict(headers or {})


def busy(message: str) -> Refused:
    return Refused(503, message, RETRY_AFTER)


def too_slow(seconds: float) -> Refused:
    return busy(f"the answer took longer than {seconds:g} s")


def defect() -> Refused:
    return Refused(500, "the server has a defect; its log says where")


def wrong_key(*, may_be_in_body: bool) -> Refused:
    places = "as api_key in the body, or in a header" if may_be_in_body else "in a header"
    return Refused(401, f"an API key is needed: {places}: Authorization: Bearer KEY", {"WWW-Authenticate": "Bearer"})


def response_to(refused: Refused, path: str) -> JSONResponse:
    return JSONResponse(body_of(refused, path), refused.status, refused.headers)


def body_of(refused: Refused, path: str) -> dict[str, Any]:
    if not path.startswith("/v1/"):
        return {"error": refused.message}
    kind = {401: "authentication_error", 429: "rate_limit_error"}.get(refused.status, "invalid_request_error")
    kind = "server_error" if refused.status >= 500 else kind
    return {"error": {"message": refused.message, "type": kind, "param": None, "code": None}}
