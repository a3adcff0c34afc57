"""Cache of answers: for tools that read, by arguments, for the time that their policy sets.

Single flight: concurrent calls for the same key share one run. Errors are never cached; calls that waited for a failed
run get its error, since they would have failed alike.

Where TOOLHUB_REDIS_URL is set, all processes of the hub share answers and runs, but not errors. Redis gets answers
encrypted, under a keyed hash of their key.
"""

from __future__ import annotations

import asyncio
import json
import secrets as random
import time
import zlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields
from typing import Final

from tools_app.base import conf, secrets, shared
from tools_app.base.scripts import CLAIM, SETTLE
from tools_app.engine.answers import Answer
from tools_app.sdk import heavy
from tools_app.sdk.errors import ToolError, ToolTimeoutError

# The cost of an answer beyond its text: again as Python values, plus the entry itself.
TIMES: Final = 3
OVERHEAD: Final = 1_000
# Larger ones stay in their process: Redis is to answer at once.
MOST_SHARED_BYTES: Final = 256 * 1024
# Of compressed ones: larger ones are read in a thread.
LARGE_BYTES: Final = 16 * 1024
# A run of a process that was killed is not waited for longer than this.
CLAIM_SECONDS: Final = 10.0
ASK_SECONDS: Final = 0.05


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
                return await self._run(key, seconds, run, remaining)
            async with asyncio.timeout(remaining()):
                outcome = await asyncio.shield(run_in_flight)
            if isinstance(outcome, ToolError):
                raise outcome.again()
            if outcome is not None:
                return outcome, True
            # That run was given up for a reason of its caller's: this caller tries for itself.

    async def _run(
        self, key: str, seconds: float, run: Callable[[], Awaitable[Answer]], remaining: Callable[[], float]
    ) -> tuple[Answer, bool]:
        future = self._runs[key] = asyncio.get_running_loop().create_future()
        outcome: Answer | ToolError | None = None
        answer: Answer | None = None
        try:
            claim = Claim(key, is_shared=self._most_bytes > 0)
            try:
                if found := await claim.find(remaining):
                    outcome = answer = found[0]
                    self._keep(key, answer, found[1])
                    return answer, True
                outcome = answer = await run()
            finally:
                if claim.is_ours:
                    await asyncio.shield(claim.settle(answer, seconds))
            self._keep(key, answer, seconds)
            return answer, False
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


class Claim:
    """The right of this process to run a call for all others, and the answers of theirs."""

    def __init__(self, key: str, *, is_shared: bool) -> None:
        is_shared = is_shared and shared.of_hub().is_used()
        # Another version of the hub may write other answers.
        self._key = f"{conf.value('TOOLHUB_VERSION')}\n{key}"
        self._names = (shared.name("answer", self._key), shared.name("claim", self._key)) if is_shared else ()
        self._token = random.token_hex(8)
        self.is_ours = False

    async def find(self, remaining: Callable[[], float]) -> tuple[Answer, float] | None:
        """The answer of another process, and for how many seconds it is valid. None: this process has to run the call.

        Raises:
            TimeoutError: another process runs it, for longer than this call has time.
        """
        if not self._names:
            return None
        async with asyncio.timeout(remaining()):
            while True:
                self.is_ours = True  # Redis may have given it also if the answer does not arrive here.
                answer = await shared.of_hub().run(CLAIM, self._names, self._token, round(1000 * CLAIM_SECONDS))
                if answer is None or answer[0] == b"run":
                    return None
                self.is_ours = False
                if answer[0] == b"found":
                    content = answer[1]
                    is_large = len(content) > LARGE_BYTES
                    found = await heavy.aside(_read, self._key, content) if is_large else _read(self._key, content)
                    return None if found is None else (found, answer[2] / 1000)
                await asyncio.sleep(ASK_SECONDS)

    async def settle(self, answer: Answer | None, seconds: float) -> None:
        """Give the answer to the other processes; without one, the next of them runs the call."""
        redis, content = shared.of_hub(), b""
        if answer is not None and answer.size <= MOST_SHARED_BYTES and redis.is_used():
            content = await heavy.by_size((answer.value, answer.text), _written, self._key, answer)
        if await redis.run(SETTLE, self._names, self._token, content, round(1000 * seconds)) is None:
            redis.insist(CLAIM_SECONDS, SETTLE, self._names, self._token, b"", 0)


def _written(key: str, answer: Answer) -> bytes:
    """Encrypted, together with its key: nothing else can be passed off as the answer. Empty if it is too large."""
    values = {field.name: getattr(answer, field.name) for field in fields(answer)}
    content = zlib.compress(json.dumps([key, values], separators=(",", ":")).encode(), 1)
    return secrets.encrypted(content) if len(content) <= MOST_SHARED_BYTES else b""


def _read(key: str, encrypted: bytes) -> Answer | None:
    """None if it is not an answer of this hub to that."""
    content = secrets.decrypted(encrypted)
    if content is None:
        return None
    try:
        written_key, values = json.loads(zlib.decompress(content))
        return Answer(**values) if written_key == key else None
    except (TypeError, ValueError, zlib.error):
        return None
