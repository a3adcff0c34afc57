"""The stdio streams between the client and the SDK.

The SDK's own streams use a thread for every line, silently drop unreadable lines, and do not end in time. These stay
on the event loop, answer every line, limit memory (backpressure), and end in time.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import shutil
import stat
import threading
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse, RequestId

from tools_app.mcp_server import frames
from tools_app.mcp_server.frames import InvalidMessage

ANSWER_SECONDS: Final = 0.5
FLUSH_SECONDS: Final = 0.3
LOOK_SECONDS: Final = 0.25

MOST_UNREAD: Final = frames.MAX_LINE
MOST_UNSENT: Final = 1024 * 1024
MOST_OPEN: Final = 256

_LINE_OVERHEAD: Final = 64
_CANCELLED: Final = "notifications/cancelled"


class Pipes:
    """Requests in, responses out, with backpressure.

    While a client does not read its responses, or has too many open requests, its input is not read: neither requests
    nor responses can pile up in memory.
    """

    def __init__(self, on_leave: Callable[[], None] | None = None) -> None:
        self._on_leave = on_leave
        # Sees every message before the SDK does; True: it handles the message instead.
        self.interceptor: Callable[[JSONRPCMessage], bool] | None = None
        self._lines = frames.LineBuffer()
        self._unread: deque[bytes | None] = deque()
        self._unread_size = 0
        # The next message for the SDK, if it was read already.
        self._message: JSONRPCMessage | None = None
        self._open: set[RequestId] = set()
        self._ended = False
        self._stopped = False
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._flushed = asyncio.Event()
        self._source: asyncio.ReadTransport
        self._sink: asyncio.WriteTransport
        self._poll_timer: asyncio.TimerHandle | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._copier: threading.Thread | None = None

    async def connect(self, readable: int, writable: int) -> None:
        """Start reading and writing these descriptors; the pipes own them from now on."""
        loop = asyncio.get_running_loop()
        if not _can_wait(readable):
            readable = self._copy_from(readable)
        if not _can_wait(writable):
            writable = self._copy_to(writable)
        self._sink, _ = await loop.connect_write_pipe(lambda: _Sink(self), os.fdopen(writable, "wb", 0))
        self._sink.set_write_buffer_limits(MOST_UNSENT)
        self._source, _ = await loop.connect_read_pipe(lambda: _Source(self), os.fdopen(readable, "rb", 0))

    def stop(self) -> None:
        """End as if the client had disconnected, without further responses."""
        self._ended = self._stopped = True
        self._unread.clear()
        self._message = None
        self._room.set()
        self._changed.set()

    async def close(self) -> None:
        """Close the pipes after a short time for the last responses."""
        for timer in (self._poll_timer, self._deadline):
            if timer is not None:
                timer.cancel()
        for transport in (self._source, self._sink):
            if not transport.is_closing():
                transport.close()
        with anyio.move_on_after(FLUSH_SECONDS, shield=True):
            await self._flushed.wait()
        if not self._flushed.is_set():
            self._sink.abort()
        if self._copier is not None:
            self._copier.join(FLUSH_SECONDS)

    # ------------------------------------------------------------------------------------- for the SDK: reading

    async def receive(self) -> SessionMessage:
        while (message := self._next_message()) is None:
            if self._stopped or (self._ended and not self._unread):
                await self._wait_for_responses()
                raise anyio.EndOfStream
            self._changed.clear()
            await self._changed.wait()
        return SessionMessage(message)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    # ------------------------------------------------------------------------------------- for the SDK: writing

    async def send(self, item: SessionMessage) -> None:
        message = item.message
        response_to = message.id if isinstance(message, JSONRPCResponse | JSONRPCError) else None
        await self.put(frames.write(message), response_to)

    async def put(self, line: bytes, response_to: RequestId | None) -> None:
        """Send a line, which may be the response to the request `answered`."""
        try:
            await self._put(line)
        finally:
            if response_to is not None:
                self._open.discard(response_to)
                # Nothing else waits for this, and waking the SDK costs time.
                if self._unread or self._ended:
                    self._changed.set()

    async def aclose(self) -> None:
        """Does nothing: the SDK closes its streams before it is done with them. `close` ends the pipes."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    # --------------------------------------------------------------------------------------- for the event loop

    def data_received(self, data: bytes) -> None:
        self._enqueue(self._lines.feed(data))
        # At once: a message for the interceptor does not wait until the SDK reads the next one.
        if self._message is None:
            self._message = self._next_message()
        if self._message is not None or self._unread:
            self._changed.set()
        if self._unread_size > MOST_UNREAD and self._poll_timer is None:
            self._source.pause_reading()
            self._look()

    def input_ended(self) -> None:
        self._enqueue(self._lines.end())
        self._ended = True
        self._changed.set()
        self._hurry()

    def pause_output(self) -> None:
        if not self._stopped:
            self._room.clear()

    def resume_output(self) -> None:
        self._room.set()
        self._changed.set()

    def output_closed(self) -> None:
        """Everything is written, or the client has disconnected."""
        self._flushed.set()
        self.stop()

    # ------------------------------------------------------------------------------------------------- within

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    def _next_message(self) -> JSONRPCMessage | None:
        """The next message for the SDK. What the interceptor takes on the way is handled."""
        if not self._room.is_set():
            return None
        message, self._message = self._message, None
        while message is None and self._may_read():
            line = self._next_line()
            try:
                if line is None:
                    raise frames.too_long()
                message = frames.read(line)
            except InvalidMessage as fault:
                self._write(frames.write(fault.answer))
                continue
            self._follow(message)
            if self.interceptor is not None and self.interceptor(message):
                message = None
        return message

    def _may_read(self) -> bool:
        return bool(self._unread) and self._room.is_set() and len(self._open) < MOST_OPEN

    def _enqueue(self, lines: list[bytes | None]) -> None:
        if not self._stopped:
            self._unread.extend(lines)
            self._unread_size += sum(map(_size, lines))

    def _follow(self, message: JSONRPCMessage) -> None:
        """Track the open requests."""
        if isinstance(message, JSONRPCRequest):
            self._open.add(message.id)
        elif isinstance(message, JSONRPCNotification) and message.method == _CANCELLED:
            request_id = (message.params or {}).get("requestId")
            if isinstance(request_id, str | int):
                self._open.discard(request_id)

    def _next_line(self) -> bytes | None:
        line = self._unread.popleft()
        self._unread_size -= _size(line)
        if self._poll_timer is not None and self._unread_size <= MOST_UNREAD:
            self._poll_timer.cancel()
            self._poll_timer = None
            self._source.resume_reading()
        return line

    def _look(self) -> None:
        """Poll for a hang-up: the event loop does not report it while reading is paused."""
        if _hung_up(self._source.get_extra_info("pipe").fileno()):
            self._hurry()
        self._poll_timer = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def _hurry(self) -> None:
        """The client has closed its side: allow open requests a short time to be answered."""
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().call_later(ANSWER_SECONDS, self.stop)

    async def _wait_for_responses(self) -> None:
        """Wait until no request is open, or until the time is over."""
        if self._on_leave is not None:
            self._on_leave()
        await self._until(lambda: self._stopped or not self._open)
        self.stop()

    async def _put(self, line: bytes) -> None:
        while not self._room.is_set():
            await self._room.wait()
        if self._sink.is_closing():
            raise anyio.BrokenResourceError
        self._write(line)

    def _write(self, line: bytes) -> None:
        if not self._stopped or self._sink.get_write_buffer_size() < MOST_UNSENT:
            self._sink.write(line)

    def _copy_from(self, descriptor: int) -> int:
        readable, writable = os.pipe()
        threading.Thread(target=_copy, args=(descriptor, writable), daemon=True).start()
        return readable

    def _copy_to(self, descriptor: int) -> int:
        readable, writable = os.pipe()
        self._copier = threading.Thread(target=_copy, args=(readable, descriptor), daemon=True)
        self._copier.start()
        return writable


class _Source(asyncio.Protocol):
    def __init__(self, pipes: Pipes) -> None:
        self._pipes = pipes

    def data_received(self, data: bytes) -> None:
        self._pipes.data_received(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._pipes.input_ended()


class _Sink(asyncio.Protocol):
    def __init__(self, pipes: Pipes) -> None:
        self._pipes = pipes

    def pause_writing(self) -> None:
        self._pipes.pause_output()

    def resume_writing(self) -> None:
        self._pipes.resume_output()

    def connection_lost(self, error: Exception | None) -> None:
        self._pipes.output_closed()


def _size(line: bytes | None) -> int:
    return _LINE_OVERHEAD + len(line or b"")


def _can_wait(descriptor: int) -> bool:
    """Whether the event loop can wait for it: pipes, sockets and terminals. Files and /dev/null need a thread."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


def _hung_up(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, 0)
    return bool(poll.poll(0))


def _copy(source: int, target: int) -> None:
    with (
        os.fdopen(source, "rb", 0) as readable,
        os.fdopen(target, "wb", 0) as writable,
        contextlib.suppress(OSError),
    ):
        shutil.copyfileobj(readable, writable)
