"""Room for what is large: so much at once, the rest waits in the order in which it came. Knows no HTTP."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

SMALL = 16 << 10
"""What is no larger takes no room and never waits."""
LARGE = 1 / 32
"""Of all room: who wants more waits behind others who do, leaves ..."""
KEPT = 1 / 4
"""... so much to those who want less, and gets ..."""
MOST = 1 / 4
"""... no more than this, so that nobody has to wait for an empty house."""


class Room:
    """For texts that are taken apart, of which each takes some hundred times its size until it is answered."""

    def __init__(self, size: int) -> None:
        self.size = self.left = size
        self._turns = {True: asyncio.Lock(), False: asyncio.Lock()}
        self._freed = asyncio.Event()

    @asynccontextmanager
    async def taken(self, size: int, patience: float) -> AsyncGenerator[None]:
        """Wait for so much room and hold it. What is larger than the most that one gets takes that. Raises TimeoutError
        where there is none after so many seconds."""
        is_large = size > LARGE * self.size
        kept = int(KEPT * self.size) if is_large else 0
        wanted = 0 if size <= SMALL else min(size, int(MOST * self.size))
        if wanted:
            async with asyncio.timeout(patience), self._turns[is_large]:
                while self.left < wanted + kept:
                    self._freed.clear()
                    await self._freed.wait()
                self.left -= wanted
        try:
            yield
        finally:
            self.left += wanted
            self._freed.set()
