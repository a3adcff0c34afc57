"""How long an event loop kept others waiting."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

# Far more than a busy machine usually takes for itself, far less than what these tests are about.
MOST_SECONDS = 0.75
ATTEMPTS = 3


class Lag:
    """The longest that something which was ready had to wait for its turn."""

    seconds = 0.0


@asynccontextmanager
async def measured() -> AsyncIterator[Lag]:
    """The lag of the running loop, for as long as the block takes."""
    lag = Lag()
    ends = asyncio.Event()

    async def tick() -> None:
        while not ends.is_set():
            began = time.monotonic()
            await asyncio.sleep(0.005)
            lag.seconds = max(lag.seconds, time.monotonic() - began - 0.005)

    ticking = asyncio.create_task(tick())
    await asyncio.sleep(0.01)
    try:
        yield lag
    finally:
        ends.set()
        await ticking


async def stalls(work: Callable[[], Awaitable[object]]) -> bool:
    """Whether the running loop keeps others waiting for too long in each of several attempts. Code that blocks it does
    so every time; other work on the machine does not."""
    for _ in range(ATTEMPTS):
        async with measured() as lag:
            await work()
        if lag.seconds < MOST_SECONDS:
            return False
    return True
