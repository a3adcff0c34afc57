"""The event stream: tells the pages of a browser that something has changed, not what.

An ASGI application beside Django's: a stream lives for minutes, and would occupy one of the threads that render pages.
Whether it is permitted, the view says that a browser without streams asks again and again, with all of its middleware.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final

from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import DatabaseError, InterfaceError
from django.urls import reverse
from django.utils import timezone

from tools_app.admin.live import feed
from tools_app.admin.live.pages import HEADER
from tools_app.base import database, news
from tools_app.base.asgi import Again, Application, Message, Receive, Scope, Send, whole_body

log = logging.getLogger("tools_app.admin.live")

PATH: Final = "/admin/tools_app/process/live/events"
SECONDS: Final = 1.0
# At least between two readings, however much there is to tell.
FEWEST_SECONDS: Final = 0.25
# Proxies end connections that are silent for a minute.
HEARTBEAT_SECONDS: Final = 20.0
# Reads of the sessions, in between of which one that was ended may still learn that something has changed.
SESSION_SECONDS: Final = 5.0
# Then the browser connects again, and is asked for its permissions.
LIFETIME_SECONDS: Final = 600.0
MOST_STREAMS: Final = 500
# A browser has one for all of its pages; a second one begins while the first ends.
MOST_OF_SESSION: Final = 4
_HEADERS: Final = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
_SESSIONS_IN_DATABASE: Final = "django.contrib.sessions.backends.db"


@dataclass(eq=False)
class Stream:
    session: str = field(repr=False)
    topics: list[str]
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    is_over: bool = False

    def end(self) -> None:
        self.is_over = True
        self.wake.set()


class Streams:
    """The streams of this process, and the task that wakes them."""

    def __init__(self, pages: Application) -> None:
        self._pages = pages
        self._open: set[Stream] = set()
        self._watch: asyncio.Task[None] | None = None
        self._is_leaving = False
        # As they were read last.
        self._changed: dict[str, int] = {}

    def leave(self) -> None:
        """End all streams, which a server would wait for at shutdown. For signal handlers."""
        self._is_leaving = True
        self._end_all()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if await whole_body(receive) is None:
            return
        if self._is_leaving or len(self._open) >= MOST_STREAMS:
            await _refuse(send, 503)
            return
        allowed = await self._allowed(scope)
        if allowed.status != 200:
            await allowed.pass_on(send)
            return
        session = _session_of(scope)
        of_session = [one for one in self._open if one.session == session]
        if len(of_session) >= MOST_OF_SESSION:
            await _refuse(send, 429)
            return
        changed: dict[str, int] = json.loads(allowed.body)
        stream = Stream(session, list(changed))
        self._open.add(stream)
        if self._watch is None or self._watch.done():
            self._watch = asyncio.create_task(self._watch_changes())
        gone = asyncio.create_task(_disconnected(receive, stream))
        try:
            await self._serve(stream, changed, send)
        finally:
            self._open.discard(stream)
            gone.cancel()

    async def _allowed(self, scope: Scope) -> _Answer:
        """What the view answers to this browser."""
        path = reverse("admin:tools_app_process_live")
        answer = _Answer()
        # Its answer is read here: not compressed.
        headers = [(name, value) for name, value in scope["headers"] if name != b"accept-encoding"]
        headers.append((HEADER.lower().encode(), b"1"))
        request = {**scope, "path": path, "raw_path": path.encode(), "query_string": b"", "headers": headers}
        await self._pages(request, Again(b"", _never), answer.take)
        return answer

    async def _serve(self, stream: Stream, changed: dict[str, int], send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        # Not all at once after a change of permissions, or a restart.
        await _write(send, f"retry: {random.randint(1_000, 4_000)}\n")  # noqa: S311 – not a secret
        sent: dict[str, int] = {}
        until = asyncio.get_running_loop().time() + LIFETIME_SECONDS
        while not stream.is_over and asyncio.get_running_loop().time() < until:
            unsent = {topic: moment for topic, moment in changed.items() if sent.get(topic) != moment}
            await _write(send, f"data: {json.dumps(unsent)}\n\n" if unsent else ": \n\n")
            sent.update(unsent)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    await stream.wake.wait()
            stream.wake.clear()
            changed = {topic: self._changed.get(topic, moment) for topic, moment in changed.items()}
        with contextlib.suppress(OSError):
            # Otherwise the browser would connect again by itself, and complain of the page to sign in.
            await _write(send, "event: end\ndata:\n\n" if stream.is_over and not self._is_leaving else "")
            await send({"type": "http.response.body"})

    async def _watch_changes(self) -> None:
        """Read what has changed while there are streams, and end those whose session or permissions did."""
        self._changed, permissions, sessions_read_at = {}, feed.of_hub().permissions, 0.0
        loop = asyncio.get_running_loop()
        seen = news.of_hub().told()
        while self._open:
            await asyncio.sleep(FEWEST_SECONDS)
            await news.of_hub().wait(SECONDS - FEWEST_SECONDS, seen)
            if (told := news.of_hub().told()) != seen:
                feed.of_hub().forget()
                seen = told
            try:
                changed = await database.run(feed.of_hub().changed, list(feed.TOPICS))
                if loop.time() - sessions_read_at >= SESSION_SECONDS:
                    await self._end_signed_out()
                    sessions_read_at = loop.time()
            except (DatabaseError, InterfaceError):
                continue  # The streams stay: when the database is back, they have something to tell.
            if feed.of_hub().permissions != permissions:
                permissions = feed.of_hub().permissions
                self._end_all()
            topics = {topic for topic, moment in changed.items() if self._changed.get(topic) != moment}
            self._changed = changed
            for stream in self._open:
                if not topics.isdisjoint(stream.topics):
                    stream.wake.set()

    async def _end_signed_out(self) -> None:
        if settings.SESSION_ENGINE != _SESSIONS_IN_DATABASE:
            return  # They end with their lifetime.
        valid = await database.run(_valid_sessions, {stream.session for stream in self._open})
        for stream in self._open:
            if stream.session not in valid:
                stream.end()

    def _end_all(self) -> None:
        for stream in list(self._open):
            stream.end()


class _Answer:
    """The answer of a view, not sent yet."""

    def __init__(self) -> None:
        self._messages: list[Message] = []

    async def take(self, message: Message) -> None:
        self._messages.append(message)

    @property
    def status(self) -> int:
        return int(self._messages[0]["status"]) if self._messages else 503

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self._messages)

    async def pass_on(self, send: Send) -> None:
        for message in self._messages:
            await send(message)


def _session_of(scope: Scope) -> str:
    cookies: SimpleCookie = SimpleCookie()
    for name, value in scope["headers"]:
        if name == b"cookie":
            with contextlib.suppress(CookieError):
                cookies.load(value.decode("latin-1"))
    morsel: Any = cookies.get(settings.SESSION_COOKIE_NAME)
    return morsel.value if morsel is not None else ""


def _valid_sessions(keys: set[str]) -> set[str]:
    rows = Session.objects.filter(session_key__in=keys, expire_date__gt=timezone.now())
    return set(rows.values_list("session_key", flat=True))


async def _never() -> Message:
    await asyncio.Event().wait()
    raise AssertionError("nothing sets it")


async def _disconnected(receive: Receive, stream: Stream) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    stream.end()


async def _write(send: Send, text: str) -> None:
    await send({"type": "http.response.body", "body": text.encode(), "more_body": True})


async def _refuse(send: Send, status: int) -> None:
    """The page asks for changes itself then, less often."""
    await send({"type": "http.response.start", "status": status, "headers": [(b"retry-after", b"60")]})
    await send({"type": "http.response.body"})
