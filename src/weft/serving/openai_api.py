"""The part of OpenAI's API that a translator can answer: models, and chats whose last user message is translated.

What a chat says beside that message has no effect, nor have settings of sampling: a model here translates in the
direction that it was trained for. Tokens are pieces of the model's vocabularies.
"""

import json
import secrets
import time
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from typing import Annotated, Any, Literal, Self

from fastapi import FastAPI, Request
from pydantic import BaseModel, Field, StringConstraints, model_validator
from starlette.responses import JSONResponse, Response

from weft.serving.models import ServedModel
from weft.serving.openapi import WITH_BODY, WITHOUT_BODY, OpenAIProblem, body_of, refusals
from weft.serving.reading import checked, read_request
from weft.serving.refusals import Refused
from weft.serving.refusals import body_of as refusal_body
from weft.serving.requests import Whole
from weft.serving.service import Service
from weft.serving.streams import Streamed, begin_stream
from weft.serving.translating import Wish

EVENTS = "text/event-stream"
BEGAN = int(time.time())


class Model(BaseModel):
    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelList(BaseModel):
    object: Literal["list"]
    data: list[Model]


class ChatCompletion(BaseModel):
    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[dict[str, Any]]
    usage: dict[str, int]


def add_routes(app: FastAPI, service: Service) -> None:
    limits, models = service.house.limits, service.models
    short = StringConstraints(max_length=limits.characters)

    class TextPart(BaseModel):
        type: Literal["text"]
        text: Annotated[str, short]

    class ChatMessage(BaseModel):
        role: Literal["system", "developer", "user", "assistant", "tool", "function"]
        content: Any = None
        """A text or a list of them in the last message of a user; in others it is not looked at."""

    class UserMessage(BaseModel):
        content: Annotated[str, short] | Annotated[list[TextPart], Field(min_length=1, max_length=limits.texts)]

        @model_validator(mode="after")
        def _is_one_text(self) -> Self:
            if len(self.text) > limits.characters:
                raise ValueError(f"its parts have {len(self.text):,} characters, more than {limits.characters:,}")
            return self

        @property
        def text(self) -> str:
            return self.content if isinstance(self.content, str) else "\n".join(part.text for part in self.content)

    class StreamOptions(BaseModel):
        include_usage: bool | None = None
        """Whether one more chunk tells the tokens."""

    class ChatRequest(BaseModel):
        model: Annotated[str, Field(max_length=200, json_schema_extra={"enum": [model.id for model in models]})]
        messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=limits.texts)]
        n: Annotated[int, Whole(1, 1 + limits.alternatives)] | None = None
        stream: bool | None = None
        stream_options: StreamOptions | None = None

    def described(model: ServedModel) -> dict[str, Any]:
        return {"id": model.id, "object": "model", "created": BEGAN, "owned_by": "weft"}

    def named(name: str) -> ServedModel:
        model = models.named(name)
        if model is None:
            known = ", ".join(each.id for each in models)
            raise Refused(404, f"there is no model {name[:100]}; there are {known}")
        return model

    @app.get(
        "/v1/models",
        summary="Which models there are",
        responses={200: {"model": ModelList}, **refusals(401, *WITHOUT_BODY, problem=OpenAIProblem)},
    )
    async def list_models() -> Response:
        return JSONResponse({"object": "list", "data": [described(model) for model in models]})

    @app.get(
        "/v1/models/{name}",
        summary="One of the models",
        responses={200: {"model": Model}, **refusals(401, 404, *WITHOUT_BODY, problem=OpenAIProblem)},
    )
    async def show_model(name: str) -> Response:
        return JSONResponse(described(named(name)))

    @app.post(
        "/v1/chat/completions",
        summary="Translate the last user message",
        responses={
            200: {"model": ChatCompletion, "content": {EVENTS: {}}},
            **refusals(404, *WITH_BODY, problem=OpenAIProblem),
        },
        openapi_extra=body_of(ChatRequest),
    )
    async def complete(request: Request) -> Response:
        asked = await read_request(request, ChatRequest)
        places = asked.n or 1
        if asked.stream and places > 1:
            raise Refused(400, "Invalid request: n: a stream has one choice; ask for more without stream")
        model = named(asked.model)
        content = next((each.content for each in reversed(asked.messages) if each.role == "user"), "")
        source = checked({"content": content}, UserMessage).text
        head = {"id": f"chatcmpl-{secrets.token_hex(12)}", "created": int(time.time()), "model": model.id}
        if asked.stream:
            tells_usage = asked.stream_options is not None and bool(asked.stream_options.include_usage)
            events = chunks(service, model, source, head, begin_stream(request), tells_usage=tells_usage)
            return Streamed(events, EVENTS)
        (answer,) = await service.translate(model, [source], Wish(places))
        tokens = token_counts(model, source, answer.places)
        return JSONResponse(
            {
                **head,
                "object": "chat.completion",
                "choices": [
                    choice(number, place, () if number else answer.flags) for number, place in enumerate(answer.places)
                ],
                "usage": tokens,
            }
        )


def choice(number: int, text: str, flags: Collection[str]) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    return {"index": number, "message": message, "finish_reason": reason_of(flags)}


def reason_of(flags: Collection[str]) -> str:
    """Why a translation ends, given what is suspicious of it."""
    return "length" if "length" in flags else "stop"


def change(delta: dict[str, str], finish_reason: str | None = None) -> list[dict[str, Any]]:
    """The choices of an event of a stream. Clients join what comes under one name, so the role comes once."""
    return [{"index": 0, "delta": delta, "finish_reason": finish_reason}]


def token_counts(model: ServedModel, source: str, places: tuple[str, ...]) -> dict[str, int]:
    prompt = len(model.translator.model.source_tokenizer.encode([source])[0])
    completion = sum(map(len, model.translator.model.target_tokenizer.encode(list(places))))
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


async def chunks(
    service: Service, model: ServedModel, source: str, head: dict[str, Any], ends: float, *, tells_usage: bool
) -> AsyncGenerator[bytes]:
    """One a sentence, until the time `ends`, and one without choices for the tokens."""

    def event(data: dict[str, Any]) -> bytes:
        return b"data: " + json.dumps(data, ensure_ascii=False).encode() + b"\n\n"

    head = {**head, "object": "chat.completion.chunk", **({"usage": None} if tells_usage else {})}
    written, flags = "", set[str]()
    try:
        async with aclosing(service.stream(model, source, Wish(), ends)) as sentences:
            async for sentence in sentences:
                role = {} if sentence.index else {"role": "assistant"}
                content = sentence.before + sentence.text
                yield event({**head, "choices": change({**role, "content": content})})
                written += content
                flags |= sentence.flags
    except Refused as refused:
        yield event(refusal_body(refused, "/v1/"))
    else:
        yield event({**head, "choices": change({}, reason_of(flags))})
        if tells_usage:
            yield event({**head, "choices": [], "usage": token_counts(model, source, (written,))})
    yield b"data: [DONE]\n\n"
