"""Answers that are sent piece by piece: they may take as long as a document's, and say so where that is not enough."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from weft.serving.limits import Limits
from weft.serving.refusals import too_slow

Item = TypeVar("Item")


def begin_stream(request: Request) -> float:
    """Give this answer the time of a document; when that is over by the clock of the loop (admission.py)."""
    state = request.scope["state"]
    state["is_stream"] = True
    return state["stream_ends"]


class Streamed(StreamingResponse):
    """An answer whose generator ends with it: one whose client takes no more is cancelled while it sends, and the
    generator, which waits to be asked then, would keep its sentences in the queue until the garbage collector comes."""

    def __init__(self, items: AsyncGenerator[bytes], media_type: str) -> None:
        super().__init__(items, media_type=media_type)
        self.items = items

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self.items):
            await super().__call__(scope, receive, send)


async def in_time(items: AsyncGenerator[Item], ends: float, limits: Limits) -> AsyncGenerator[Item]:
    """The items. Raises Refused when the time is over, so that the answer can end with a word about it."""
    clock = asyncio.get_running_loop().time
    async with aclosing(items):
        while clock() < ends:
            try:
                async with asyncio.timeout_at(ends):
                    item = await anext(items)
            except StopAsyncIteration:
                return
            except TimeoutError:
                break
            yield item
        raise too_slow(limits.document_seconds)
