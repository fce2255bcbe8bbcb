"""A limit on how much text is worked on at once; what does not fit waits in order of arrival. Knows no HTTP."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

SMALL = 16 << 10
"""Up to this size a text takes nothing and never waits."""
LARGE = 1 / 32
"""A text over this share of the capacity waits behind other large ones, ..."""
RESERVED = 1 / 4
"""... leaves this share to smaller ones, and ..."""
MOST = 1 / 4
"""... is counted as this share at most, so that no text has to wait for all others."""


class Capacity:
    """Shared by texts that are being split and translated; each uses some hundred times its size until it is done."""

    def __init__(self, size: int) -> None:
        self.size = self.left = size
        self._turns = {True: asyncio.Lock(), False: asyncio.Lock()}
        self._freed = asyncio.Event()

    @asynccontextmanager
    async def hold(self, size: int, timeout: float) -> AsyncGenerator[None]:
        """Hold capacity for a text of this size. Raises TimeoutError if none is free within `timeout` seconds."""
        is_large = size > LARGE * self.size
        reserved = int(RESERVED * self.size) if is_large else 0
        wanted = 0 if size <= SMALL else min(size, int(MOST * self.size))
        if wanted:
            async with asyncio.timeout(timeout), self._turns[is_large]:
                while self.left < wanted + reserved:
                    self._freed.clear()
                    await self._freed.wait()
                self.left -= wanted
        try:
            yield
        finally:
            self.left += wanted
            self._freed.set()
