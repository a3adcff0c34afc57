"""Cache of answers: for tools that read, by arguments, for the time that their policy sets.

Single flight: concurrent calls for the same key share one run. Errors are never cached; calls that waited for a failed
run get its error, since they would have failed alike.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from tools_app.engine.answers import Answer
from tools_app.sdk.errors import ToolError, ToolTimeoutError

# The cost of an answer beyond its text: again as Python values, plus the entry itself.
TIMES: Final = 3
OVERHEAD: Final = 1_000


@dataclass(frozen=True, slots=True)
class _CachedAnswer:
    answer: Answer
    expires_at: float
    size: int


class Cache:
    """LRU, limited by size. Used on one event loop."""

    def __init__(self, most_bytes: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most_bytes = most_bytes
        self._clock = clock
        self._entries: OrderedDict[str, _CachedAnswer] = OrderedDict()
        self._bytes = 0
        self._runs: dict[str, asyncio.Future[Answer | ToolError | None]] = {}

    async def answer(
        self, key: str, seconds: float, run: Callable[[], Awaitable[Answer]], remaining: Callable[[], float]
    ) -> tuple[Answer, bool]:
        """The answer, and whether it comes from the cache or from another caller's run.

        Raises:
            TimeoutError: this caller's time ran out while it waited for another caller's run.
            ToolError: the run failed: this caller's own, or the one it waited for.
        """
        while True:
            if (hit := self._find(key)) is not None:
                return hit, True
            run_in_flight = self._runs.get(key)
            if run_in_flight is None:
                return await self._run(key, seconds, run), False
            async with asyncio.timeout(remaining()):
                outcome = await asyncio.shield(run_in_flight)
            if isinstance(outcome, ToolError):
                raise outcome.again()
            if outcome is not None:
                return outcome, True
            # That run was given up for a reason of its caller's: this caller tries for itself.

    async def _run(self, key: str, seconds: float, run: Callable[[], Awaitable[Answer]]) -> Answer:
        future = self._runs[key] = asyncio.get_running_loop().create_future()
        outcome: Answer | ToolError | None = None
        try:
            outcome = answer = await run()
            self._keep(key, answer, seconds)
            return answer
        except ToolTimeoutError:
            raise
        except ToolError as error:
            outcome = error
            raise
        finally:
            del self._runs[key]
            future.set_result(outcome)

    def _find(self, key: str) -> Answer | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry.expires_at <= self._clock():
            self._drop(key)
            return None
        self._entries.move_to_end(key)
        return entry.answer

    def _keep(self, key: str, answer: Answer, seconds: float) -> None:
        size = TIMES * answer.size + OVERHEAD
        if size > self._most_bytes // 4:
            return  # One answer must not evict all others.
        self._entries[key] = _CachedAnswer(answer, self._clock() + seconds, size)
        self._bytes += size
        while self._bytes > self._most_bytes:
            self._drop(next(iter(self._entries)))

    def _drop(self, key: str) -> None:
        self._bytes -= self._entries.pop(key).size
