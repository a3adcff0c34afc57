"""The Redis that the processes of a hub count in together, where TOOLHUB_REDIS_URL names one.

Nothing depends on it: while it does not answer, every question to it has the answer None, and the process decides
alone. After a failure it is left in peace for a moment, so that a dead Redis delays no more than one call at a time.
A question without an answer may have had its effect all the same.

The values there are numbers, and answers encrypted with the hub's key; names of callers, tools and addresses are
keyed hashes. The package `redis` is imported at the first question.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

from tools_app.base import conf, hub, secrets
from tools_app.base.scripts import BUCKET, SCRIPTS

log = logging.getLogger("tools_app.redis")

# `?socket_timeout=` in the URL is stronger, for a Redis that is far away.
PATIENCE_SECONDS: Final = 0.1
PAUSE_SECONDS: Final = 1.0
CONNECTIONS: Final = 16

Argument: TypeAlias = str | int | float | bytes


@dataclass(frozen=True, slots=True)
class _Client:
    """The connections of one event loop."""

    redis: Any
    scripts: dict[str, Any]
    turns: asyncio.Semaphore


class Shared:
    """A part of the hub."""

    def __init__(self) -> None:
        self.url: str = conf.value("TOOLHUB_REDIS_URL")
        # Why Redis cannot be used now; empty if it can, as far as is known.
        self.trouble = ""
        self._paused_until = 0.0
        self._lock = threading.Lock()
        # By event loop that lasts; None until it asks.
        self._clients: dict[asyncio.AbstractEventLoop, _Client | None] = {}
        self._insisting: set[asyncio.Task[None]] = set()
        self._of_threads: Any = None
        self._prefix = f"toolhub:{secrets.name_outside('hub')[:8]}:" if self.url else ""

    def is_used(self) -> bool:
        """Whether there is a Redis, and no reason to expect that it does not answer."""
        return bool(self.url) and time.monotonic() >= self._paused_until

    def stay(self, loop: asyncio.AbstractEventLoop) -> None:
        """This event loop gets connections of its own, until `leave`. Others last for one request (WSGI), and ask in
        threads."""
        self._clients[loop] = None

    def is_staying(self) -> bool:
        return asyncio.get_running_loop() in self._clients

    async def run(self, script: str, keys: Sequence[str], *arguments: Argument) -> list[Any] | None:
        """What a script answers; None if Redis does not. For coroutines."""
        if not self.is_used():
            return None
        if not self.is_staying():
            return await asyncio.to_thread(self.run_now, script, keys, *arguments)
        try:
            client = self._client()
            async with client.turns:
                if not self.is_used():  # Another call has found out meanwhile.
                    return None
                answer: list[Any] = await client.scripts[script](keys=self._keys(keys), args=arguments)
        except Exception as error:  # Whatever it is, no call fails because of it.
            self._failed(error)
            return None
        self._answered()
        return answer

    def run_now(self, script: str, keys: Sequence[str], *arguments: Argument) -> list[Any] | None:
        """`run`, for threads."""
        if not self.is_used():
            return None
        try:
            import redis

            with self._lock:
                if self._of_threads is None:
                    self._of_threads = redis.Redis.from_url(self.url, **self._options(redis))
            answer: list[Any] = self._of_threads.eval(SCRIPTS[script], len(keys), *self._keys(keys), *arguments)
        except Exception as error:
            self._failed(error)
            return None
        self._answered()
        return answer

    def insist(self, seconds: float, script: str, keys: Sequence[str], *arguments: Argument) -> None:
        """Repeat a question that had no answer until there is one, for at most this many seconds, in a task of its own:
        for what must not stay in Redis. For event loops that last."""
        task = asyncio.get_running_loop().create_task(self._insist(seconds, script, keys, *arguments))
        self._insisting.add(task)
        task.add_done_callback(self._insisting.discard)

    async def _insist(self, seconds: float, *question: Any) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                answer = None
                while answer is None:
                    await asyncio.sleep(PAUSE_SECONDS)
                    answer = await self.run(*question)

    def check(self) -> str:
        """Ask now. Why Redis cannot be used; empty if it can. For threads."""
        self._paused_until = 0.0
        self.run_now(BUCKET, [name("rate", "check")], 1, 1, 0, 0)
        return self.trouble

    async def leave(self) -> None:
        """End the connections of this event loop, before it ends."""
        loop = asyncio.get_running_loop()
        insisting = [task for task in list(self._insisting) if task.get_loop() is loop]
        for task in insisting:
            task.cancel()
        await asyncio.gather(*insisting, return_exceptions=True)
        client = self._clients.pop(loop, None)
        if client is not None:
            await client.redis.aclose()

    async def aclose(self) -> None:
        await self.leave()

    def close(self) -> None:
        if self._of_threads is not None:
            self._of_threads.close()

    def _client(self) -> _Client:
        loop = asyncio.get_running_loop()
        client = self._clients[loop]
        if client is None:
            import redis.asyncio

            # Few connections: calls take turns, each for some hundred microseconds.
            made = redis.asyncio.Redis.from_url(self.url, **self._options(redis.asyncio))
            scripts = {script: made.register_script(text) for script, text in SCRIPTS.items()}
            client = self._clients[loop] = _Client(made, scripts, asyncio.Semaphore(CONNECTIONS))
        return client

    def _options(self, package: Any) -> dict[str, Any]:
        from redis.backoff import NoBackoff

        return {
            "socket_timeout": PATIENCE_SECONDS,
            "socket_connect_timeout": PATIENCE_SECONDS,
            # A retry would delay the call.
            "retry": package.retry.Retry(NoBackoff(), 0),
            "protocol": 2,
        }

    def _keys(self, keys: Sequence[str]) -> list[str]:
        return [self._prefix + key for key in keys]

    def _failed(self, error: Exception) -> None:
        self._paused_until = time.monotonic() + PAUSE_SECONDS
        with self._lock:
            is_new, self.trouble = not self.trouble, f"{type(error).__name__}: {error}"[:300]
        if is_new:
            log.warning("Redis at %s cannot be used, so each process counts for itself: %s", self.place, self.trouble)

    def _answered(self) -> None:
        if self.trouble:
            with self._lock:
                is_new, self.trouble = bool(self.trouble), ""
            if is_new:
                log.info("Redis at %s can be used again", self.place)

    @property
    def place(self) -> str:
        """Where it is, without name and password."""
        parts = urlsplit(self.url)
        return parts.path if parts.scheme == "unix" else f"{parts.hostname}:{parts.port or 6379}"


def name(kind: str, *parts: str) -> str:
    """The key of what these parts name, which it does not reveal."""
    return f"{kind}:{secrets.name_outside(chr(10).join((kind, *parts)))}"


def of_hub() -> Shared:
    return hub.part(Shared)
