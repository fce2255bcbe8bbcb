"""LibreTranslate's API: the paths, fields and response shapes that its existing clients use.

/translate also takes `beam_size`, a `glossary` and the name of a `model`, and reports suspicious translations in
`flags`. White space around a text stays. A wrong key is answered by 401, as in weft's other APIs.
"""

import asyncio
from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import BaseModel, BeforeValidator, Field
from starlette.requests import Request

from weft.folders.card import license_of
from weft.serving.detection import Detection
from weft.serving.documents import FORMATS
from weft.serving.openapi import WITH_BODY, WITHOUT_BODY, or_form
from weft.serving.requests import (
    AtMost,
    Current,
    Glossary,
    KeyedRequest,
    Route,
    ShortText,
    TextOr,
    TranslationRequest,
    as_number,
    terms_of,
)
from weft.serving.service import AUTO, TRADITIONAL, Service, named
from weft.serving.translating import TranslatedText, TranslationOptions
from weft.text.chinese import script_of_code
from weft.text.language import code_of

router = APIRouter(route_class=Route)


class TranslateRequest(TranslationRequest):
    q: TextOr[Annotated[list[ShortText], Field(min_length=1), AtMost("texts")]]
    """A text, or a list of texts."""
    format: Annotated[Literal["text", "html"], BeforeValidator(lambda value: value or "text")] = "text"
    alternatives: Annotated[
        int, Field(ge=0), AtMost("alternatives"), BeforeValidator(lambda value: as_number(value) or 0)
    ] = 0
    """How many other translations of each text to add."""
    beam_size: Annotated[int, Field(ge=1), AtMost("beam_size"), BeforeValidator(as_number)] | None = None
    """Omitted: the model's own."""
    glossary: Glossary | None = None
    """Terms of the source language and the translations that have to appear for them."""


class DetectRequest(KeyedRequest):
    q: ShortText


class DetectedLanguage(BaseModel):
    confidence: float
    language: str


class Translated(BaseModel):
    """For a list of texts each field is a list."""

    translatedText: str | list[str]
    detectedLanguage: DetectedLanguage | list[DetectedLanguage] | None = None
    """Only if the source was "auto"."""
    alternatives: list[str] | list[list[str]] | None = None
    """Only if any were asked for."""
    flags: list[str] | list[list[str]] | None = None
    """Only if a translation is suspicious: "repetition", "length", "numbers"."""


class Language(BaseModel):
    code: str
    name: str
    targets: list[str]


class ModelInfo(BaseModel):
    id: str
    source: str
    target: str
    license: str | None
    """As its card, GET /weft/card/{id}, states it."""


class Settings(BaseModel):
    apiKeys: bool
    charLimit: int
    filesTranslation: bool = True
    frontendTimeout: int = 500
    keyRequired: bool
    language: dict[str, dict[str, str]]
    suggestions: bool = False
    supportedFilesFormat: list[str] = list(FORMATS)
    limits: dict[str, float]
    """Weft's own field: every limit of this server."""
    models: list[ModelInfo]
    """Weft's own field."""


@router.post(
    "/translate",
    summary="Translate a text or a list of texts",
    response_model_exclude_none=True,
    responses=WITH_BODY,
    openapi_extra=or_form("TranslateRequest"),
)
async def translate(asked: TranslateRequest, request: Request, service: Current) -> Translated:
    service.check_key(request, asked.api_key)
    texts = [asked.q] if isinstance(asked.q, str) else asked.q
    detected: list[Detection] = []
    if asked.source == AUTO:
        detected = [await service.detect(text, is_page=asked.format == "html") for text in texts]
    sources = [service.source_of(one, asked.target) for one in detected] or [code_of(asked.source)] * len(texts)
    translated = await translate_from(sources, texts, asked, service)
    fields = {
        "translatedText": [one.text for one in translated],
        "detectedLanguage": [DetectedLanguage(**vars(one)) for one in detected] or None,
        "alternatives": [one.alternatives for one in translated] if asked.alternatives else None,
        "flags": [sorted(one.flags) for one in translated] if any(one.flags for one in translated) else None,
    }
    return Translated(**{name: each[0] if each and isinstance(asked.q, str) else each for name, each in fields.items()})


async def translate_from(
    sources: list[str], texts: list[str], asked: TranslateRequest, service: Service
) -> list[TranslatedText]:
    """The texts, each from its own language, in order."""
    script = script_of_code(asked.target)
    options = TranslationOptions(1 + asked.alternatives, asked.beam_size, terms_of(asked.glossary), script)
    models = {source: service.model_between(source, asked.target, asked.model) for source in sources}
    translated = [TranslatedText(("",))] * len(texts)

    async def fill(source: str) -> None:
        indices = [index for index, one in enumerate(sources) if one == source]
        own = [texts[index] for index in indices]
        found = await service.translate(models[source], own, options, form=asked.format)
        for index, one in zip(indices, found, strict=True):
            translated[index] = one

    try:
        async with asyncio.TaskGroup() as group:  # if one language is refused, the others are cancelled
            for source in models:
                group.create_task(fill(source))
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return translated


@router.post(
    "/detect",
    summary="Detect the language of a text",
    responses=WITH_BODY,
    openapi_extra=or_form("DetectRequest"),
)
async def detect(asked: DetectRequest, request: Request, service: Current) -> list[DetectedLanguage]:
    service.check_key(request, asked.api_key)
    return [DetectedLanguage(**vars(await service.detect(asked.q)))]


@router.get("/languages", summary="List the languages and what each is translated to", responses=WITHOUT_BODY)
async def languages(service: Current) -> list[Language]:
    models, listed = service.models, []
    for code in models.languages:
        targets = models.targets_of(code)
        targets += [TRADITIONAL] if "zh" in targets else []
        listed.append(Language(code=code, name=named(code), targets=targets))
        if code == "zh":
            listed.append(Language(code=TRADITIONAL, name=named(TRADITIONAL), targets=models.targets_of(code)))
    return listed


@router.get("/frontend/settings", summary="Settings and limits of this server", responses=WITHOUT_BODY)
async def settings(service: Current) -> Settings:
    source, target = next(iter(service.models.directions), ("", ""))
    return Settings(
        apiKeys=bool(service.state.keys),
        charLimit=service.state.limits.characters,
        keyRequired=bool(service.state.keys),
        language={
            "source": {"code": source, "name": named(source)},
            "target": {"code": target, "name": named(target)},
        },
        limits=vars(service.state.limits),
        models=[
            ModelInfo(id=one.id, source=one.source, target=one.target, license=license_of(one.card))
            for one in service.models
        ],
    )
