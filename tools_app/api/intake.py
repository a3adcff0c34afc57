"""Size and time limits of requests, enforced in front of Django.

Django's ASGI handler reads every body to its end, into a temporary file and without a timeout, before it looks at the
request. It also answers a query string that is not UTF-8 with an empty page of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import Counter
from typing import Final
from urllib.parse import unquote_to_bytes

from tools_app.access import limits
from tools_app.api import errors
from tools_app.api.errors import AddressTooLongError, BodyTimeoutError, BodyTooLargeError, HeadersTooLargeError
from tools_app.base.asgi import SENDER, Application, Message, Receive, Scope, Send
from tools_app.sdk.errors import RateLimitError, ToolError, ValidationError
from tools_app.sdk.hub_errors import OverloadedError

MOST_ADDRESS_BYTES: Final = 8 * 1024
MOST_HEADERS: Final = 100
MOST_HEADER_BYTES: Final = 32 * 1024
# Total size of all bodies in memory: each costs several times its size until it is answered.
MOST_AT_ONCE: Final = 32 * 1024 * 1024
# The share of one sender: a caller, or all unauthenticated clients of one address together.
MOST_OF_ONE: Final = MOST_AT_ONCE // 4

LINGER_SECONDS: Final = 2.0
LINGER_BYTES: Final = 16 * 1024 * 1024


# Of requests that contain an OpenAPI document: what one sender may have in memory.
MOST_UPLOAD: Final = MOST_OF_ONE


class Intake:
    """ASGI middleware: refuses bodies of more than `limit` bytes, and those that take longer than `seconds`.

    `uploads`: the paths of requests that may have `MOST_UPLOAD` bytes.
    """

    def __init__(
        self, application: Application, limit: int, seconds: float, uploads: re.Pattern[str] | None = None
    ) -> None:
        self._application = application
        self._limit = limit
        self._uploads = uploads
        self._seconds = seconds
        self._room = _Room()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        if fault := self._fault(scope):
            await refuse(fault, receive, send)
            return
        body = _RequestBody(scope, receive, self._limit_of(scope), self._seconds, self._room)
        try:
            await self._handle(scope, body, receive, send)
        finally:
            self._room.release(body)

    async def _handle(self, scope: Scope, body: _RequestBody, receive: Receive, send: Send) -> None:
        answer = _Answer(body, receive, send)
        try:
            await self._application(scope, body.receive, answer.send)
        except MemoryError:
            if answer.begun:
                raise
            body.fault = OverloadedError.by_bodies()
        if body.fault is not None and not answer.begun:
            await refuse(body.fault, receive, send)

    def _fault(self, scope: Scope) -> ToolError | None:
        """The error of a request whose request line or headers are invalid."""
        query = scope.get("query_string", b"")
        if len(scope.get("raw_path") or b"") + len(query) > MOST_ADDRESS_BYTES:
            return AddressTooLongError()
        headers = scope.get("headers", ())
        if len(headers) > MOST_HEADERS or sum(len(name) + len(value) for name, value in headers) > MOST_HEADER_BYTES:
            return HeadersTooLargeError()
        if not _is_utf8(query):
            return ValidationError("The query string is not UTF-8")
        if _content_length(scope) > (limit := self._limit_of(scope)):
            return BodyTooLargeError.over(limit)
        return None

    def _limit_of(self, scope: Scope) -> int:
        is_upload = self._uploads is not None and scope["method"] == "POST" and self._uploads.fullmatch(scope["path"])
        return MOST_UPLOAD if is_upload else self._limit


class _RequestBody:
    """A request body. When it exceeds a limit, the application sees a disconnect."""

    def __init__(self, scope: Scope, receive: Receive, limit: int, seconds: float, room: _Room) -> None:
        self.fault: ToolError | None = None
        self.received_bytes = 0
        self.is_complete = False
        self._scope = scope
        self._receive = receive
        self._limit = limit
        self._seconds = seconds
        self._room = room
        self._deadline = asyncio.get_running_loop().time() + seconds
        self._patience: asyncio.Timeout | None = None

    @property
    def sender(self) -> str:
        """Whose share it counts against: the caller's, or the IP address's before authentication."""
        client = self._scope.get("client")
        return self._scope.get(SENDER) or f"address:{limits.neighbourhood(client[0]) if client else ''}"

    @property
    def is_owed(self) -> bool:
        """Whether the client has not sent all of it yet."""
        return not self.is_complete and (_content_length(self._scope) > self.received_bytes or _is_chunked(self._scope))

    @property
    def awaits_consent(self) -> bool:
        """Whether the client sends `Expect: 100-continue`: reading the body makes it send it."""
        return any(name == b"expect" for name, _ in self._scope.get("headers", ()))

    async def receive(self) -> Message:
        if self.is_complete:
            return await self._receive()
        message = await self._next_chunk()
        if message is None:
            return {"type": "http.disconnect"}
        size = len(message.get("body", b""))
        if self.received_bytes + size > self._limit:
            self.fault = BodyTooLargeError.over(self._limit)
        elif size:
            self.fault = self._room.take(self, size)
        if self.fault is not None:
            self._room.release(self)
            return {"type": "http.disconnect"}
        self.is_complete = not message.get("more_body", False)
        return message

    def give_way(self) -> None:
        """Fail this body to make room for another one."""
        self.fault = OverloadedError.by_bodies()
        if self._patience is not None and not self._patience.expired():
            self._patience.reschedule(0)

    async def _next_chunk(self) -> Message | None:
        """The next chunk; None if the body has failed."""
        if self.fault is not None:
            return None
        try:
            async with asyncio.timeout_at(self._deadline) as self._patience:
                return await self._receive()
        except TimeoutError:
            # `give_way` may have set the fault already.
            self.fault = self.fault or BodyTimeoutError.after(self._seconds)
            return None
        finally:
            self._patience = None


class _Room:
    """Memory in use by request bodies, by sender.

    Only received bytes count: a Content-Length costs a client nothing, so it reserves nothing.
    """

    def __init__(self) -> None:
        self._bodies: dict[_RequestBody, str] = {}
        self._of: Counter[str] = Counter()

    def take(self, body: _RequestBody, size: int) -> ToolError | None:
        """Reserve memory for a chunk, evicting the oldest incomplete bodies if needed.

        Complete bodies stay: their requests are being processed. Returns the error if there is no room.
        """
        sender = self._bodies.setdefault(body, body.sender)
        while self._of[sender] + size > MOST_OF_ONE:
            if not self._make_way(body, sender):
                return RateLimitError.by_bodies(MOST_OF_ONE)
        while self._of.total() + size > MOST_AT_ONCE:
            if not self._make_way(body, None):
                return OverloadedError.by_bodies()
        self._of[sender] += size
        body.received_bytes += size
        return None

    def release(self, body: _RequestBody) -> None:
        """Free the memory of a body."""
        sender = self._bodies.pop(body, None)
        if sender is not None:
            self._of[sender] -= body.received_bytes
            if not self._of[sender]:
                del self._of[sender]
        body.received_bytes = 0

    def _make_way(self, body: _RequestBody, sender: str | None) -> bool:
        for other, other_sender in self._bodies.items():
            if other is not body and not other.is_complete and sender in (None, other_sender):
                other.give_way()
                self.release(other)
                return True
        return False


class _Answer:
    """A response. If it starts before the body has arrived, the connection is closed after it."""

    def __init__(self, body: _RequestBody, receive: Receive, send: Send) -> None:
        self.begun = False
        self._body = body
        self._receive = receive
        self._send = send
        self._closes = False

    async def send(self, message: Message) -> None:
        if not self.begun:
            self.begun = True
            await self._take_received()
            self._closes = self._body.is_owed
            if self._closes:
                message = {**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]}
        if not self._closes or message["type"] != "http.response.body" or message.get("more_body", False):
            await self._send(message)
            return
        await self._send({**message, "more_body": True})
        await _linger(self._receive)
        await self._send({"type": "http.response.body"})

    async def _take_received(self) -> None:
        """Read what has already been received: a small unread body must not close the connection."""
        if self._body.fault is not None or self._body.awaits_consent:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0):
                while self._body.is_owed:
                    if (await self._body.receive())["type"] == "http.disconnect":
                        return


def _is_utf8(query: bytes) -> bool:
    try:
        unquote_to_bytes(query).decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_chunked(scope: Scope) -> bool:
    return any(name == b"transfer-encoding" for name, _ in scope.get("headers", ()))


def _content_length(scope: Scope) -> int:
    """Content-Length; the server has checked that it is digits."""
    lengths = [value for name, value in scope.get("headers", ()) if name == b"content-length"]
    return max((int(value[:20]) for value in lengths if value.isdigit()), default=0)


async def refuse(error: ToolError, receive: Receive, send: Send) -> None:
    """Respond, then linger before closing: a client that is still sending would lose the response otherwise."""
    status, headers, body = errors.last_response(error)
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": True})
    if not isinstance(error, BodyTimeoutError):  # A slow client has already used up its time.
        await _linger(receive)
    await send({"type": "http.response.body"})


async def _linger(receive: Receive) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LINGER_SECONDS):
            await _drain(receive)


async def _drain(receive: Receive) -> None:
    remaining = LINGER_BYTES
    while remaining > 0:
        message = await receive()
        remaining -= len(message.get("body", b""))
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            return
