"""OpenAI's /v1/completions: what language models write after a prompt, at once or piece by piece.

Of the settings, those are taken that a search of weft has; others that would change the text or the answer are refused.
Tokens are pieces of the vocabulary.
"""

import asyncio
import secrets
import time
from bisect import bisect_left
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field, model_validator
from starlette.requests import Request
from starlette.responses import Response

from weft.decoding.search import DecodingConfig
from weft.errors import WeftError
from weft.serving.models import ServedWriter
from weft.serving.openai_api import OpenAIRequest
from weft.serving.openapi import OPENAI_WITH_BODY
from weft.serving.refusals import Refused, body_of
from weft.serving.requests import AtMost, Current, Route, ShortText, TextOr
from weft.serving.service import Service
from weft.serving.streams import EVENTS, Streamed, begin_stream, event, until_deadline
from weft.serving.translating import call
from weft.tasks.generating import MOST_PIECES, settings_of

router = APIRouter(prefix="/v1", route_class=Route)


class CompletionRequest(OpenAIRequest):
    prompt: TextOr[Annotated[list[ShortText], Field(min_length=1, max_length=1)]] | None = None
    max_tokens: Annotated[int, Field(ge=1, le=MOST_PIECES), AtMost("characters")] | None = None
    """By default 16."""
    temperature: Annotated[float, Field(ge=0, le=100)] | None = None
    """0 takes the most probable piece at every step."""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    """By default another text every time."""
    stop: TextOr[Annotated[list[ShortText], Field(max_length=4)]] | None = None
    echo: bool | None = None
    best_of: Annotated[int, Field(ge=1)] | None = None
    logprobs: int | None = None
    suffix: str | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    logit_bias: dict[str, float] | None = None

    @model_validator(mode="after")
    def _has_no_setting_that_would_do_nothing(self) -> "CompletionRequest":
        penalties = self.frequency_penalty or self.presence_penalty or self.logit_bias
        if self.logprobs is not None or self.suffix or penalties or (self.best_of or 1) > (self.n or 1):
            raise ValueError(
                "logprobs, suffix, frequency_penalty, presence_penalty, logit_bias and a best_of above n are not "
                "supported"
            )
        return self

    @property
    def text(self) -> str:
        return self.prompt[0] if isinstance(self.prompt, list) else self.prompt or ""

    @property
    def length(self) -> int:
        return self.max_tokens or 16

    @property
    def settings(self) -> DecodingConfig:
        temperature = 1.0 if self.temperature is None else self.temperature
        return settings_of(
            self.length,
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
    asked.check_choices()
    writer = service.models.writers.get(asked.model)
    if asked.model in service.models.loaded:
        raise Refused(404, f"{asked.model} translates: ask it by /translate or /v1/chat/completions")
    if writer is None:
        there = ", ".join(service.models.writers) or "none"
        raise Refused(404, f"there is no language model {asked.model[:100]}; there is {there}")
    head = {"id": f"cmpl-{secrets.token_hex(12)}", "created": int(time.time()), "model": writer.id}
    if asked.stream:
        return Streamed(chunks(service, writer, asked, head, begin_stream(request)), EVENTS)
    is_greedy, texts = asked.settings.method == "greedy", asked.n or 1

    def generate(after_step: Callable[[], None]) -> list[Sequence[int]]:
        return writer.model.pieces_after(asked.text, asked.settings, 1 if is_greedy else texts, after_step)

    found = await call(writer, generate)
    completed = [Completed.of(asked, writer, pieces) for pieces in found] * (texts if is_greedy else 1)
    echoed = asked.text if asked.echo else ""
    choices = [choice(index, echoed + each.text, each.reason) for index, each in enumerate(completed)]
    return Completion(**head, choices=choices, usage=usage_of(asked, writer, completed))


@dataclass(frozen=True)
class Completed:
    text: str
    pieces: int
    """How many were drawn until the text was complete."""
    reason: Literal["length", "stop"]

    @classmethod
    def of(cls, asked: CompletionRequest, writer: ServedWriter, pieces: Sequence[int]) -> "Completed":
        model = writer.model
        text = model.continuation(asked.text, pieces)
        cut, stopped = cut_at(text, asked.stops)
        if stopped is None:
            reason = "length" if model.is_running or len(pieces) >= asked.length else "stop"
            return cls(text, len(pieces), reason)
        needed = bisect_left(
            range(len(pieces)),
            True,
            key=lambda count: cut_at(model.continuation(asked.text, pieces[:count]), asked.stops)[1] is not None,
        )
        return cls(cut, needed, "stop")


def choice(index: int, text: str, reason: str | None) -> dict[str, Any]:
    return {"index": index, "text": text, "finish_reason": reason, "logprobs": None}


def usage_of(asked: CompletionRequest, writer: ServedWriter, completed: Sequence[Completed]) -> dict[str, int]:
    before, pieces = len(writer.model.encode(asked.text)) - 1, sum(each.pieces for each in completed)
    return {"prompt_tokens": before, "completion_tokens": pieces, "total_tokens": before + pieces}


def cut_at(text: str, stops: list[str]) -> tuple[str, int | None]:
    """The text before the string that is complete first, and the place where it is complete; None for none."""
    found = [(place + len(stop), place) for stop in stops if (place := text.find(stop)) >= 0]
    end, place = min(found, default=(None, len(text)))
    return text[:place], end


async def chunks(
    service: Service, writer: ServedWriter, asked: CompletionRequest, head: dict[str, Any], deadline: float
) -> AsyncGenerator[bytes]:
    """One event for each part of the text, and one for its end."""

    head = {**head, "object": "text_completion", **({"usage": None} if asked.tells_usage else {})}

    def part(text: str, reason: str | None = None) -> bytes:
        return event({**head, "choices": [choice(0, text, reason)]})

    sent = 0
    longest_stop = max(map(len, asked.stops), default=1)
    try:
        if asked.echo and asked.text:
            yield part(asked.text)
        pieces: Sequence[int] = ()
        async for grown in until_deadline(parts(writer, asked), deadline, service.state.limits):
            pieces, written = grown
            if cut_at(written, asked.stops)[1] is not None:
                break
            safe = len(written) - longest_stop + 1  # what follows may be the beginning of a stop
            if safe > sent:
                yield part(written[sent:safe])
                sent = safe
        completed = Completed.of(asked, writer, pieces)
        yield part(completed.text[sent:], completed.reason)
        if asked.tells_usage:
            yield event({**head, "choices": [], "usage": usage_of(asked, writer, [completed])})
    except (Refused, WeftError) as error:
        refused = error if isinstance(error, Refused) else Refused(400, str(error))
        service.state.count_refusal(refused)
        yield event(body_of(refused, "/v1/"))
    yield b"data: [DONE]\n\n"


async def parts(writer: ServedWriter, asked: CompletionRequest) -> AsyncGenerator[tuple[Sequence[int], str]]:
    """The pieces and the text so far as the thread of the model writes them."""
    loop, queue = asyncio.get_running_loop(), asyncio.Queue[tuple[Sequence[int], str] | None]()

    def write(after_step: Callable[[], None]) -> bool:
        for part in writer.model.growing(asked.text, asked.settings, after_step):
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
