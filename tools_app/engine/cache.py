"""Answers that may be given again: of tools that read, for the same arguments, for as long as their policy says.

Calls for the same thing at the same time share one run. Errors are never kept; those who waited for the run that
failed share its error, as each would have met the same.
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

# What an answer costs beside its text: the same once more as Python values, and the entry itself.
TIMES: Final = 3
OVERHEAD: Final = 1_000


@dataclass(frozen=True, slots=True)
class _Kept:
    answer: Answer
    until: float
    size: int


class Cache:
    """Used on one event loop."""

    def __init__(self, most_bytes: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most_bytes = most_bytes
        self._clock = clock
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._bytes = 0
        self._runs: dict[str, asyncio.Future[Answer | ToolError | None]] = {}

    async def answer(
        self, key: str, seconds: float, run: Callable[[], Awaitable[Answer]], remaining: Callable[[], float]
    ) -> tuple[Answer, bool]:
        """The answer, and whether it is somebody else's.

        Raises:
            TimeoutError: nothing remained of this caller's time while somebody else's run went on.
            ToolError: what the run ended with, this caller's own or the one it waited for.
        """
        while True:
            if (kept := self._find(key)) is not None:
                return kept, True
            others = self._runs.get(key)
            if others is None:
                return await self._run(key, seconds, run), False
            async with asyncio.timeout(remaining()):
                outcome = await asyncio.shield(others)
            if isinstance(outcome, ToolError):
                raise outcome.again()
            if outcome is not None:
                return outcome, True
            # It was given up, for a reason that was its caller's own: it is this caller's turn to look.

    async def _run(self, key: str, seconds: float, run: Callable[[], Awaitable[Answer]]) -> Answer:
        mine = self._runs[key] = asyncio.get_running_loop().create_future()
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
            mine.set_result(outcome)

    def _find(self, key: str) -> Answer | None:
        kept = self._kept.get(key)
        if kept is None:
            return None
        if kept.until <= self._clock():
            self._drop(key)
            return None
        self._kept.move_to_end(key)
        return kept.answer

    def _keep(self, key: str, answer: Answer, seconds: float) -> None:
        size = TIMES * answer.size + OVERHEAD
        if size > self._most_bytes // 4:
            return  # One answer must not push all others out.
        self._kept[key] = _Kept(answer, self._clock() + seconds, size)
        self._bytes += size
        while self._bytes > self._most_bytes:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: str) -> None:
        self._bytes -= self._kept.pop(key).size
