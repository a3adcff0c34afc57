"""JSON-RPC in lines, over a pair of streams: what a child process writes and reads.

A line that is not a message is dropped and counted: one invalid byte must not make a session deaf. A child that does
not read blocks its own pipe and no caller, and is hung up on after a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest

from tools_app.upstream.wire import Pace, TooLong, Transport, lines_of

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

    async def __aexit__(self, *exc_info: object) -> None:
        await super().__aexit__(*exc_info)
        # Not awaited: the other side may never read what is left.
        self._writer.transport.abort()

    async def _work(self) -> None:
        self.spawn(self._write_all())
        pace = Pace()
        try:
            async for line in lines_of(self._chunks()):
                if line.strip() and await pace.admits(line):
                    await self._take(line)
            self.end = self.end or "the server closed its output"
        except TooLong as error:
            self.end = f"the server wrote {error}"
        except ConnectionError:
            self.end = self.end or "the connection broke"
        finally:
            self._to_session.close()

    async def _chunks(self) -> AsyncIterator[bytes]:
        while chunk := await self._reader.read(_CHUNK):
            yield chunk

    async def _take(self, line: bytes) -> None:
        try:
            await self.receive(line)
        except ValueError:
            self.dropped += 1

    async def _write_all(self) -> None:
        try:
            async for message in self._from_session:
                await self._write(message)
        except ConnectionError:
            self.end = self.end or "the server closed its input"
            self._to_session.close()
        except TimeoutError:
            self.end = f"the server has not read for {STUCK_SECONDS:.0f} s"
            self._to_session.close()

    async def _write(self, message: SessionMessage) -> None:
        request = message.message
        fate = None
        if isinstance(request, JSONRPCRequest):
            fate = self.fate_of(request)
            if fate is None:
                return
            fate.sent = "maybe"
        data = request.model_dump_json(by_alias=True, exclude_unset=True).encode()
        self._writer.write(data + b"\n")
        async with asyncio.timeout(STUCK_SECONDS):
            await self._writer.drain()
