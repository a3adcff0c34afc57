"""The narrow place in front of Django: what is too large or too slow is refused before anybody works on it.

Django's ASGI handler reads every body to its end, into a temporary file and however long it takes, before it looks at
the request. It also answers a query string that is not UTF-8 by itself, with an empty page. All of this is met here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final
from urllib.parse import unquote_to_bytes

from tools_app.api import errors
from tools_app.api.errors import AddressTooLongError, BodyTimeoutError, BodyTooLargeError, HeadersTooLargeError
from tools_app.asgi import Application, Message, Receive, Scope, Send
from tools_app.errors import OverloadedError, ToolError, ValidationError

MOST_ADDRESS_BYTES: Final = 8 * 1024
MOST_HEADERS: Final = 100
MOST_HEADER_BYTES: Final = 32 * 1024
# Of bodies that are taken in at the same time: each costs several times its size until it is answered.
MOST_AT_ONCE: Final = 32 * 1024 * 1024

LINGER_SECONDS: Final = 2.0
LINGER_BYTES: Final = 16 * 1024 * 1024


class Intake:
    """An ASGI application around another one, which never sees more than `limit` bytes of a body.

    A body that has not arrived `seconds` after the request began is not waited for.
    """

    def __init__(self, application: Application, limit: int, seconds: float) -> None:
        self._application = application
        self._limit = limit
        self._seconds = seconds
        self._taken_in = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        if fault := self._fault(scope):
            await _refuse(fault, receive, send)
            return
        size = _declared(scope) or (self._limit if _is_chunked(scope) else 0)
        if size and self._taken_in + size > MOST_AT_ONCE:
            await _refuse(OverloadedError.by_bodies(), receive, send)
            return
        self._taken_in += size
        body = _Body(receive, self._limit, self._seconds, size, self._give_back)
        try:
            await self._pass_on(scope, body, receive, send)
        finally:
            self._give_back(body.held)

    def _give_back(self, size: int) -> None:
        self._taken_in -= size

    async def _pass_on(self, scope: Scope, body: _Body, receive: Receive, send: Send) -> None:
        answering = False

        async def noticed(message: Message) -> None:
            nonlocal answering
            answering = True
            await send(message)

        try:
            await self._application(scope, body.receive, noticed)
        except MemoryError:
            if answering:
                raise
            body.fault = OverloadedError.by_bodies()
        if body.fault is not None and not answering:
            await _refuse(body.fault, receive, send)

    def _fault(self, scope: Scope) -> ToolError | None:
        """What is wrong with a request as its first lines show."""
        query = scope.get("query_string", b"")
        if len(scope.get("raw_path") or b"") + len(query) > MOST_ADDRESS_BYTES:
            return AddressTooLongError()
        headers = scope.get("headers", ())
        if len(headers) > MOST_HEADERS or sum(len(name) + len(value) for name, value in headers) > MOST_HEADER_BYTES:
            return HeadersTooLargeError()
        if not _is_utf8(query):
            return ValidationError("The query string is not UTF-8")
        if _declared(scope) > self._limit:
            return BodyTooLargeError.over(self._limit)
        return None


class _Body:
    """A body on its way in. When it is too much or too late, it looks to the application as if the client had gone."""

    def __init__(
        self, receive: Receive, limit: int, seconds: float, held: int, give_back: Callable[[int], None]
    ) -> None:
        self.fault: ToolError | None = None
        self.held = held
        self._give_back = give_back
        self._receive = receive
        self._limit = limit
        self._seconds = seconds
        self._deadline = asyncio.get_running_loop().time() + seconds
        self._received = 0
        self._complete = False

    async def receive(self) -> Message:
        if self._complete:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            self.fault = BodyTimeoutError.after(self._seconds)
            return {"type": "http.disconnect"}
        self._received += len(message.get("body", b""))
        if self._received > self._limit:
            self.fault = BodyTooLargeError.over(self._limit)
            return {"type": "http.disconnect"}
        self._complete = not message.get("more_body", False)
        if self._complete and self.held > self._received:
            # It is known now how large it is; a request may stay open for long after it has said what it wants.
            self._give_back(self.held - self._received)
            self.held = self._received
        return message


def _is_utf8(query: bytes) -> bool:
    try:
        unquote_to_bytes(query).decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_chunked(scope: Scope) -> bool:
    return any(name == b"transfer-encoding" for name, _ in scope.get("headers", ()))


def _declared(scope: Scope) -> int:
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
    if not isinstance(error, BodyTimeoutError):  # Whoever is slow has been waited for enough.
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
