"""Wakes who waits for changes that other processes make: by NOTIFY, where the database is PostgreSQL.

The triggers that increment the counters also notify, at the commit. A process in which something waits has one
connection that listens, on the event loop of the first that waits. It is a shortcut: what waits also polls the
database, since SQLite does not notify, and a pooler can drop notifications.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from django.db import connections

from tools_app.base import database, hub

log = logging.getLogger("tools_app.news")

CHANNEL: Final = "toolhub"
TOOLS: Final = "tools"
ACCESS: Final = "access"
APPROVALS: Final = "approvals"
TOPICS: Final = (TOOLS, ACCESS, APPROVALS)
RECONNECT_SECONDS: Final = 1.0
_KEEPALIVES: Final = {"keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3}


class News:
    """A part of the hub. Used on one event loop."""

    def __init__(self) -> None:
        self._told: Counter[str] = Counter()
        self._waiting: set[asyncio.Event] = set()
        self._listening: asyncio.Task[None] | None = None

    def told(self, topics: Sequence[str] = TOPICS) -> int:
        """How often there has been news of these. Read it before looking, and wait for more of it after."""
        return sum(self._told[topic] for topic in topics)

    def tell(self, *topics: str) -> None:
        self._told.update(topics)
        for event in self._waiting:
            event.set()

    async def wait(self, seconds: float, seen: int, topics: Sequence[str] = TOPICS) -> None:
        """Until there is news of these topics after `seen`, for at most this many seconds."""
        self._listen()
        event = asyncio.Event()
        self._waiting.add(event)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    while self.told(topics) == seen:
                        event.clear()
                        await event.wait()
        finally:
            self._waiting.discard(event)

    async def aclose(self) -> None:
        task, self._listening = self._listening, None
        if task is not None and task.get_loop() is asyncio.get_running_loop():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _listen(self) -> None:
        if not database.reads_now() and (self._listening is None or self._listening.done()):
            # It outlives the request that waits first, and has nothing of its context.
            self._listening = asyncio.create_task(self._heard(), context=contextvars.Context())

    async def _heard(self) -> None:
        """Listen until cancelled, again after each loss of the connection."""
        is_heard = True
        while True:
            try:
                import psycopg

                async with await psycopg.AsyncConnection.connect(**_parameters(), autocommit=True) as connection:
                    await connection.execute(f"LISTEN {CHANNEL}")
                    self.tell(*TOPICS)  # Whatever was missed until now.
                    is_heard = True
                    async for notification in connection.notifies():
                        self.tell(*{notification.payload}.intersection(TOPICS))
            except Exception as error:  # Another project may have another driver, or a database of another kind.
                if is_heard:
                    log.warning("the database does not notify this process, which looks for changes itself: %s", error)
                is_heard = False
            await asyncio.sleep(RECONNECT_SECONDS)


def _parameters() -> dict[str, Any]:
    """Those of Django's connections, without its own classes. A connection without an end is noticed by keepalives."""
    parameters = {**_KEEPALIVES, **connections.create_connection("default").get_connection_params()}
    return {name: value for name, value in parameters.items() if name not in ("cursor_factory", "context")}


def of_hub() -> News:
    return hub.part(News)
