"""The narrow place in front of Django: a body is refused before it is on disk, not after.

Django's ASGI handler reads every body to its end, into a temporary file, before it looks at the request. It also
answers a query string that is not UTF-8 by itself, with an empty page. Both are met here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from tools_app.api import errors
from tools_app.api.errors import BodyTooLargeError
from tools_app.errors import ToolError, ValidationError

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

LINGER_SECONDS: Final = 2.0
LINGER_BYTES: Final = 16 * 1024 * 1024


class Intake:
    """An ASGI application around another one, which never sees more than `limit` bytes of a body."""

    def __init__(self, application: Application, limit: int) -> None:
        self._application = application
        self._limit = limit

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        if not _is_utf8(scope.get("query_string", b"")):
            await _refuse(ValidationError("The query string is not UTF-8"), receive, send)
            return
        if _declared(scope) > self._limit:
            await _refuse(BodyTooLargeError.over(self._limit), receive, send)
            return
        received, answering = 0, False

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            # To the application it looks as if the client had gone: it stops without an answer.
            return message if received <= self._limit else {"type": "http.disconnect"}

        async def noticed(message: Message) -> None:
            nonlocal answering
            answering = True
            await send(message)

        await self._application(scope, counted, noticed)
        if received > self._limit and not answering:
            await _refuse(BodyTooLargeError.over(self._limit), receive, send)


def _is_utf8(query: bytes) -> bool:
    try:
        query.decode()
    except UnicodeDecodeError:
        return False
    return True


def _declared(scope: MutableMapping[str, Any]) -> int:
    """The length that the client announces; servers let only digits through."""
    lengths = [value for name, value in scope.get("headers", ()) if name == b"content-length"]
    return max((int(value[:20]) for value in lengths if value.isdigit()), default=0)


async def _refuse(error: ToolError, receive: Receive, send: Send) -> None:
    """Answer, and only then hang up: a client that is still sending would lose the answer with the connection."""
    response = errors.envelope(error)
    headers = [(name.lower().encode(), value.encode()) for name, value in response.items()]
    headers += [(b"content-length", str(len(response.content)).encode()), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": response.content, "more_body": True})
    try:
        async with asyncio.timeout(LINGER_SECONDS):
            await _drain(receive)
    except TimeoutError:
        pass
    await send({"type": "http.response.body"})


async def _drain(receive: Receive) -> None:
    left = LINGER_BYTES
    while left > 0:
        message = await receive()
        left -= len(message.get("body", b""))
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            return
