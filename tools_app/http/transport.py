"""Transports that make an HTTP library use our pool: no proxies, no environment variables, every address checked."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from types import ModuleType
from typing import Any, Final

import httpcore2
import httpx

from tools_app.http.pool import Pool

_Close = Callable[[httpcore2.Response], Awaitable[None]]


class PooledBody:
    """A response body that raises the exceptions of the library that reads it."""

    def __init__(self, response: httpcore2.Response, close: _Close, faults: _Faults) -> None:
        self._response = response
        self._close = close
        self._faults = faults

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with self._faults():
            async for part in self._response.aiter_stream():
                yield part

    async def aclose(self) -> None:
        await self._close(self._response)


class PooledTransport:
    """The common part of the transports for httpx and httpx2, which differ only in their classes."""

    library: ModuleType
    body: type[PooledBody]

    def __init__(self, network: httpcore2.AsyncNetworkBackend, tls: ssl.SSLContext, connections: int) -> None:
        self.pool = Pool(network, tls, connections)
        self._closing: set[asyncio.Task[None]] = set()

    async def handle_async_request(self, request: Any) -> Any:
        url, faults = request.url, _Faults(self.library, request)
        outgoing = httpcore2.Request(
            request.method,
            httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        with faults():
            response = await self.pool.handle_async_request(outgoing)
        return self.library.Response(
            response.status,
            headers=response.headers,
            stream=self.body(response, self._close, faults),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        await self.pool.aclose()

    async def _close(self, response: httpcore2.Response) -> None:
        """In a task of its own: a cancelled close would leak the connection."""
        closing = asyncio.create_task(response.aclose())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
        await asyncio.shield(closing)


class _Faults:
    """Converts httpcore2's exceptions into those of a library, which have the same names."""

    def __init__(self, library: ModuleType, request: object) -> None:
        self._library = library
        self._request = request

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        try:
            yield
        except _RAISED as error:
            fault = getattr(self._library, type(error).__name__)
            raise fault(str(error), request=self._request) from error


_RAISED: Final = (
    httpcore2.TimeoutException,
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.UnsupportedProtocol,
)


class _Body(PooledBody, httpx.AsyncByteStream):
    pass


class Transport(PooledTransport, httpx.AsyncBaseTransport):
    """The transport for httpx, which tools use."""

    library = httpx
    body = _Body
