"""The connection pool: httpcore2's, with a network backend that checks every address (`network`).

All clients use `Pool`, whichever library they belong to: `transport.Transport` provides it to httpx. It adds two things
(docs/decisions/0022): a socket is closed if its request is cancelled during the TLS handshake, and a connection on
which the upstream sent data after its response is never reused.
"""

from __future__ import annotations

import select
import ssl
from typing import Any, Final

import anyio
import httpcore2

# Less than Node's keep-alive timeout of five seconds: a request sent at that moment would be lost.
KEPT_SECONDS: Final = 4.0
# In the extensions of a request until it has a connection: nothing has been sent yet.
WAITS: Final = "toolhub.waits"


class Pool(httpcore2.AsyncConnectionPool):
    """At most `connections` at once; a request waits for one until its deadline."""

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
        """Whether data after the last response was read: httpcore2 would take it for the next caller's response.

        Uses the only private name of httpcore2 that we need; if it is missing, no connection is reused.
        """
        state = getattr(self._connection, "_h11_state", None)
        return state is None or bool(state.trailing_data[0])


class _Network(httpcore2.AsyncNetworkBackend):
    """Wraps connections in `_Stream`."""

    def __init__(self, network: httpcore2.AsyncNetworkBackend) -> None:
        self._network = network

    async def connect_tcp(self, *args: Any, **kwargs: Any) -> httpcore2.AsyncNetworkStream:
        return _Stream(await self._network.connect_tcp(*args, **kwargs))

    async def sleep(self, seconds: float) -> None:
        await self._network.sleep(seconds)


class _Stream(httpcore2.AsyncNetworkStream):
    """A socket or TLS connection that closes itself when the TLS handshake fails or is cancelled."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream) -> None:
        self._stream = stream
        # Asked at every request about every idle connection; anyio makes a system call to find them.
        self._socket = stream.get_extra_info("socket")
        self._tls = stream.get_extra_info("ssl_object")
        self._poll: select.poll | None = None

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
        if info == "is_readable":
            return self._is_decryptable() or self._is_readable()
        return self._stream.get_extra_info(info)

    def _is_readable(self) -> bool:
        """Whether there is data, or the end: an idle connection should have neither."""
        if self._socket is None or self._socket.fileno() < 0:
            return True
        if self._poll is None:
            if not hasattr(select, "poll"):  # Windows
                return bool(self._stream.get_extra_info("is_readable"))
            self._poll = select.poll()
            self._poll.register(self._socket.fileno(), select.POLLIN)
        return bool(self._poll.poll(0))

    def _is_decryptable(self) -> bool:
        """Whether TLS has buffered unread bytes, which the socket does not report."""
        if self._tls is None:
            return False
        try:
            self._tls.read(1)
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError:
            return True
        return True
