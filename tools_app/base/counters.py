"""Token buckets for one kind of caller, shared by all processes of a hub where there is a Redis.

Where there is none, and while it does not answer, each process counts for itself: its limits hold, and add up. It
continues with what was left when Redis answered last.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from tools_app.base import hub, shared
from tools_app.base.scripts import BUCKET
from tools_app.sdk.policies import Bucket, Buckets, Rate


@dataclass(frozen=True, slots=True)
class Taken:
    """A bucket after an attempt to take a token: what is left, and the seconds until it is full; `wait`: until there is
    a token, 0 if one was taken."""

    left: int
    full_in: float
    wait: float

    @classmethod
    def of(cls, bucket: Bucket, wait: float) -> Self:
        return cls(bucket.left, bucket.full_in, wait)


class Counters:
    """`kind` keeps the buckets of one purpose apart from those of another; at most `most` in this process (LRU)."""

    def __init__(self, kind: str, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._kind = kind
        self._clock = clock
        self._local: Buckets[str] = Buckets(most)
        # The event loop keeps no reference to its tasks.
        self._owing: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """The number of buckets in this process."""
        return len(self._local)

    async def take(self, key: str, rate: Rate) -> Taken:
        """Take a token. For coroutines."""
        answer = await shared.of_hub().run(BUCKET, self._keys(key, rate), rate.most, rate.seconds, 1, 0)
        return self._taken(key, rate, answer)

    def take_now(self, key: str, rate: Rate) -> Taken:
        """`take`, for threads."""
        answer = shared.of_hub().run_now(BUCKET, self._keys(key, rate), rate.most, rate.seconds, 1, 0)
        return self._taken(key, rate, answer)

    async def owe(self, key: str, rate: Rate, tokens: float) -> None:
        """Take tokens in advance, as `Bucket.owe`. For coroutines."""
        if await shared.of_hub().run(BUCKET, self._keys(key, rate), rate.most, rate.seconds, 0, tokens) is None:
            self._local.of(key, rate).owe(tokens)

    def owe_now(self, key: str, rate: Rate, tokens: float) -> None:
        """`owe`, for threads."""
        if shared.of_hub().run_now(BUCKET, self._keys(key, rate), rate.most, rate.seconds, 0, tokens) is None:
            self._local.of(key, rate).owe(tokens)

    def owe_soon(self, key: str, rate: Rate, tokens: float) -> None:
        """`owe`, for what runs on an event loop and does not wait for Redis."""
        if not shared.of_hub().is_used():
            self._local.of(key, rate).owe(tokens)
            return
        if not shared.of_hub().is_staying():
            # A task would end with the event loop.
            hub.current().thread(partial(self.owe_now, key, rate, tokens), "toolhub-owing").start()
            return
        task = asyncio.get_running_loop().create_task(self.owe(key, rate, tokens))
        self._owing.add(task)
        task.add_done_callback(self._owing.discard)

    def _taken(self, key: str, rate: Rate, answer: list[Any] | None) -> Taken:
        bucket = self._local.of(key, rate)
        if answer is None:
            return Taken.of(bucket, bucket.take(self._clock()))
        tokens, wait = map(float, answer)
        bucket.set(tokens, self._clock())
        return Taken.of(bucket, wait)

    def _keys(self, key: str, rate: Rate) -> list[str]:
        """A changed rate begins with a full bucket."""
        if not shared.of_hub().url:
            return []
        return [shared.name("rate", self._kind, key, f"{rate.most}/{rate.seconds:g}")]
