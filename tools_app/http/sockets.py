"""Lifetime of a client's transport."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from tools_app.sdk.errors import UpstreamUnavailableError

if TYPE_CHECKING:
    import httpx


class Sockets:
    """The transport of a client: created at first use, closed after `close` when its last request has ended."""

    def __init__(self, make: Callable[[], httpx.AsyncBaseTransport]) -> None:
        self._make = make
        self._transport: httpx.AsyncBaseTransport | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._in_use = 0
        self._closed = False

    async def __aenter__(self) -> httpx.AsyncBaseTransport:
        if self._closed:
            error = UpstreamUnavailableError(
                "The connection was changed while the tool ran", next_step="Call again to use the new connection."
            )
            error.nothing_done, error.blames_upstream = True, False
            raise error
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise RuntimeError("a client belongs to the event loop of its first request")
        if self._transport is None:
            self._transport = self._make()
        self._in_use += 1
        return self._transport

    async def __aexit__(self, *_: object) -> None:
        self._in_use -= 1
        await self._close_when_idle()

    async def close(self) -> None:
        """Refuse new requests. Running ones finish, and the last one closes the transport."""
        self._closed = True
        await self._close_when_idle()

    async def _close_when_idle(self) -> None:
        if self._closed and not self._in_use and self._transport is not None:
            transport, self._transport = self._transport, None
            await transport.aclose()
