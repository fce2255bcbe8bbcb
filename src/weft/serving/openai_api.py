"""The part of OpenAI's API that a translator can answer: models, and chats whose last user message is translated.

The other messages of a chat and sampling settings have no effect: a model translates in the direction it was trained
for. Tokens are pieces of the model's vocabularies.
"""

import secrets
import time
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from typing import Annotated, Any, Literal, Self

from fastapi import APIRouter
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field, ValidationError, model_validator
from starlette.requests import Request
from starlette.responses import Response

from weft.serving.models import ServedModel
from weft.serving.openapi import OPENAI_WITH_BODY, refusals
from weft.serving.refusals import OpenAIProblem, Refused, body_of
from weft.serving.requests import AtMost, Current, Route, ShortText, StrictModel, TextOr, serving
from weft.serving.service import Service
from weft.serving.streams import EVENTS, Streamed, begin_stream, event
from weft.serving.translating import TranslationOptions

STARTED = int(time.time())

router = APIRouter(prefix="/v1", route_class=Route)


class TextPart(StrictModel):
    type: Literal["text"]
    text: ShortText


class ChatMessage(StrictModel):
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Any = None
    """A text or a list of text parts in the last user message; ignored in others."""


class UserMessage(StrictModel):
    content: TextOr[Annotated[list[TextPart], Field(min_length=1), AtMost("texts")]]

    @model_validator(mode="after")
    def _check_length(self) -> Self:
        most = serving.get().state.limits.characters
        if len(self.text) > most:
            raise ValueError(f"content has {len(self.text):,} characters, more than {most:,}")
        return self

    @property
    def text(self) -> str:
        return self.content if isinstance(self.content, str) else "\n".join(part.text for part in self.content)


class StreamOptions(StrictModel):
    include_usage: bool | None = None
    """Whether an additional chunk reports the tokens."""


class OpenAIRequest(StrictModel):
    """What requests for chats and completions have in common."""

    model: Annotated[str, Field(max_length=200)]
    n: Annotated[int, Field(ge=1), AtMost("alternatives", extra=1)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None

    def check_choices(self) -> None:
        """Raises Refused if a stream is to have several choices."""
        if self.stream and (self.n or 1) > 1:
            raise Refused(400, "Invalid request: n: a stream has one choice; ask for more without stream")

    @property
    def tells_usage(self) -> bool:
        return self.stream_options is not None and bool(self.stream_options.include_usage)


class ChatRequest(OpenAIRequest):
    messages: Annotated[list[ChatMessage], Field(min_length=1), AtMost("texts")]

    @property
    def text(self) -> str:
        """The last user message. Raises RequestValidationError if it is not a text."""
        content = next((each.content for each in reversed(self.messages) if each.role == "user"), None)
        try:
            return UserMessage.model_validate({"content": content}).text
        except ValidationError as error:
            raise RequestValidationError([{**one, "loc": ("body", *one["loc"])} for one in error.errors()]) from None


class Model(BaseModel):
    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "weft"


class ModelList(BaseModel):
    object: Literal["list"] = "list"
    data: list[Model]


class ChatCompletion(BaseModel):
    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[dict[str, Any]]
    usage: dict[str, int]


@router.get("/models", summary="List the models", responses=refusals(401, 421, problem=OpenAIProblem))
async def list_models(service: Current) -> ModelList:
    return ModelList(data=[Model(id=model.id, created=STARTED) for model in service.models.all.values()])


@router.get("/models/{name}", summary="Show a model", responses=refusals(401, 404, 421, problem=OpenAIProblem))
async def show_model(name: str, service: Current) -> Model:
    return Model(id=name if name in service.models.writers else model_named(name, service).id, created=STARTED)


@router.post(
    "/chat/completions",
    summary="Translate the last user message",
    response_model=ChatCompletion,
    responses={**OPENAI_WITH_BODY, 200: {"content": {EVENTS: {}}}},
)
async def complete(asked: ChatRequest, request: Request, service: Current) -> ChatCompletion | Response:
    asked.check_choices()
    model, source = model_named(asked.model, service), asked.text
    head = {"id": f"chatcmpl-{secrets.token_hex(12)}", "created": int(time.time()), "model": model.id}
    if asked.stream:
        events = chunks(service, model, source, head, begin_stream(request), tells_usage=asked.tells_usage)
        return Streamed(events, EVENTS)
    (answer,) = await service.translate(model, [source], TranslationOptions(asked.n or 1))
    choices = [
        {
            "index": index,
            "message": {"role": "assistant", "content": text},
            "finish_reason": finish_reason(() if index else answer.flags),
        }
        for index, text in enumerate(answer.ranked)
    ]
    return ChatCompletion(**head, choices=choices, usage=count_tokens(model, source, answer.ranked))


def model_named(name: str, service: Service) -> ServedModel:
    model = service.models.loaded.get(name)
    if name in service.models.writers:
        raise Refused(404, f"{name} is a language model: it goes on with a prompt by /v1/completions")
    if model is None:
        there = ", ".join(service.models.loaded) or "none that translates"
        raise Refused(404, f"there is no model {name[:100]}; there are {there}")
    return model


def finish_reason(flags: Collection[str]) -> str:
    return "length" if "length" in flags else "stop"


def count_tokens(model: ServedModel, source: str, translations: tuple[str, ...]) -> dict[str, int]:
    prompt = len(model.translator.model.vocabularies["source"].encode([source])[0])
    completion = sum(map(len, model.translator.model.vocabularies["target"].encode(list(translations))))
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


async def chunks(
    service: Service, model: ServedModel, source: str, head: dict[str, Any], deadline: float, *, tells_usage: bool
) -> AsyncGenerator[bytes]:
    """One event per sentence, and one without choices for the tokens."""
    head = {**head, "object": "chat.completion.chunk", **({"usage": None} if tells_usage else {})}

    def choice(delta: dict[str, str], reason: str | None = None) -> bytes:
        return event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

    written, flags = "", set[str]()
    try:
        async with aclosing(service.stream(model, source, TranslationOptions(), deadline)) as sentences:
            async for sentence in sentences:
                role = {} if sentence.index else {"role": "assistant"}  # clients join the values of equal names
                content = sentence.before + sentence.text
                yield choice({**role, "content": content})
                written += content
                flags |= sentence.flags
    except Refused as refused:
        yield event(body_of(refused, "/v1/"))
    else:
        yield choice({}, finish_reason(flags))
        if tells_usage:
            yield event({**head, "choices": [], "usage": count_tokens(model, source, (written,))})
    yield b"data: [DONE]\n\n"
