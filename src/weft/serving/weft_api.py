"""What weft can do beside the APIs of others: streams, explanations, alternatives at a word, other models in place."""

import json
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Annotated, Any

from fastapi import FastAPI, Request
from pydantic import BaseModel, StringConstraints
from starlette.responses import JSONResponse, Response

from weft.errors import WeftError
from weft.serving.models import ServedModel
from weft.serving.openapi import WITH_BODY, WITHOUT_BODY, body_of, refusals
from weft.serving.reading import read_request
from weft.serving.refusals import Refused
from weft.serving.requests import Glossary, Key, ModelName, Term, Whole, codes_of, terms_of
from weft.serving.service import AUTO, Service
from weft.serving.streams import Streamed, begin_stream
from weft.serving.translating import StreamedSentence, Wish, call
from weft.text.language import code_of
from weft.text.tokenizer import Tokenizer

log = logging.getLogger("weft.serving")

NDJSON, EVENTS = "application/x-ndjson", "text/event-stream"
MOST_PIECES = 256
"""Of a translation that is given."""
MOST_WITH_ALTERNATIVES = 128
"""Of a text, and of the beginning of its translation: for each alternative a search runs to its end, and of a text that
says nothing, such as a hundred emoji, as far as it may."""
PIECES_AT_ONCE = 512
"""So many pieces of source and prefix, over all alternatives, are searched for together; others come in between."""
LONGER = 4
"""How many times the characters of an explained text its translation may have: English has about three for each of
Chinese."""


class NextWord(BaseModel):
    word: str
    text: str
    """The whole translation that goes on from it."""
    score: float


class NextWords(BaseModel):
    alternatives: list[NextWord]


class Status(BaseModel):
    status: str


def add_routes(app: FastAPI, service: Service) -> None:
    limits, models = service.house.limits, service.models
    source_code, target_code = codes_of(models)
    name = ModelName(list(models.loaded))
    as_long_as_a_body = StringConstraints(max_length=limits.body_bytes)
    explained = StringConstraints(min_length=1, max_length=limits.explained_characters, pattern=r"\S")
    translated = StringConstraints(max_length=LONGER * limits.explained_characters)

    class StreamRequest(BaseModel):
        q: Annotated[str, as_long_as_a_body]
        """A text of any length."""
        source: Annotated[str, source_code]
        target: Annotated[str, target_code]
        glossary: Annotated[dict[Term, Term], Glossary(limits.terms)] | None = None
        """Terms of the source language and their translations, which have to appear."""
        api_key: Key = ""
        model: Annotated[str, name] = ""

    class ExplainRequest(BaseModel):
        q: Annotated[str, explained]
        source: Annotated[str, source_code]
        target: Annotated[str, target_code]
        translation: Annotated[str, translated] | None = None
        """What is to be explained; left out or empty: the model's own translation."""
        beam_size: Annotated[int, Whole(1, limits.beam_size)] | None = None
        api_key: Key = ""
        model: Annotated[str, name] = ""

    class AlternativesRequest(BaseModel):
        q: Annotated[str, explained]
        source: Annotated[str, source_code]
        target: Annotated[str, target_code]
        prefix: Annotated[str, translated] = ""
        """How the translation begins, up to the place in question."""
        best: Annotated[int, Whole(1, limits.beam_size)] = 5
        api_key: Key = ""
        model: Annotated[str, name] = ""

    async def model_for(asked: StreamRequest) -> ServedModel | None:
        source = (await service.detect(asked.q)).language if asked.source == AUTO else asked.source
        return service.model_between(source, asked.target, asked.model)

    async def model_of(asked: ExplainRequest | AlternativesRequest) -> ServedModel:
        """The one that is asked about: it reads even what looks like its target language."""
        into = [source for source, target in models.directions if target == code_of(asked.target)]
        source = (await service.detect(asked.q)).language if asked.source == AUTO else asked.source
        model = service.model_between(source if code_of(source) in into else into[0], asked.target, asked.model)
        assert model is not None
        return model

    @app.post(
        "/weft/stream",
        summary="Translate a long text, sentence by sentence as they are done",
        response_class=Response,
        responses={
            200: {
                "description": "A line, or with Accept: text/event-stream an event, for each sentence in order: index, "
                "source, before, text. What comes `before` each and its `text` joined are the translation. A line with "
                "`error` is the last one.",
                "content": {NDJSON: {}, EVENTS: {}},
            },
            **refusals(*WITH_BODY),
        },
        openapi_extra=body_of(StreamRequest),
    )
    async def stream_text(request: Request) -> Response:
        asked = await read_request(request, StreamRequest)
        service.refuse_without_key(request, asked.api_key)
        model = await model_for(asked)
        wish = Wish(terms=terms_of(asked.glossary))
        lines = streamed_lines(service, model, asked.q, wish, begin_stream(request))
        if EVENTS in request.headers.get("accept", ""):
            return Streamed(as_events(lines), EVENTS)
        return Streamed(as_ndjson(lines), NDJSON)

    @app.post(
        "/weft/explain",
        summary="Why the model translates a sentence as it does",
        responses={200: {"model": dict[str, Any]}, **refusals(*WITH_BODY)},
        openapi_extra=body_of(ExplainRequest),
    )
    async def explain(request: Request) -> Response:
        from weft.tasks import explanation

        asked = await read_request(request, ExplainRequest)
        service.refuse_without_key(request, asked.api_key)
        model = await model_of(asked)
        service.count(model, [asked.q])
        refuse_long(model.translator.model.target_tokenizer, asked.translation or "", MOST_PIECES)
        try:
            found = await call(
                model,
                lambda after_step: explanation.explain(
                    model.translator,
                    asked.q,
                    target=asked.translation or None,
                    beam_size=asked.beam_size,
                    after_step=after_step,
                ).as_json(),
            )
        except WeftError as error:
            raise Refused(400, str(error)) from None
        return JSONResponse(found)

    @app.post(
        "/weft/alternatives",
        summary="What else could come at a place of a translation",
        responses={200: {"model": NextWords}, **refusals(*WITH_BODY)},
        openapi_extra=body_of(AlternativesRequest),
    )
    async def alternatives(request: Request) -> Response:
        from weft.tasks.alternatives import complete, find_beginnings, rank

        asked = await read_request(request, AlternativesRequest)
        service.refuse_without_key(request, asked.api_key)
        model = await model_of(asked)
        service.count(model, [asked.q])
        translator, config = model.translator, model.translator.decoding
        pieces = refuse_long(translator.model.source_tokenizer, asked.q, MOST_WITH_ALTERNATIVES)
        pieces += refuse_long(translator.model.target_tokenizer, asked.prefix, MOST_WITH_ALTERNATIVES)
        try:
            prefix, beginnings = await call(
                model,
                lambda after_step: find_beginnings(translator, asked.q, asked.prefix, asked.best, config, after_step),
            )
            hypotheses = []
            at_once = max(1, PIECES_AT_ONCE // (pieces + 1))
            for part in (beginnings[first : first + at_once] for first in range(0, len(beginnings), at_once)):
                hypotheses += await call(model, partial(complete, translator, asked.q, part, config))
        except WeftError as error:
            raise Refused(400, str(error)) from None
        found = rank(translator, len(prefix), hypotheses, asked.best)
        words = [{"word": one.word, "text": one.text, "score": one.score} for one in found]
        return JSONResponse({"alternatives": words})

    @app.post(
        "/weft/reload",
        summary="Load all models anew from where they came from, without losing a request",
        responses={200: {"model": Status}, **refusals(401, 403, 409, *WITHOUT_BODY)},
    )
    async def reload() -> Response:
        if not service.house.keys:
            raise Refused(403, "a server without keys is reloaded by a signal: kill -HUP its process")
        await reload_models(service)
        return JSONResponse({"status": "reloaded"})


def refuse_long(tokenizer: Tokenizer, text: str, most: int) -> int:
    """How many pieces a text has. Raises Refused for what would keep the model from others for seconds: each piece
    takes a step, and each step looks at all before it."""
    pieces = len(tokenizer.encode([text])[0])
    if pieces > most:
        raise Refused(400, f"texts of up to {most} pieces of the model are looked into; one here has {pieces:,}")
    return pieces


async def reload_models(service: Service) -> None:
    """Raises Refused where the new models are not served."""
    metric = service.house.metrics.reloads

    def tell(error: BaseException | None) -> None:
        metric.labels("refused" if error else "done").inc()
        if error is None:
            log.info("models loaded anew: %s", ", ".join(model.id for model in service.models))
        else:
            log.error(
                "the models stay as they are: %s", error if isinstance(error, WeftError) else type(error).__name__
            )

    try:
        await service.models.reload(tell)
    except WeftError as error:
        raise Refused(409, str(error)) from None


async def streamed_lines(
    service: Service, model: ServedModel | None, text: str, wish: Wish, ends: float
) -> AsyncGenerator[dict[str, Any]]:
    """What a line holds for each sentence, until the time `ends`; the last one may be an error."""
    if model is None:
        yield as_line(StreamedSentence(0, text, "", text, frozenset()))
        return
    try:
        async with aclosing(service.stream(model, text, wish, ends)) as sentences:
            async for sentence in sentences:
                yield as_line(sentence)
    except Refused as refused:
        yield {"error": refused.message}


def as_line(sentence: StreamedSentence) -> dict[str, Any]:
    line = {"index": sentence.index, "source": sentence.source, "before": sentence.before, "text": sentence.text}
    return {**line, "flags": sorted(sentence.flags)} if sentence.flags else line


async def as_ndjson(lines: AsyncGenerator[dict[str, Any]]) -> AsyncGenerator[bytes]:
    async with aclosing(lines):
        async for line in lines:
            yield json.dumps(line, ensure_ascii=False).encode() + b"\n"


async def as_events(lines: AsyncGenerator[dict[str, Any]]) -> AsyncGenerator[bytes]:
    """Server-sent events; the last one is called `end`."""
    async with aclosing(lines):
        async for line in lines:
            yield b"data: " + json.dumps(line, ensure_ascii=False).encode() + b"\n\n"
    yield b"event: end\ndata: {}\n\n"
