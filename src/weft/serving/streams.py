"""Responses sent piece by piece: they have the time of a document, and report it if that runs out."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from weft.serving.limits import Limits
from weft.serving.refusals import too_slow

EVENTS = "text/event-stream"
Item = TypeVar("Item")


def begin_stream(request: Request) -> float:
    """Give this response the time of a document; returns its deadline by the clock of the loop (admission.py)."""
    state = request.scope["state"]
    state["is_stream"] = True
    return state["stream_deadline"]


class Streamed(StreamingResponse):
    """Closes its generator at the end. If a client stops reading, the response is cancelled while it sends, and the
    suspended generator would keep its sentences in the queue until it is garbage collected."""

    def __init__(self, items: AsyncGenerator[bytes], media_type: str) -> None:
        super().__init__(items, media_type=media_type)
        self.items = items

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self.items):
            await super().__call__(scope, receive, send)


def event(data: dict[str, Any]) -> bytes:
    """A server-sent event."""
    return b"data: " + json.dumps(data, ensure_ascii=False).encode() + b"\n\n"


async def until_deadline(items: AsyncGenerator[Item], deadline: float, limits: Limits) -> AsyncGenerator[Item]:
    """The items. Raises Refused at the deadline, so that the response can end with an error."""
    clock = asyncio.get_running_loop().time
    async with aclosing(items):
        while clock() < deadline:
            try:
                async with asyncio.timeout_at(deadline):
                    item = await anext(items)
            except StopAsyncIteration:
                return
            except TimeoutError:
                break
            yield item
        raise too_slow(limits.document_seconds)
