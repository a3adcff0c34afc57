"""What the transports have in common: the fate of each request, lines, a limit for messages, and a pair of streams.

Requests of callers, their answers and notifications pass directly between bytes and callers. The rest, which is the
handshake and what the server asks, passes a `JSONRPCDispatcher` of the mcp SDK. The SDK has transports of its own;
these have limits, and one broken request fails nothing but itself (docs/decisions/0045).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Self

import anyio
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)
from pydantic_core import from_json, to_json

from tools_app.http.secrecy import mask_of
from tools_app.sdk import heavy
from tools_app.sdk.accounts import Credentials
from tools_app.sdk.errors import shortened

log = logging.getLogger("tools_app.upstream")

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
_CANCELLED: Final = "notifications/cancelled"
# The answer to requests that the end of the connection leaves without one.
_CLOSED: Final = ErrorData(code=CONNECTION_CLOSED, message="Connection closed")

# The result of a request, or the error that the server answers.
Outcome = dict[str, Any] | ErrorData
# Gets a notification: its method and params, and the request that it belongs to, if the transport knows.
Heard = Callable[[str, Mapping[str, Any], RequestId | None], None]
# In long messages, the method is at one end.
_SEARCHED: Final = 16 * 1024


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
    # What the caller waits for; None for requests of the SDK.
    answer: asyncio.Future[Outcome] | None = None

    @property
    def is_over(self) -> bool:
        """Whether no caller waits for the answer any more."""
        return self.answer is not None and self.answer.done()

    def settle(self, outcome: Outcome | Broken) -> None:
        if self.answer is None or self.answer.done():
            return
        if isinstance(outcome, Broken):
            self.answer.set_exception(outcome)
        else:
            self.answer.set_result(outcome)

    def expire(self) -> None:
        """The time within which it must have been sent is over."""
        if self.sent == "no":
            reason = "it could not be sent in time: the server does not read, or took long to connect"
            self.settle(Broken(reason))

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
        # Host and port, if there are any.
        self.place: tuple[str, int] | None = None
        # The latest request of the SDK itself: those that open a session.
        self.opening = Fate()
        # Set when the upstream does not know the session any more.
        self.lost = asyncio.Event()
        # Set when the upstream may have changed its tools without our hearing of it.
        self.missed = asyncio.Event()
        # Set when nothing more is sent or received.
        self.ended = asyncio.Event()
        self.heard: Heard | None = None
        # Why the connection has ended, if the transport knows.
        self.end = ""
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._to_session, self.reads = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        self.writes, self._from_session = anyio.create_memory_object_stream[SessionMessage](MOST_WAITING)
        self.spawn(self._work())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.finish()
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
            self.finish(f"{type(error).__name__}: {shortened(str(error))}")

    def finish(self, reason: str = "") -> None:
        """The connection has ended: callers get no more answers."""
        self.end = self.end or reason
        self.ended.set()
        self._to_session.close()
        for fate in self.fates.values():
            fate.settle(_CLOSED)

    # ---- requests of callers

    def send(self, key: int, fate: Fate, method: str, params: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        """Send a request as soon as possible; `fate` is settled by its answer.

        Raises:
            ValueError: it cannot be written as JSON.
        """
        raise NotImplementedError

    def give_up(self, key: int, fate: Fate) -> None:
        """Its caller waits no longer: tell the server, if the request was sent."""
        raise NotImplementedError

    # ---- what the server sends

    def opening_fate(self) -> Fate:
        """The fate of a request of the SDK."""
        self.opening = Fate()
        return self.opening

    async def receive(self, data: bytes, answers: RequestId | None = None) -> bool:
        """Pass a message on. True if it is the answer to the request `answers`.

        Raises:
            ValueError: it is not a message.
        """
        message = await heavy.aside(self._read, data) if len(data) > _LARGE else self._read(data)
        method = message.get("method")
        if method is None:
            # Errors may have no id, if the server did not come to read it.
            key = coerce_request_id(message["id"]) if answers is None else answers
            if (fate := self.fates.get(key)) is not None:
                fate.settle(_outcome(message))
                return True
            message["id"] = key
        elif "id" not in message and method != _CANCELLED:
            self._notify(method, message.get("params"), answers)
            return False
        parsed = jsonrpc_message_adapter.validate_python(message, by_name=False)
        metadata = None if answers is None else ServerMessageMetadata(related_request_id=answers)
        await self._hand_over(SessionMessage(parsed, metadata))
        return isinstance(parsed, JSONRPCResponse | JSONRPCError)

    def _read(self, data: bytes) -> dict[str, Any]:
        message = from_json(data if self._mask is None else self._mask(data))
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            raise ValueError("not a message")
        if "method" not in message and not isinstance(message.setdefault("id", None), int | str | None):
            raise ValueError("not an id")
        return message

    def _notify(self, method: object, params: object, related: RequestId | None) -> None:
        if not isinstance(method, str) or not isinstance(params, dict | None):
            raise ValueError("not a notification")  # noqa: TRY004 – of the sender
        if self.heard is not None:
            try:
                self.heard(method, params or {}, related)
            except Exception:  # A bug must not end the connection.
                log.exception("a notification failed")

    async def fail(self, request: RequestId, fate: Fate, reason: str) -> None:
        """Answer a request that gets no answer."""
        fate.failure = reason
        error = ErrorData(code=INTERNAL_ERROR, message=reason)
        if fate.answer is not None:
            fate.settle(error)
        else:
            await self._hand_over(SessionMessage(JSONRPCError(jsonrpc="2.0", id=request, error=error)))

    async def _hand_over(self, message: SessionMessage) -> None:
        # Unless the session has ended.
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._to_session.send(message)


def _outcome(message: Mapping[str, Any]) -> Outcome:
    """Raises: ValueError, if it is neither a result nor an error."""
    if "result" not in message:
        return ErrorData.model_validate(message.get("error"))
    if not isinstance(result := message["result"], dict):
        raise ValueError("not a result")  # noqa: TRY004 – of the sender
    return result


def encoded(method: str, params: Mapping[str, Any], key: int | None = None) -> bytes:
    """A request, or without a key a notification.

    Raises:
        ValueError: it cannot be written as JSON.
    """
    identifier = {} if key is None else {"id": key}
    return to_json({"jsonrpc": "2.0", **identifier, "method": method, "params": params})


def cancellation(key: int) -> bytes:
    return encoded(_CANCELLED, {"requestId": key, "reason": "caller cancelled"})


class Pace:
    """Limits messages that are no answers: above the limit their sender waits, and log messages are dropped."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._seen = self._logs = 0

    async def admits(self, data: bytes) -> bool:
        beginning = data[:_BEGINNING]
        # A server can write its keys in any order. In an answer this only counts it.
        if b'"method"' not in data[:_SEARCHED] and b'"method"' not in data[-_SEARCHED:]:
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
    return mask_of(credentials.secrets)
