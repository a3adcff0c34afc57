"""The narrow place in front of Django: what is too large or too slow is refused before anybody works on it.

Django's ASGI handler reads every body to its end, into a temporary file and however long it takes, before it looks at
the request. It also answers a query string that is not UTF-8 by itself, with an empty page. All of this is met here.
"""

from __future__ import annotations

import asyncio
import contextlib
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
# Of bodies that are taken in at the same time: each costs several times its size until it is answered.
MOST_AT_ONCE: Final = 32 * 1024 * 1024
# Of those, what one sender can have here: a caller, or all strangers of one address together.
MOST_OF_ONE: Final = MOST_AT_ONCE // 4

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
        self._room = _Room()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        if fault := self._fault(scope):
            await refuse(fault, receive, send)
            return
        body = _Body(scope, receive, self._limit, self._seconds, self._room)
        try:
            await self._pass_on(scope, body, receive, send)
        finally:
            self._room.release(body)

    async def _pass_on(self, scope: Scope, body: _Body, receive: Receive, send: Send) -> None:
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

    def __init__(self, scope: Scope, receive: Receive, limit: int, seconds: float, room: _Room) -> None:
        self.fault: ToolError | None = None
        self.held = 0
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
        """Whose share it counts against: the caller's, once the door knows who that is, and the address's before."""
        client = self._scope.get("client")
        return self._scope.get(SENDER) or f"address:{limits.neighbourhood(client[0]) if client else ''}"

    @property
    def is_owed(self) -> bool:
        """Whether the client still has to send some of it."""
        return not self.is_complete and (_declared(self._scope) > self.held or _is_chunked(self._scope))

    @property
    def awaits_consent(self) -> bool:
        """Whether asking for the body is what makes the client send it."""
        return any(name == b"expect" for name, _ in self._scope.get("headers", ()))

    async def receive(self) -> Message:
        if self.is_complete:
            return await self._receive()
        message = await self._arriving()
        if message is None:
            return {"type": "http.disconnect"}
        size = len(message.get("body", b""))
        if self.held + size > self._limit:
            self.fault = BodyTooLargeError.over(self._limit)
        elif size:
            self.fault = self._room.take(self, size)
        if self.fault is not None:
            self._room.release(self)
            return {"type": "http.disconnect"}
        self.is_complete = not message.get("more_body", False)
        return message

    def give_way(self) -> None:
        """Make room for another body: nobody waits for the rest of this one any more."""
        self.fault = OverloadedError.by_bodies()
        if self._patience is not None and not self._patience.expired():
            self._patience.reschedule(0)

    async def _arriving(self) -> Message | None:
        """The next piece; None where there is a reason to wait for none."""
        if self.fault is not None:
            return None
        try:
            async with asyncio.timeout_at(self._deadline) as self._patience:
                return await self._receive()
        except TimeoutError:
            # There may be a reason already: it had to give way.
            self.fault = self.fault or BodyTimeoutError.after(self._seconds)
            return None
        finally:
            self._patience = None


class _Room:
    """How much of all bodies is here, and whose that is.

    What counts is what has arrived. Announcing costs a client nothing, so it does not earn one anything either.
    """

    def __init__(self) -> None:
        self._bodies: dict[_Body, str] = {}
        self._of: Counter[str] = Counter()

    def take(self, body: _Body, size: int) -> ToolError | None:
        """Hold more of a body. Where it is full, those that have been arriving for longest give way.

        Bodies that are complete stay: somebody works on them. Returns why there is no room.
        """
        sender = self._bodies.setdefault(body, body.sender)
        while self._of[sender] + size > MOST_OF_ONE:
            if not self._make_way(body, sender):
                return RateLimitError.by_bodies(MOST_OF_ONE)
        while self._of.total() + size > MOST_AT_ONCE:
            if not self._make_way(body, None):
                return OverloadedError.by_bodies()
        self._of[sender] += size
        body.held += size
        return None

    def release(self, body: _Body) -> None:
        """What was held of a body is gone."""
        sender = self._bodies.pop(body, None)
        if sender is not None:
            self._of[sender] -= body.held
            if not self._of[sender]:
                del self._of[sender]
        body.held = 0

    def _make_way(self, body: _Body, sender: str | None) -> bool:
        for other, its_sender in self._bodies.items():
            if other is not body and not other.is_complete and sender in (None, its_sender):
                other.give_way()
                self.release(other)
                return True
        return False


class _Answer:
    """An answer on its way out. One that leaves before the body has arrived ends the connection with it."""

    def __init__(self, body: _Body, receive: Receive, send: Send) -> None:
        self.begun = False
        self._body = body
        self._receive = receive
        self._send = send
        self._parts = False

    async def send(self, message: Message) -> None:
        if not self.begun:
            self.begun = True
            await self._take_what_is_here()
            self._parts = self._body.is_owed
            if self._parts:
                message = {**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]}
        if not self._parts or message["type"] != "http.response.body" or message.get("more_body", False):
            await self._send(message)
            return
        await self._send({**message, "more_body": True})
        await _linger(self._receive)
        await self._send({"type": "http.response.body"})

    async def _take_what_is_here(self) -> None:
        """A body that came along with its head, and that nobody has asked for, is no reason to hang up."""
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


def _declared(scope: Scope) -> int:
    """The length that the client announces; servers let only digits through."""
    lengths = [value for name, value in scope.get("headers", ()) if name == b"content-length"]
    return max((int(value[:20]) for value in lengths if value.isdigit()), default=0)


async def refuse(error: ToolError, receive: Receive, send: Send) -> None:
    """Answer, and only then hang up: a client that is still sending would lose the answer with the connection."""
    response = errors.envelope(error)
    headers = [(name.lower().encode(), value.encode()) for name, value in response.items()]
    headers += [(b"content-length", str(len(response.content)).encode()), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": response.content, "more_body": True})
    if not isinstance(error, BodyTimeoutError):  # Whoever is slow has been waited for enough.
        await _linger(receive)
    await send({"type": "http.response.body"})


async def _linger(receive: Receive) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LINGER_SECONDS):
            await _drain(receive)


async def _drain(receive: Receive) -> None:
    left = LINGER_BYTES
    while left > 0:
        message = await receive()
        left -= len(message.get("body", b""))
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            return
