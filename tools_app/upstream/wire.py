"""What the transports have in common: the fate of each request, lines, a limit for messages, and a pair of streams.

A transport connects a `JSONRPCDispatcher` of the mcp SDK to bytes. The SDK has transports of its own; these have
limits, and one broken request fails nothing but itself (docs/decisions/0045).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Self

import anyio
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)

from tools_app.http.secrecy import Secrets
from tools_app.sdk import heavy
from tools_app.sdk.accounts import Credentials, is_sendable
from tools_app.sdk.errors import shortened

MOST_BYTES: Final = 16 * 1024 * 1024  # of one line, event or body
MOST_PER_SECOND: Final = 2_000
# Log messages are parsed up to this rate, and dropped above it.
MOST_LOGS_PER_SECOND: Final = 50
# Messages that wait for the pipe; the next request waits itself.
MOST_WAITING: Final = 64
# From this number on, requests are those of callers; the SDK numbers its own from 1.
FIRST_KEY: Final = 1_000
_LARGE: Final = 256 * 1024
_LOG: Final = b'"notifications/message"'
_BEGINNING: Final = 200


class Broken(Exception):
    """There is no answer. `sent`: whether the upstream got the request, as far as is known: `no` or `maybe`."""

    def __init__(
        self,
        reason: str,
        *,
        sent: str = "no",
        status: int | None = None,
        retry_after: float | None = None,
        is_lost: bool = False,
        is_unreadable: bool = False,
        is_starting: bool = False,
        needs_sign_in: bool = False,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.sent = sent
        self.status = status
        self.retry_after = retry_after
        # Whether the upstream does not know the session any more: it has not run the call.
        self.is_lost = is_lost
        # Whether there is an answer, but none that can be read.
        self.is_unreadable = is_unreadable
        # Whether the caller's time was over before the upstream could be asked at all.
        self.is_starting = is_starting
        # Whether a person has to sign in before the upstream can be asked. Nothing was done.
        self.needs_sign_in = needs_sign_in


class TooLong(Exception):
    """A line, an event or a body is longer than allowed."""


@dataclass(slots=True)
class Fate:
    """What has become of one request."""

    sent: str = "no"
    # Why there is no answer to it.
    failure: str = ""
    status: int | None = None
    retry_after: float | None = None
    is_lost: bool = False
    # Whether there is an answer, but none that can be read.
    is_unreadable: bool = False
    needs_sign_in: bool = False

    def broken(self) -> Broken:
        return Broken(
            self.failure,
            sent=self.sent,
            status=self.status,
            retry_after=self.retry_after,
            is_lost=self.is_lost,
            is_unreadable=self.is_unreadable,
            needs_sign_in=self.needs_sign_in,
        )


class Transport:
    """A pair of streams for a dispatcher, and the tasks behind them. Entered and left by one task."""

    def __init__(self, mask: Callable[[bytes], bytes] | None = None) -> None:
        """`mask` removes the secrets of the connection from what the upstream sends."""
        self.fates: dict[RequestId, Fate] = {}
        self._mask = mask
        # The latest request of the SDK itself: those that open a session.
        self.opening = Fate()
        # Set when the upstream does not know the session any more.
        self.lost = asyncio.Event()
        # Set when the upstream may have changed its tools without our hearing of it.
        self.missed = asyncio.Event()
        # Why the connection has ended, if the transport knows.
        self.end = ""
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._to_session, self.reads = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        self.writes, self._from_session = anyio.create_memory_object_stream[SessionMessage](MOST_WAITING)
        self.spawn(self._work())
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        for stream in (self._to_session, self.reads, self.writes, self._from_session):
            stream.close()

    async def _work(self) -> None:
        raise NotImplementedError

    def spawn(self, work: Coroutine[Any, Any, None], done: Callable[[], object] | None = None) -> Callable[[], object]:
        """Run something until the end of the connection. Returns what cancels it."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        if done is not None:
            task.add_done_callback(lambda _: done())
        return task.cancel

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.end = self.end or f"{type(error).__name__}: {shortened(str(error))}"
            self._to_session.close()

    def fate_of(self, request: JSONRPCRequest) -> Fate | None:
        """None: its caller does not wait any more, so it must not be sent."""
        if isinstance(request.id, int) and request.id < FIRST_KEY:
            self.opening = Fate()
            return self.opening
        return self.fates.get(request.id)

    async def receive(self, data: bytes, answers: RequestId | None = None) -> bool:
        """Hand a message to the session. True if it is the answer to the request `answers`.

        Raises:
            ValueError: it is not a message.
        """
        message = await heavy.aside(self._read, data) if len(data) > _LARGE else self._read(data)
        is_answer = isinstance(message, JSONRPCResponse | JSONRPCError)
        if isinstance(message, JSONRPCResponse | JSONRPCError) and answers is not None:
            # Errors may have none, if the server did not come to read it.
            message.id = answers
        metadata = None if answers is None else ServerMessageMetadata(related_request_id=answers)
        await self._hand_over(SessionMessage(message, metadata))
        return is_answer

    def _read(self, data: bytes) -> JSONRPCMessage:
        if self._mask is not None:
            data = self._mask(data)
        message: JSONRPCMessage = jsonrpc_message_adapter.validate_json(data, by_name=False)
        return message

    async def fail(self, request: RequestId, fate: Fate, reason: str) -> None:
        """Answer a request that gets no answer."""
        fate.failure = reason
        error = ErrorData(code=INTERNAL_ERROR, message=reason)
        await self._hand_over(SessionMessage(JSONRPCError(jsonrpc="2.0", id=request, error=error)))

    async def _hand_over(self, message: SessionMessage) -> None:
        # Unless the session has ended.
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._to_session.send(message)


class Pace:
    """Limits messages that are no answers: above the limit their sender waits, and log messages are dropped."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._seen = self._logs = 0

    async def admits(self, data: bytes) -> bool:
        beginning = data[:_BEGINNING]
        if b'"method"' not in beginning:
            return True
        if time.monotonic() - self._began > 1:
            self._began, self._seen, self._logs = time.monotonic(), 0, 0
        if _LOG in beginning:
            self._logs += 1
            # Even dropping takes time: after many, others get their turn.
            if self._logs % MOST_PER_SECOND == 0:
                await asyncio.sleep(0.01)
            return self._logs <= MOST_LOGS_PER_SECOND
        self._seen += 1
        if self._seen > MOST_PER_SECOND:
            await asyncio.sleep(max(0.0, 1 - (time.monotonic() - self._began)))
        return True


async def lines_of(chunks: AsyncIterator[bytes], most: int = MOST_BYTES) -> AsyncIterator[bytes]:
    """The lines in a stream of bytes, in linear time. An unfinished last line is not one.

    Raises:
        TooLong: a line has more bytes than allowed.
    """
    parts: list[bytes] = []
    size = 0
    async for chunk in chunks:
        *whole, rest = chunk.split(b"\n")
        for piece in whole:
            yield b"".join([*parts, piece]) if parts else piece
            parts, size = [], 0
        if rest:
            parts.append(rest)
            size += len(rest)
        if size > most:
            raise TooLong(f"more than {most:,} bytes without an end of line")


def masking(credentials: Credentials) -> Callable[[bytes], bytes] | None:
    """What removes the values of a connection from an upstream's messages; None if there are none."""
    values = [value for value in credentials.secrets if is_sendable(value)]
    return Secrets({f"x-{number}": value for number, value in enumerate(values)}).masked_body if values else None
