"""LibreTranslate's API, as its existing clients speak it: the same paths, fields and shapes.

Beside its fields /translate takes `beam_size`, a `glossary` of terms and the name of a `model`, and says by `flags`
where a translation looks wrong. A wrong key gets 401, as everywhere in weft.
"""

import asyncio
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Request
from pydantic import BaseModel, Field, StringConstraints
from starlette.responses import JSONResponse, Response

from weft.serving.detection import Detection
from weft.serving.documents import FORMATS
from weft.serving.openapi import WITH_BODY, WITHOUT_BODY, body_of, refusals
from weft.serving.reading import read_request
from weft.serving.requests import Glossary, Key, ModelName, Term, Whole, codes_of, terms_of
from weft.serving.service import AUTO, Service, named
from weft.serving.translating import Answer, Wish
from weft.text.language import code_of


class DetectedLanguage(BaseModel):
    confidence: float
    language: str


class Translated(BaseModel):
    """Of a list of texts all of these are lists."""

    translatedText: str | list[str]
    alternatives: list[str] | list[list[str]] = []
    """Only where they were asked for."""
    detectedLanguage: DetectedLanguage | list[DetectedLanguage] | None = None
    """Only where the source was "auto"."""
    flags: list[str] | list[list[str]] = []
    """Only where something is suspicious of a translation: "repetition", "length"."""


class Language(BaseModel):
    code: str
    name: str
    targets: list[str]


class Settings(BaseModel):
    apiKeys: bool
    charLimit: int
    filesTranslation: bool
    frontendTimeout: int
    keyRequired: bool
    language: dict[str, dict[str, str]]
    suggestions: bool
    supportedFilesFormat: list[str]
    limits: dict[str, float]
    """Weft's own: every limit of this server."""


def add_routes(app: FastAPI, service: Service) -> None:
    limits, models = service.house.limits, service.models
    source_code, target_code = codes_of(models)
    short = StringConstraints(max_length=limits.characters)

    class TranslateRequest(BaseModel):
        q: Annotated[str, short] | Annotated[list[Annotated[str, short]], Field(min_length=1, max_length=limits.texts)]
        """A text, or a list of texts."""
        source: Annotated[str, source_code]
        target: Annotated[str, target_code]
        format: Literal["text", "html"] = "text"
        alternatives: Annotated[int, Whole(0, limits.alternatives)] = 0
        """Other translations of each text."""
        api_key: Key = ""
        beam_size: Annotated[int, Whole(1, limits.beam_size)] | None = None
        """Left out: the model's own."""
        glossary: Annotated[dict[Term, Term], Glossary(limits.terms)] | None = None
        """Terms of the source language and their translations, which have to appear."""
        model: Annotated[str, ModelName(list(models.loaded))] = ""
        """Which of several models of this direction; GET /v1/models lists them."""

    class DetectRequest(BaseModel):
        q: Annotated[str, short]
        api_key: Key = ""

    @app.post(
        "/translate",
        summary="Translate a text or a list of texts",
        responses={200: {"model": Translated}, **refusals(*WITH_BODY)},
        openapi_extra=body_of(TranslateRequest, form=True),
    )
    async def translate(request: Request) -> Response:
        asked = await read_request(request, TranslateRequest)
        service.refuse_without_key(request, asked.api_key)
        texts = [asked.q] if isinstance(asked.q, str) else asked.q
        wish = Wish(1 + asked.alternatives, asked.beam_size, terms_of(asked.glossary))
        is_auto = asked.source == AUTO
        is_page = asked.format == "html"
        detected = [await service.detect(text, is_page=is_page) for text in texts] if is_auto else []
        sources = [one.language for one in detected] or [code_of(asked.source)] * len(texts)
        answers: list[Answer] = [Answer(("",))] * len(texts)
        groups = {code: [index for index, one in enumerate(sources) if one == code] for code in sources}
        chosen = {code: service.model_between(code, asked.target, asked.model) for code in groups}

        async def fill(code: str, indices: list[int]) -> None:
            own = [texts[index] for index in indices]
            found = await service.translate(chosen[code], own, wish, form=asked.format)
            for index, answer in zip(indices, found, strict=True):
                answers[index] = answer

        filling = [asyncio.create_task(fill(code, indices)) for code, indices in groups.items()]
        try:
            await asyncio.gather(*filling)
        finally:  # where one was refused, nobody waits for the others
            for one in filling:
                one.cancel()
        body = translated(answers, detected, wants_alternatives=asked.alternatives > 0)
        return JSONResponse(body if isinstance(asked.q, list) else {key: each[0] for key, each in body.items()})

    @app.post(
        "/detect",
        summary="In which language a text is written",
        responses={200: {"model": list[DetectedLanguage]}, **refusals(*WITH_BODY)},
        openapi_extra=body_of(DetectRequest, form=True),
    )
    async def detect(request: Request) -> Response:
        asked = await read_request(request, DetectRequest)
        service.refuse_without_key(request, asked.api_key)
        return JSONResponse([as_json(await service.detect(asked.q))])

    @app.get(
        "/languages",
        summary="Which languages are translated, and to which",
        responses={200: {"model": list[Language]}, **refusals(*WITHOUT_BODY)},
    )
    async def languages() -> Response:
        return JSONResponse(
            [{"code": code, "name": named(code), "targets": models.targets_of(code)} for code in models.languages]
        )

    @app.get(
        "/frontend/settings",
        summary="What a client has to know of this server",
        responses={200: {"model": Settings}, **refusals(*WITHOUT_BODY)},
    )
    async def settings() -> Response:
        source, target = next(iter(models.directions))
        return JSONResponse(
            {
                "apiKeys": bool(service.house.keys),
                "charLimit": limits.characters,
                "filesTranslation": True,
                "frontendTimeout": 500,
                "keyRequired": bool(service.house.keys),
                "language": {
                    "source": {"code": source, "name": named(source)},
                    "target": {"code": target, "name": named(target)},
                },
                "suggestions": False,
                "supportedFilesFormat": list(FORMATS),
                "limits": vars(limits),
            }
        )


def translated(answers: list[Answer], detected: list[Detection], *, wants_alternatives: bool) -> dict[str, list[Any]]:
    """LibreTranslate's object for a list of texts."""
    body: dict[str, list[Any]] = {"translatedText": [answer.text for answer in answers]}
    if detected:
        body["detectedLanguage"] = [as_json(one) for one in detected]
    if wants_alternatives:
        body["alternatives"] = [answer.alternatives for answer in answers]
    if any(answer.flags for answer in answers):
        body["flags"] = [sorted(answer.flags) for answer in answers]
    return body


def as_json(detected: Detection) -> dict[str, Any]:
    return {"confidence": detected.confidence, "language": detected.language}
