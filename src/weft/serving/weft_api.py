"""Weft's own API: streams, explanations, alternatives at a word, reloading the models."""

import json
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, Field, StringConstraints
from starlette.requests import Request
from starlette.responses import Response

from weft.errors import WeftError
from weft.serving.detection import DETECTION_CHARACTERS
from weft.serving.models import ServedModel
from weft.serving.openapi import WITH_BODY, refusals
from weft.serving.refusals import Refused
from weft.serving.requests import AtMost, Current, Glossary, Route, Text, TranslationRequest, terms_of
from weft.serving.service import Service
from weft.serving.streams import EVENTS, Streamed, begin_stream, event
from weft.serving.translating import StreamedSentence, TranslationOptions, call
from weft.text.chinese import convert_translation, script_of_code
from weft.text.language import code_of
from weft.text.tokenizer import Tokenizer

log = logging.getLogger("weft.serving")

NDJSON = "application/x-ndjson"
MAX_PIECES_WITH_ALTERNATIVES = 128
"""Pieces of a text, and of the beginning of its translation, to find alternatives for: each alternative takes a whole
search, which for a text without meaning, such as a hundred emoji, runs to the maximum length."""
PIECES_AT_ONCE = 512
"""Pieces of source and prefix, over all alternatives, in one search; other requests may use the model in between."""
TRANSLATION_FACTOR = 4
"""Characters of a translation per character of its explained text; English has about three for one of Chinese."""

router = APIRouter(prefix="/weft", route_class=Route)

ExplainedText = Annotated[str, StringConstraints(min_length=1, pattern=r"\S"), AtMost("explained_characters")]
GivenTranslation = Annotated[Text, AtMost("explained_characters", TRANSLATION_FACTOR)]


class StreamRequest(TranslationRequest):
    q: Annotated[Text, AtMost("body_bytes")]
    """A text of any length."""
    glossary: Glossary | None = None
    """Terms of the source language and the translations that have to appear for them."""


class ExplainRequest(TranslationRequest):
    q: ExplainedText
    translation: GivenTranslation | None = None
    """The translation to explain; omitted or empty: the model's own."""
    beam_size: Annotated[int, Field(ge=1), AtMost("beam_size")] | None = None


class AlternativesRequest(TranslationRequest):
    q: ExplainedText
    prefix: GivenTranslation = ""
    """The translation up to the place in question."""
    best: Annotated[int, Field(ge=1), AtMost("beam_size")] = 5


class NextWord(BaseModel):
    word: str
    text: str
    """The whole translation that continues with the word."""
    score: float


class NextWords(BaseModel):
    alternatives: list[NextWord]


class Status(BaseModel):
    status: str


@router.post(
    "/stream",
    summary="Translate a long text, sentence by sentence as they are done",
    response_class=Response,
    responses={
        200: {
            "description": "A line, or with Accept: text/event-stream an event, for each sentence in order: index, "
            "source, before, text. `before` and `text` of all, joined, are the translation. A line with `error` is the "
            "last one.",
            "content": {NDJSON: {}, EVENTS: {}},
        },
        **WITH_BODY,
    },
)
async def stream_text(asked: StreamRequest, request: Request, service: Current) -> Response:
    service.check_key(request, asked.api_key)
    source = await service.resolve(asked.source, asked.q[:DETECTION_CHARACTERS], asked.target)
    model = service.model_between(source, asked.target, asked.model)
    lines = streamed_lines(service, model, asked, begin_stream(request))
    form = EVENTS if EVENTS in request.headers.get("accept", "") else NDJSON
    return Streamed(written(lines, form), form)


@router.post("/explain", summary="Explain a translation", responses=WITH_BODY)
async def explain(asked: ExplainRequest, request: Request, service: Current) -> dict[str, Any]:
    from weft.evaluating import explanation

    service.check_key(request, asked.api_key)
    model = await model_of(asked, service)
    service.count(model, [asked.q])
    script = script_of_code(asked.target)
    given = model.translator.as_written(asked.translation, script) if asked.translation else None
    check_pieces(model.translator.model.vocabularies["target"], given or "", explanation.LONGEST_EXPLAINED)
    settings: dict[str, Any] = {"target": given, "beam_size": asked.beam_size}

    def work(after_step: Callable[[], None]) -> dict[str, Any]:
        told = explanation.explain(model.translator, asked.q, **settings, after_step=after_step).as_json()
        for said in (told, *told["target_words"], *told["without"]):
            said["text"] = model.translator.in_script(said["text"], script)
        return told

    return await call(model, work)


@router.post("/alternatives", summary="Find alternatives at a place of a translation", responses=WITH_BODY)
async def alternatives(asked: AlternativesRequest, request: Request, service: Current) -> NextWords:
    from weft.translating.alternatives import complete, find_beginnings, rank
    from weft.translating.arguments import changed_decoding

    service.check_key(request, asked.api_key)
    model = await model_of(asked, service)
    service.count(model, [asked.q])
    translator, script = model.translator, script_of_code(asked.target)
    config = translator.decoding if script == "keep" else changed_decoding(translator.decoding, {"script": script})
    pieces = check_pieces(translator.model.vocabularies["source"], asked.q, MAX_PIECES_WITH_ALTERNATIVES)
    pieces += check_pieces(translator.model.vocabularies["target"], asked.prefix, MAX_PIECES_WITH_ALTERNATIVES)
    find = partial(find_beginnings, translator, asked.q, asked.prefix, asked.best, config)
    prefix, beginnings = await call(model, find)
    hypotheses = []
    at_once = max(1, PIECES_AT_ONCE // (pieces + 1))
    for part in (beginnings[first : first + at_once] for first in range(0, len(beginnings), at_once)):
        hypotheses += await call(model, partial(complete, translator, asked.q, part, config))
    found = rank(translator, asked.q, len(prefix), hypotheses, asked.best, config)
    return NextWords(alternatives=[NextWord(word=one.word, text=one.text, score=one.score) for one in found])


async def model_of(asked: ExplainRequest | AlternativesRequest, service: Service) -> ServedModel:
    """The model to explain; it is given even a text that looks like its target language."""
    named = service.models.loaded.get(asked.model)
    directions = service.models.directions if named is None else [named.direction]
    sources = [source for source, target in directions if target == code_of(asked.target)]
    source = await service.resolve(asked.source, asked.q, asked.target)
    if code_of(source) not in sources:
        source = next(iter(sources), source)
    model = service.model_between(source, asked.target, asked.model)
    if model is None:
        raise Refused(400, f"{asked.model or 'no model here'} does not translate to {asked.target}")
    return model


def check_pieces(tokenizer: Tokenizer, text: str, most: int) -> int:
    """The number of pieces of a text. Raises Refused for one that would occupy the model for seconds: each piece takes
    a step, and each step attends to all before it."""
    pieces = len(tokenizer.encode([text])[0])
    if pieces > most:
        raise Refused(400, f"a text here may have up to {most} pieces of the model; this one has {pieces:,}")
    return pieces


@router.get(
    "/card/{name}",
    summary="Show the card of a model: its data, license and scores",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}}}, **refusals(404, 421)},
)
async def card(name: str, service: Current) -> Response:
    if name not in service.models.all:
        raise Refused(404, f"there is no model {name[:50]}; there are {', '.join(service.models.all)}")
    return Response(service.models.all[name].card, media_type="text/plain; charset=utf-8")


@router.post(
    "/reload",
    summary="Reload all models from where they came from, without losing a request",
    responses=refusals(401, 403, 409, 421),
)
async def reload(service: Current) -> Status:
    if not service.state.keys:
        raise Refused(403, "a server without keys is reloaded by a signal: kill -HUP its process")
    await reload_models(service)
    return Status(status="reloaded")


async def reload_models(service: Service) -> None:
    """Raises Refused if the new models cannot be served."""
    reloads = service.state.metrics.reloads

    def report(error: BaseException | None) -> None:
        reloads.labels("refused" if error else "done").inc()
        if error is None:
            log.info("models reloaded: %s", ", ".join(service.models.all))
        else:
            reason = error if isinstance(error, WeftError) else type(error).__name__
            log.error("reload refused, the models stay as they are: %s", reason)

    try:
        await service.models.reload(report)
    except WeftError as error:
        raise Refused(409, str(error)) from None


async def streamed_lines(
    service: Service, model: ServedModel | None, asked: StreamRequest, deadline: float
) -> AsyncGenerator[dict[str, Any]]:
    """The object for each sentence, until the deadline; the last one may be an error."""
    script = script_of_code(asked.target)
    if model is None:
        yield as_line(StreamedSentence(0, asked.q, "", convert_translation(asked.q, script), frozenset()))
        return
    options = TranslationOptions(terms=terms_of(asked.glossary), script=script)
    try:
        async with aclosing(service.stream(model, asked.q, options, deadline)) as sentences:
            async for sentence in sentences:
                yield as_line(sentence)
    except Refused as refused:
        yield {"error": refused.detail}


def as_line(sentence: StreamedSentence) -> dict[str, Any]:
    line = {"index": sentence.index, "source": sentence.source, "before": sentence.before, "text": sentence.text}
    return {**line, "flags": sorted(sentence.flags)} if sentence.flags else line


async def written(lines: AsyncGenerator[dict[str, Any]], form: str) -> AsyncGenerator[bytes]:
    """The lines in this form; the last one of server-sent events is called `end`."""
    async with aclosing(lines):
        async for line in lines:
            yield event(line) if form == EVENTS else json.dumps(line, ensure_ascii=False).encode() + b"\n"
    if form == EVENTS:
        yield b"event: end\ndata: {}\n\n"
