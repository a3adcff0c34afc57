"""HTTP responses for work in progress: one JSON body if it finishes quickly and silently, otherwise an event stream."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final, TypeAlias

from starlette.types import Receive, Send

from tools_app.mcp_server import exchange

# Returns the HTTP status and the JSON-RPC frame; messages before it go to the function that it gets.
Work: TypeAlias = Callable[[exchange.Send], Awaitable[tuple[int, bytes]]]

# Slower work is watched: the client may disconnect, or a proxy time out.
QUICK_SECONDS: Final = 0.05
PING_SECONDS: Final = 15.0
_SSE: Final = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]


class Answer:
    """The response to one POST. `leaves`: a disconnect cancels the work."""

    def __init__(self, receive: Receive, send: Send, headers: Mapping[bytes, bytes], *, leaves: bool) -> None:
        self._receive = receive
        self._send = send
        self._headers = headers
        self._leaves = leaves
        self._is_streaming = False
        # Messages of the work and pings are sent by different tasks.
        self._lock = asyncio.Lock()
        self._work: asyncio.Task[tuple[int, bytes]]
        self._is_cancelled = False

    def cancel(self) -> None:
        if not self._is_cancelled:
            self._is_cancelled = True
            exchange.cancel(self._work)

    async def run(self, work: Work) -> None:
        task = self._work = asyncio.ensure_future(work(lambda message: self._stream(_event(message))))
        try:
            await asyncio.wait({task}, timeout=QUICK_SECONDS)
            if not task.done():
                await self._keep_alive(task)
        finally:
            task.cancel()
        status, frame = task.result()
        if self._is_streaming:
            await self._stream(_event(frame), more=False)
            return
        all_headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(frame))]
        all_headers += self._headers.items()
        await self._send({"type": "http.response.start", "status": int(status), "headers": all_headers})
        await self._send({"type": "http.response.body", "body": frame})

    async def _keep_alive(self, work: asyncio.Task[tuple[int, bytes]]) -> None:
        """Wait until `work` is done, and keep the connection alive."""
        disconnect = asyncio.create_task(self._wait_for_disconnect())
        try:
            while not work.done():
                tasks = {work} if disconnect.done() else {work, disconnect}
                await asyncio.wait(tasks, timeout=PING_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                if disconnect.done():
                    if self._leaves:
                        self.cancel()
                        await asyncio.wait({work})
                elif not work.done():
                    await self._stream(b": ping\r\n\r\n")
        finally:
            disconnect.cancel()

    async def _stream(self, body: bytes, *, more: bool = True) -> None:
        async with self._lock:
            if not self._is_streaming:
                self._is_streaming = True
                headers = [*_SSE, *self._headers.items()]
                await self._send({"type": "http.response.start", "status": HTTPStatus.OK, "headers": headers})
            await self._send({"type": "http.response.body", "body": body, "more_body": more})

    async def _wait_for_disconnect(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass


def _event(frame: bytes) -> bytes:
    return b"event: message\r\ndata: %b\r\n\r\n" % frame
