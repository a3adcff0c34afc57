"""Not too fast: one request after the other, each in its turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable


class Pace:
    """Lets one through in so many seconds, in the order in which they came. Used on one event loop."""

    def __init__(
        self,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._seconds = seconds
        self._clock = clock
        self._sleep = sleep
        # Whoever waits holds it, and leaves it when it is given up: the next one takes that turn.
        self._turn = asyncio.Lock()
        self._free_at = float("-inf")

    async def wait(self) -> None:
        async with self._turn:
            while (left := self._free_at - self._clock()) > 0:
                await self._sleep(left)
            self._free_at = self._clock() + self._seconds
