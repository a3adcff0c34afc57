"""JSON-RPC in lines, over a pair of streams: what a child process writes and reads.

A line that is not a message is dropped and counted: one invalid byte must not make a session deaf. A child that does
not read blocks its own pipe and no caller, and is hung up on after a while.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

from mcp_types import JSONRPCRequest

from tools_app.upstream.wire import Fate, Pace, TooLong, Transport, cancellation, encoded, lines_of

# How long a child may not read what it is sent.
STUCK_SECONDS: Final = 30.0
_CHUNK: Final = 64 * 1024


class LineTransport(Transport):
    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        mask: Callable[[bytes], bytes] | None = None,
    ) -> None:
        super().__init__(mask)
        self._reader = reader
        self._writer = writer
        # Number of lines that were not messages.
        self.dropped = 0
        # What waits while the child does not read.
        self._queue: deque[tuple[bytes, Fate | None]] = deque()
        self._is_blocked = False

    async def __aexit__(self, *exc_info: object) -> None:
        await super().__aexit__(*exc_info)
        # Not awaited: the other side may never read what is left. A pipe that has broken cannot be aborted.
        if not self._writer.transport.is_closing():
            self._writer.transport.abort()

    def send(self, key: int, fate: Fate, method: str, params: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        self._put(encoded(method, params, key), fate)

    def give_up(self, key: int, fate: Fate) -> None:
        if fate.sent != "no" and not self.ended.is_set():
            self._put(cancellation(key))

    async def _work(self) -> None:
        self.spawn(self._forward())
        pace = Pace()
        try:
            async for line in lines_of(self._chunks()):
                if line.strip() and await pace.admits(line):
                    await self._take(line)
            self.finish("the server closed its output")
        except TooLong as error:
            self.finish(f"the server wrote {error}")
        except ConnectionError:
            self.finish("the connection broke")

    async def _chunks(self) -> AsyncIterator[bytes]:
        while chunk := await self._reader.read(_CHUNK):
            yield chunk

    async def _take(self, line: bytes) -> None:
        try:
            await self.receive(line)
        except ValueError:
            self.dropped += 1

    async def _forward(self) -> None:
        """Send what the SDK writes."""
        async for message in self._from_session:
            request = message.message
            fate = self.opening_fate() if isinstance(request, JSONRPCRequest) else None
            self._put(request.model_dump_json(by_alias=True, exclude_unset=True).encode(), fate)

    def _put(self, line: bytes, fate: Fate | None = None) -> None:
        if self._is_blocked:
            self._queue.append((line, fate))
        else:
            self._write(line, fate)

    def _write(self, line: bytes, fate: Fate | None) -> None:
        if fate is not None:
            fate.sent = "maybe"
        self._writer.write(line + b"\n")
        pipe = self._writer.transport
        if pipe.get_write_buffer_size() > pipe.get_write_buffer_limits()[1]:
            self._is_blocked = True
            self.spawn(self._write_later())

    async def _write_later(self) -> None:
        """Wait until the child reads, then write what waits. Requests without a caller are not written any more."""
        try:
            async with asyncio.timeout(STUCK_SECONDS):
                await self._writer.drain()
        except ConnectionError:
            self.finish("the server closed its input")
            return
        except TimeoutError:
            self.finish(f"the server has not read for {STUCK_SECONDS:.0f} s")
            return
        self._is_blocked = False
        while self._queue and not self._is_blocked:
            line, fate = self._queue.popleft()
            if fate is None or not fate.is_over:
                self._write(line, fate)
