"""The application: what its routes are, and what each asks of those who come by it."""

from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path

from fastapi import FastAPI, Request
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import FileResponse, JSONResponse, Response

from weft.serving import files_api, libretranslate_api, openai_api, weft_api
from weft.serving.admission import Admission, Door
from weft.serving.openapi import WITHOUT_BODY, describe, refusals
from weft.serving.refusals import Refused, defect, response_to
from weft.serving.service import Service

PAGE = Path(__file__).parent / "page"

WORK = Door(key="body", takes_body=True, uses_model=True)
DOORS = {
    "/translate": WORK,
    "/detect": Door(key="body", takes_body=True),
    "/translate_file": Door(key="body", takes_body=True, uses_model=True, is_document=True),
    "/weft/stream": Door(key="body", takes_body=True, uses_model=True, is_document=True),
    "/weft/explain": WORK,
    "/weft/alternatives": WORK,
    "/weft/reload": Door(key="header", is_document=True),
    "/v1/models": Door(key="header"),
    "/v1/chat/completions": Door(key="header", takes_body=True, uses_model=True),
    "/metrics": Door(key="header"),
}
"""By any other path go those who only look: the page, languages, settings, health, the description of all this."""


class Health(BaseModel):
    status: str


Application = Admission | CORSMiddleware
"""The first that a request meets: who comes in, or what answers the browsers of other sites before that."""


def make_app(service: Service, origins: Sequence[str] = ()) -> Application:
    """The application; pages of the `origins` may ask it from a browser, beside its own."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    for api in (libretranslate_api, files_api, openai_api, weft_api):
        api.add_routes(app, service)
    add_health(app, service)
    description = cache(partial(describe, app))  # a tenth of a second that no start has to wait for

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        return JSONResponse(description())

    @app.exception_handler(Refused)
    async def refuse(request: Request, refused: Refused) -> Response:
        service.house.count_refusal(refused)
        return response_to(refused, request.url.path)

    @app.exception_handler(HTTPException)
    async def refuse_http(request: Request, error: HTTPException) -> Response:
        return await refuse(request, Refused(error.status_code, str(error.detail), error.headers))

    @app.exception_handler(Exception)
    async def admit_defect(request: Request, error: Exception) -> Response:
        """It is raised on for all that, so that admission.py writes it into the log."""
        return response_to(defect(), request.url.path)

    add_page(app)
    admission = Admission(app, service.house, DOORS, origins)
    if not origins:
        return admission
    return CORSMiddleware(
        admission,
        allow_origins=list(origins),
        allow_methods=["GET", "POST"],
        allow_headers=["authorization", "content-type"],
    )


def add_page(app: FastAPI) -> None:
    """The files that are in the page's folder now, each by its name, and no other."""
    for file in sorted(PAGE.iterdir()):
        for path in {f"/{file.name}", "/" if file.name == "index.html" else f"/{file.name}"}:
            app.add_api_route(path, partial(show_file, file), methods=["GET"], include_in_schema=False)


async def show_file(file: Path) -> Response:
    return FileResponse(file, headers={"Cache-Control": "no-cache"})


def add_health(app: FastAPI, service: Service) -> None:
    for model in service.models:
        service.house.metrics.watch_waiting(model.id, lambda name=model.id: service.models.backlog[name])

    @app.get(
        "/health", summary="Whether the process is alive", responses={200: {"model": Health}, **refusals(*WITHOUT_BODY)}
    )
    async def health() -> Response:
        return JSONResponse({"status": "ok"})

    @app.get(
        "/ready",
        summary="Whether requests should be sent here; 503 while the server is on its way out",
        responses={200: {"model": Health}, 503: {"model": Health}, **refusals(*WITHOUT_BODY)},
    )
    async def ready() -> Response:
        draining = service.house.is_draining
        return JSONResponse({"status": "draining" if draining else "ready"}, 503 if draining else 200)

    @app.get(
        "/metrics",
        summary="Counts for Prometheus",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **refusals(401, *WITHOUT_BODY)},
    )
    async def metrics() -> Response:
        return Response(service.house.metrics.written(), media_type="text/plain; version=0.0.4; charset=utf-8")
