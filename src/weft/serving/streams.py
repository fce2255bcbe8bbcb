"""Answers that are sent piece by piece: they may take as long as a document's, and say so where that is not enough."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TypeVar

from starlette.requests import Request

from weft.serving.limits import Limits
from weft.serving.refusals import too_slow

Item = TypeVar("Item")


def begin_stream(request: Request) -> float:
    """Give this answer the time of a document; when that is over by the clock of the loop (admission.py)."""
    state = request.scope["state"]
    state["is_stream"] = True
    return state["stream_ends"]


async def in_time(items: AsyncIterator[Item], ends: float, limits: Limits) -> AsyncIterator[Item]:
    """The items. Raises Refused when the time is over, so that the answer can end with a word about it."""
    clock = asyncio.get_running_loop().time
    try:
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
    finally:
        if isinstance(items, AsyncGenerator):
            await items.aclose()
