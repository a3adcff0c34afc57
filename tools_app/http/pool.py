"""The connections to an upstream: httpcore2's pool, on a network that judges every address (`network`).

`Pool` is what all clients send through, whichever library they belong to: `transport.Transport` gives it to httpx.
Two things are added to it (docs/decisions/0022): a socket is closed when its request is cancelled during the TLS
handshake, and a connection on which the upstream sent more than its answer is never used again.
"""

from __future__ import annotations

import ssl
from typing import Any, Final

import anyio
import httpcore2

# Node closes idle connections after five seconds, and a request sent in that moment is lost.
KEPT_SECONDS: Final = 4.0
# Among the extensions of a request until it has a connection: nothing of it has been sent.
WAITS: Final = "toolhub.waits"


class Pool(httpcore2.AsyncConnectionPool):
    """At most so many connections at once; a request waits for one as long as its own deadline allows."""

    def __init__(self, network: httpcore2.AsyncNetworkBackend, tls: ssl.SSLContext, connections: int) -> None:
        super().__init__(max_connections=connections)
        self._network = _Network(network)
        self._tls = tls

    def create_connection(self, origin: httpcore2.Origin) -> httpcore2.AsyncConnectionInterface:
        return _Connection(origin, ssl_context=self._tls, keepalive_expiry=KEPT_SECONDS, network_backend=self._network)


class _Connection(httpcore2.AsyncHTTPConnection):
    async def handle_async_request(self, request: httpcore2.Request) -> httpcore2.Response:
        request.extensions.pop(WAITS, None)
        return await super().handle_async_request(request)

    def has_expired(self) -> bool:
        return super().has_expired() or (self.is_idle() and self._has_surplus())

    def _has_surplus(self) -> bool:
        """Whether bytes behind the last answer were read: httpcore2 would take them for the next caller's answer.

        The only private name of httpcore2's that we use; where it is missing, no connection is used twice.
        """
        state = getattr(self._connection, "_h11_state", None)
        return state is None or bool(state.trailing_data[0])


class _Network(httpcore2.AsyncNetworkBackend):
    """Hands out streams that close themselves."""

    def __init__(self, network: httpcore2.AsyncNetworkBackend) -> None:
        self._network = network

    async def connect_tcp(self, *args: Any, **kwargs: Any) -> httpcore2.AsyncNetworkStream:
        return _Stream(await self._network.connect_tcp(*args, **kwargs))

    async def sleep(self, seconds: float) -> None:
        await self._network.sleep(seconds)


class _Stream(httpcore2.AsyncNetworkStream):
    """One socket, or TLS on it."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream) -> None:
        self._stream = stream

    async def read(self, *args: Any, **kwargs: Any) -> bytes:
        return await self._stream.read(*args, **kwargs)

    async def write(self, *args: Any, **kwargs: Any) -> None:
        await self._stream.write(*args, **kwargs)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(self, *args: Any, **kwargs: Any) -> httpcore2.AsyncNetworkStream:
        try:
            return _Stream(await self._stream.start_tls(*args, **kwargs))
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._stream.aclose()
            raise

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable" and self._is_decryptable():
            return True
        return self._stream.get_extra_info(info)

    def _is_decryptable(self) -> bool:
        """Whether TLS holds bytes that nobody has read; the socket alone does not tell."""
        tls = self._stream.get_extra_info("ssl_object")
        if tls is None:
            return False
        try:
            tls.read(1)
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError:
            return True
        return True
