"""OpenAI's /v1/completions: what language models write after a prompt, at once or piece by piece.

Of the settings, those are taken that a search of weft has; others have no effect. Tokens are pieces of the vocabulary.
"""

import asyncio
import json
import secrets
import time
from collections.abc import AsyncGenerator, Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from weft.decoding.search import DecodingConfig
from weft.errors import WeftError
from weft.serving.models import ServedWriter
from weft.serving.openai_api import EVENTS
from weft.serving.openapi import OPENAI_WITH_BODY
from weft.serving.refusals import Refused, body_of
from weft.serving.requests import AtMost, Current, Route, ShortText, StrictModel
from weft.serving.service import Service
from weft.serving.streams import Streamed, begin_stream, until_deadline
from weft.serving.translating import call
from weft.tasks.generating import settings_of

router = APIRouter(prefix="/v1", route_class=Route)


class CompletionRequest(StrictModel):
    model: Annotated[str, Field(max_length=200)]
    prompt: ShortText = ""
    max_tokens: Annotated[int, Field(ge=1), AtMost("characters")] = 16
    temperature: Annotated[float, Field(ge=0, le=100)] | None = None
    """0 takes the most probable piece at every step."""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    n: Annotated[int, Field(ge=1), AtMost("alternatives", extra=1)] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    """By default another text every time."""
    stop: ShortText | Annotated[list[ShortText], Field(max_length=4)] | None = None
    echo: bool | None = None
    stream: bool | None = None

    @property
    def settings(self) -> DecodingConfig:
        temperature = 1.0 if self.temperature is None else self.temperature
        return settings_of(
            self.max_tokens,
            method="sample" if temperature >= 1e-6 else "greedy",
            temperature=max(temperature, 1e-6),
            top_p=self.top_p or 1.0,
            seed=secrets.randbelow(2**31) if self.seed is None else self.seed,
        )

    @property
    def stops(self) -> list[str]:
        given = [self.stop] if isinstance(self.stop, str) else self.stop or []
        return [text for text in given if text]


class Completion(BaseModel):
    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: list[dict[str, Any]]
    usage: dict[str, int]


@router.post(
    "/completions",
    summary="Continue a text with a language model",
    response_model=Completion,
    responses={**OPENAI_WITH_BODY, 200: {"content": {EVENTS: {}}}},
)
async def complete(asked: CompletionRequest, request: Request, service: Current) -> Completion | Response:
    if asked.stream and (asked.n or 1) > 1:
        raise Refused(400, "Invalid request: n: a stream has one choice; ask for more without stream")
    writer = service.models.writers.get(asked.model)
    if writer is None:
        there = ", ".join(service.models.writers) or "none"
        raise Refused(404, f"there is no language model {asked.model[:100]}; there is {there}")
    head = {"id": f"cmpl-{secrets.token_hex(12)}", "created": int(time.time()), "model": writer.id}
    if asked.stream:
        return Streamed(chunks(service, writer, asked, head, begin_stream(request)), EVENTS)
    samples = 1 if asked.settings.method == "greedy" else asked.n or 1

    def generate(after_step: Callable[[], None]) -> list[str]:
        return writer.model.generate(asked.prompt, asked.settings, samples=samples, after_step=after_step)

    try:
        found = await call(writer, generate)
    except WeftError as error:
        raise Refused(400, str(error)) from None
    pieces = sum(map(len, writer.model.tokenizer.encode(found)))
    before = len(writer.model.encode(asked.prompt)) - 1
    choices = [choice(asked, text, writer, index) for index, text in enumerate(found)]
    usage = {"prompt_tokens": before, "completion_tokens": pieces, "total_tokens": before + pieces}
    return Completion(**head, choices=choices, usage=usage)


def choice(asked: CompletionRequest, text: str, writer: ServedWriter, index: int) -> dict[str, Any]:
    cut = cut_at(text, asked.stops)
    is_long = cut == text and len(writer.model.tokenizer.encode([text])[0]) >= asked.max_tokens
    reason = "length" if is_long or (cut == text and writer.model.is_running) else "stop"
    return {"index": index, "text": asked.prompt * bool(asked.echo) + cut, "finish_reason": reason, "logprobs": None}


def cut_at(text: str, stops: list[str]) -> str:
    """The text before the first of these strings."""
    return text[: min((place for stop in stops if (place := text.find(stop)) >= 0), default=len(text))]


async def chunks(
    service: Service, writer: ServedWriter, asked: CompletionRequest, head: dict[str, Any], deadline: float
) -> AsyncGenerator[bytes]:
    """One event for each part of the text, and one for its end."""

    def event(text: str, reason: str | None = None) -> bytes:
        one = {"index": 0, "text": text, "finish_reason": reason, "logprobs": None}
        data = {**head, "object": "text_completion", "choices": [one]}
        return b"data: " + json.dumps(data, ensure_ascii=False).encode() + b"\n\n"

    written, sent = "", 0
    longest_stop = max(map(len, asked.stops), default=1)
    try:
        if asked.echo and asked.prompt:
            yield event(asked.prompt)
        async for part in until_deadline(parts(writer, asked), deadline, service.state.limits):
            written += part
            if len(cut := cut_at(written, asked.stops)) < len(written):
                yield event(cut[sent:], "stop")
                break
            safe = len(written) - longest_stop + 1  # what follows may be the beginning of a stop
            if safe > sent:
                yield event(written[sent:safe])
                sent = safe
        else:
            yield event(written[sent:], choice(asked, written, writer, 0)["finish_reason"])
    except (Refused, WeftError) as error:
        refused = error if isinstance(error, Refused) else Refused(400, str(error))
        service.state.count_refusal(refused)
        yield event_of(refused)
    yield b"data: [DONE]\n\n"


def event_of(refused: Refused) -> bytes:
    return b"data: " + json.dumps(body_of(refused, "/v1/"), ensure_ascii=False).encode() + b"\n\n"


async def parts(writer: ServedWriter, asked: CompletionRequest) -> AsyncGenerator[str]:
    """The parts of a text as the thread of the model writes them."""
    loop, queue = asyncio.get_running_loop(), asyncio.Queue[str | None]()

    def write(after_step: Callable[[], None]) -> bool:
        for part in writer.model.stream(asked.prompt, asked.settings, after_step=after_step):
            loop.call_soon_threadsafe(queue.put_nowait, part)
        return True

    writing = asyncio.ensure_future(call(writer, write))
    writing.add_done_callback(lambda done: queue.put_nowait(None))
    try:
        while (part := await queue.get()) is not None:
            yield part
        await writing
    finally:
        writing.cancel()
