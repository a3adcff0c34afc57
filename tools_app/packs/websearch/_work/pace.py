"""A rate limiter: one request at a time, in order of arrival."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable


class Pace:
    """Lets one request through per interval, in order of arrival. For use on one event loop."""

    def __init__(
        self,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._seconds = seconds
        self._clock = clock
        self._sleep = sleep
        # Held while waiting; when a waiting call is cancelled, the next one takes its turn.
        self._turn = asyncio.Lock()
        self._free_at = float("-inf")

    async def wait(self) -> None:
        async with self._turn:
            while (seconds_left := self._free_at - self._clock()) > 0:
                await self._sleep(seconds_left)
            self._free_at = self._clock() + self._seconds
