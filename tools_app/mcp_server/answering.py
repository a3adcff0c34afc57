"""Sends over HTTP what somebody is still working on: in one piece if it is soon there, and else as a stream."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final, TypeAlias

from starlette.types import Receive, Send

# The status and the JSON-RPC frame that are being made.
Work: TypeAlias = asyncio.Task[tuple[int, bytes]]

# What takes longer is watched: its client may hang up, and a proxy may lose patience.
QUICK_SECONDS: Final = 0.05
PING_SECONDS: Final = 15.0
_SSE: Final = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]


async def respond(work: Work, receive: Receive, send: Send, headers: Mapping[bytes, bytes], *, leaves: bool) -> None:
    """Send what `work` comes to. `leaves`: whoever hangs up cancels it."""
    try:
        await asyncio.wait({work}, timeout=QUICK_SECONDS)
        streaming = not work.done() and await _waited(work, receive, send, headers, leaves=leaves)
    finally:
        work.cancel()
    status, frame = work.result()
    if streaming:
        await send({"type": "http.response.body", "body": b"event: message\r\ndata: %b\r\n\r\n" % frame})
        return
    told = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(frame)), *headers.items()]
    await send({"type": "http.response.start", "status": int(status), "headers": told})
    await send({"type": "http.response.body", "body": frame})


async def _waited(work: Work, receive: Receive, send: Send, headers: Mapping[bytes, bytes], *, leaves: bool) -> bool:
    """Wait until `work` is done, and say whether a stream was begun meanwhile to keep the connection alive."""
    gone = asyncio.create_task(_gone(receive))
    streaming = False
    try:
        while not work.done():
            watched = {work} if gone.done() else {work, gone}
            await asyncio.wait(watched, timeout=PING_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
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
        gone.cancel()
    return streaming


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
