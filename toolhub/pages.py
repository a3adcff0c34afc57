"""Render pages in a bounded number of threads that do not wait for slow readers.

Django renders each page in its own thread, and releases it when the last byte has been sent. A client that does not
read would hold the thread indefinitely.
"""

from __future__ import annotations

import asyncio
from typing import Final

from django.conf import settings

from tools_app.access import limits
from tools_app.api.intake import refuse
from tools_app.base.asgi import Again, Application, Message, Receive, Scope, Send, whole_body
from tools_app.sdk.errors import RateLimitError

MOST_AT_ONCE: Final = 64
# Buffer limit per answer; above it the thread waits for the reader, as exports are streamed.
MOST_UNSENT: Final = 1024 * 1024


class Pages:
    """ASGI middleware: reads the whole body first, and buffers the answer."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._loop: asyncio.AbstractEventLoop | None = None
        self._places = asyncio.Semaphore(MOST_AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await _count(scope)
        except RateLimitError as error:
            await refuse(error, receive, send)
            return
        body = await whole_body(receive)
        if body is None:
            return
        unsent = _Unsent(send)
        again = Again(body, receive)
        try:
            async with self._place():
                await self._application(scope, again, unsent.send)
        finally:
            again.end()
        await unsent.leave()

    def _place(self) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # A server has one loop; tests start several.
            self._loop, self._places = loop, asyncio.Semaphore(MOST_AT_ONCE)
        return self._places


async def _count(scope: Scope) -> None:
    """Raises: RateLimitError."""
    cookie = f"{settings.SESSION_COOKIE_NAME}=".encode()
    if not any(name == b"cookie" and cookie in value for name, value in scope["headers"]):
        client = scope.get("client")
        if (status := await limits.count_visit(client[0] if client else "")) is not None:
            status.check()


class _Unsent:
    def __init__(self, send: Send) -> None:
        self._send = send
        self._messages: list[Message] = []
        self._size = 0

    async def send(self, message: Message) -> None:
        self._messages.append(message)
        self._size += len(message.get("body", b""))
        if self._size > MOST_UNSENT:
            await self.leave()

    async def leave(self) -> None:
        messages, self._messages, self._size = self._messages, [], 0
        for message in messages:
            await self._send(message)
