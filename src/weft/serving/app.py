"""The FastAPI application: its routes, and the admission policy of each path."""

import gzip
import hashlib
import mimetypes
from collections.abc import Sequence
from pathlib import Path

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from weft.errors import WeftError
from weft.serving import completions_api, files_api, libretranslate_api, openai_api, weft_api
from weft.serving.admission import Admission, RoutePolicy
from weft.serving.files_api import FileStore
from weft.serving.openapi import DESCRIPTION, WITHOUT_BODY, describe, refusals
from weft.serving.refusals import Refused, internal_error, response_to
from weft.serving.requests import Current, Route, explain_errors
from weft.serving.service import Service
from weft.serving.weft_api import Status

PAGE = Path(__file__).parent / "page"

TRANSLATION = RoutePolicy(key="body", takes_body=True, uses_model=True)
DOCUMENT = RoutePolicy(key="body", takes_body=True, uses_model=True, is_document=True)
POLICIES = {
    "/translate": TRANSLATION,
    "/detect": RoutePolicy(key="body", takes_body=True),
    "/translate_file": DOCUMENT,
    "/weft/stream": DOCUMENT,
    "/weft/explain": TRANSLATION,
    "/weft/alternatives": TRANSLATION,
    "/weft/reload": RoutePolicy(key="header", is_document=True),
    "/v1/models": RoutePolicy(key="header"),
    "/v1/completions": RoutePolicy(key="header", takes_body=True, uses_model=True),
    "/v1/chat/completions": RoutePolicy(key="header", takes_body=True, uses_model=True),
    "/metrics": RoutePolicy(key="header", is_probe=True),
    "/health": RoutePolicy(is_probe=True),
    "/ready": RoutePolicy(is_probe=True),
}
"""Every other path needs no key and takes no body: the page, languages, settings, health, OpenAPI."""

router = APIRouter(route_class=Route)

Application = Admission | CORSMiddleware
"""The outermost ASGI application: admission, or what answers browsers that load pages of other sites before it."""


def make_app(service: Service, origins: Sequence[str] = ()) -> Application:
    """The application; pages of the `origins` may use it from a browser, besides its own."""
    app = FastAPI(
        title="weft",
        version="1",
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    app.state.service, app.state.files = service, FileStore()
    for api in (libretranslate_api, files_api, openai_api, completions_api, weft_api):
        app.include_router(api.router)
    app.include_router(router)
    app.add_exception_handler(HTTPException, refuse)
    app.add_exception_handler(RequestValidationError, refuse_invalid)
    app.add_exception_handler(WeftError, refuse_impossible)
    app.add_exception_handler(Exception, fail)
    for file in sorted(PAGE.iterdir()):  # these files by name, and no other path
        shown = PageFile(file)
        for path in {f"/{file.name}", "/" if file.name == "index.html" else f"/{file.name}"}:
            app.add_api_route(path, shown.show, include_in_schema=False)
    for name in service.models.all:
        waiting = service.state.metrics.waiting.labels(name)
        waiting.set_function(lambda name=name: service.models.all[name].worker.backlog)
    admission = Admission(app, service.state, POLICIES, origins)
    if not origins:
        return admission
    return CORSMiddleware(
        admission,
        allow_origins=list(origins),
        allow_methods=["GET", "POST"],
        allow_headers=["authorization", "content-type"],
    )


async def refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.__cause__ is not None:  # FastAPI could not read the body and does not say why
        error = Refused(400, f"Invalid request: the body cannot be read: {error.__cause__}")
    request.app.state.service.state.count_refusal(error)
    return response_to(error, request.url.path)


async def refuse_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return await refuse(request, Refused(400, explain_errors(error)))


async def refuse_impossible(request: Request, error: Exception) -> Response:
    """Refuse what a model cannot do, for the reason that it gives."""
    return await refuse(request, Refused(400, str(error)))


async def fail(request: Request, error: Exception) -> Response:
    """Starlette raises the error again after this response, and admission.py logs it."""
    return response_to(internal_error(), request.url.path)


class PageFile:
    """A file of the page, compressed once."""

    def __init__(self, path: Path) -> None:
        content = path.read_bytes()
        self.contents = {"": content, "gzip": gzip.compress(content, mtime=0)}
        self.media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        self.headers = {
            "Cache-Control": "no-cache",
            "ETag": f'"{hashlib.sha256(content).hexdigest()[:20]}"',
            "Vary": "Accept-Encoding",
        }

    async def show(self, request: Request) -> Response:
        if self.headers["ETag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=self.headers)
        encoding = "gzip" if "gzip" in request.headers.get("accept-encoding", "") else ""
        headers = {**self.headers, "Content-Encoding": encoding} if encoding else self.headers
        return Response(self.contents[encoding], media_type=self.media_type, headers=headers)


@router.get("/openapi.json", include_in_schema=False)
@router.get("/spec", include_in_schema=False)  # LibreTranslate's name for it
async def openapi(request: Request) -> Response:
    return JSONResponse(describe(request.app))


@router.get("/health", summary="Whether the process is alive", responses=WITHOUT_BODY)
async def health() -> Status:
    return Status(status="ok")


@router.get(
    "/ready",
    summary="Whether to send requests here; 503 during the shutdown",
    response_model=Status,
    responses={503: {"model": Status}, **WITHOUT_BODY},
)
async def ready(service: Current) -> Response:
    draining = service.state.is_draining
    return JSONResponse({"status": "draining" if draining else "ready"}, 503 if draining else 200)


@router.get(
    "/metrics",
    summary="Metrics for Prometheus",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **refusals(401, 421)},
)
async def metrics(service: Current) -> Response:
    return Response(service.state.metrics.export(), media_type="text/plain; version=0.0.4; charset=utf-8")
