"""HTTP responses for work in progress: one JSON body if it finishes quickly, otherwise an event stream."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final, TypeAlias

from starlette.types import Receive, Send

# Returns the HTTP status and the JSON-RPC frame.
Work: TypeAlias = asyncio.Task[tuple[int, bytes]]

# Slower work is watched: the client may disconnect, or a proxy time out.
QUICK_SECONDS: Final = 0.05
PING_SECONDS: Final = 15.0
_SSE: Final = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]


async def respond(work: Work, receive: Receive, send: Send, headers: Mapping[bytes, bytes], *, leaves: bool) -> None:
    """Send the result of `work`. `leaves`: a disconnect cancels it."""
    try:
        await asyncio.wait({work}, timeout=QUICK_SECONDS)
        streaming = not work.done() and await _keep_alive(work, receive, send, headers, leaves=leaves)
    finally:
        work.cancel()
    status, frame = work.result()
    if streaming:
        await send({"type": "http.response.body", "body": b"event: message\r\ndata: %b\r\n\r\n" % frame})
        return
    all_headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(frame)), *headers.items()]
    await send({"type": "http.response.start", "status": int(status), "headers": all_headers})
    await send({"type": "http.response.body", "body": frame})


async def _keep_alive(
    work: Work, receive: Receive, send: Send, headers: Mapping[bytes, bytes], *, leaves: bool
) -> bool:
    """Wait until `work` is done. Returns whether a stream was started to keep the connection alive."""
    disconnect = asyncio.create_task(_disconnected(receive))
    streaming = False
    try:
        while not work.done():
            tasks = {work} if disconnect.done() else {work, disconnect}
            await asyncio.wait(tasks, timeout=PING_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if disconnect.done():
                if leaves:
                    work.cancel()
                    await asyncio.wait({work})
            elif not work.done():
                if not streaming:
                    streaming = True
                    start = {
                        "type": "http.response.start",
                        "status": HTTPStatus.OK,
                        "headers": [*_SSE, *headers.items()],
                    }
                    await send(start)
                await send({"type": "http.response.body", "body": b": ping\r\n\r\n", "more_body": True})
    finally:
        disconnect.cancel()
    return streaming


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
