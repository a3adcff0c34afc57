"""The connections to an upstream: at most so many at once, and none that a caller who hung up takes along.

httpcore's own pool keeps the place of a request that was cancelled before its connection was made: after a few agents
that changed their minds, nobody gets through any more (docs/decisions/0022). So this one leaves to httpcore what
happens on a connection, and keeps the places itself. Giving one back takes no `await`, and so nothing can come between.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterable, AsyncIterator
from typing import Any, Final

import httpcore

# Node closes idle connections after five seconds, and a request sent in that moment is lost.
KEPT_SECONDS: Final = 4.0
# Among the extensions of a request: it waits for a place still, and nothing of it has been sent.
WAITS: Final = "toolhub.waits"


class Pool(httpcore.AsyncConnectionPool):
    """Lends connections to requests, one each, and takes back those that can be used again."""

    def __init__(self, network: httpcore.AsyncNetworkBackend, tls: ssl.SSLContext, connections: int) -> None:
        self._network = network
        self._tls = tls
        self._most = connections
        self._places = asyncio.Semaphore(connections)
        self._lent: set[Line] = set()
        self._idle: list[Line] = []
        self._hanging_up: set[asyncio.Task[None]] = set()
        self._closed = False

    def __repr__(self) -> str:
        return f"<Pool of {self._most}: {len(self._lent)} lent, {len(self._idle)} idle>"

    @property
    def connections(self) -> list[httpcore.AsyncConnectionInterface]:
        return [line.http for line in (*self._lent, *self._idle)]

    async def handle_async_request(self, request: httpcore.Request) -> httpcore.Response:
        request.extensions[WAITS] = True
        await self._places.acquire()
        del request.extensions[WAITS]
        line = self._line(request.url.origin)
        try:
            response = await line.http.handle_async_request(request)
            if not isinstance(response.stream, AsyncIterable):
                raise TypeError("the connection is not one for asyncio")
            line.stream = response.extensions["network_stream"]
            body = Body(response.stream, self, line)
            return httpcore.Response(
                response.status, headers=response.headers, content=body, extensions=response.extensions
            )
        except BaseException:
            self.take_back(line)
            raise

    async def aclose(self) -> None:
        """Hang up, where nobody speaks; what is lent is hung up when it comes back."""
        self._closed = True
        while self._idle:
            self._hang_up(self._idle.pop())
        if self._hanging_up:
            await asyncio.wait(self._hanging_up)

    # ---- lending and taking back: nothing here waits

    def _line(self, origin: httpcore.Origin) -> Line:
        """A connection that somebody has left, the latest first, or else a new one."""
        for idle in reversed(self._idle.copy()):
            if idle.http.has_expired():
                self._idle.remove(idle)
                self._hang_up(idle)
        line = next((idle for idle in reversed(self._idle) if idle.http.can_handle_request(origin)), None)
        if line is not None:
            self._idle.remove(line)
        else:
            if len(self._lent) + len(self._idle) >= self._most:
                self._hang_up(self._idle.pop(0))
            line = Line(self._network, origin, self._tls)
        self._lent.add(line)
        return line

    def take_back(self, line: Line) -> None:
        """Keep what a request has left, or hang up: where it stopped in the middle, nothing is known about it."""
        if line not in self._lent:
            return
        self._lent.remove(line)
        self._places.release()
        if not self._closed and line.is_fit():
            self._idle.append(line)
        else:
            self._hang_up(line)

    def _hang_up(self, line: Line) -> None:
        """In a task of its own, which no caller can cancel."""
        task = asyncio.create_task(line.hang_up())
        self._hanging_up.add(task)
        task.add_done_callback(self._hanging_up.discard)


class Line(httpcore.AsyncNetworkBackend):
    """One connection, and the socket under it, which can be closed whatever has become of the connection.

    httpcore forgets a socket when it is cancelled while the two sides agree on TLS.
    """

    def __init__(self, network: httpcore.AsyncNetworkBackend, origin: httpcore.Origin, tls: ssl.SSLContext) -> None:
        self.http = httpcore.AsyncHTTPConnection(
            origin, ssl_context=tls, keepalive_expiry=KEPT_SECONDS, network_backend=self
        )
        # What answers come out of: the socket, or TLS on top of it.
        self.stream: httpcore.AsyncNetworkStream | None = None
        self._network = network
        self._socket: httpcore.AsyncNetworkStream | None = None

    async def connect_tcp(self, host: str, port: int, *args: Any, **kwargs: Any) -> httpcore.AsyncNetworkStream:
        self._socket = await self._network.connect_tcp(host, port, *args, **kwargs)
        return self._socket

    def is_fit(self) -> bool:
        """Whether another request can go over it: the last answer has come to its end, and nothing came behind that."""
        return self.http.is_idle() and not self.http.has_expired() and not self._says_more()

    def _says_more(self) -> bool:
        """Whether something has been read, or can be decrypted, that belongs to no answer.

        httpcore looks at the socket alone. What it has read too much of, it would take for the next answer: whoever
        called next would be given what was meant for another, and so would everybody after that.
        """
        # A name that is httpcore's own: where there is none of it any more, no connection is used twice.
        state = getattr(self.http._connection, "_h11_state", None)
        if state is None or state.trailing_data[0]:
            return True
        tls = self.stream.get_extra_info("ssl_object") if self.stream is not None else None
        if tls is None:
            return False
        with contextlib.suppress(ssl.SSLError):
            try:
                tls.read(1)
            except ssl.SSLWantReadError:
                return False
        return True

    async def hang_up(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(Exception):  # nobody waits to hear how a farewell went
                await self._socket.aclose()


class Body:
    """What an upstream answers, as it comes; closing it gives the connection back."""

    def __init__(self, stream: AsyncIterable[bytes], pool: Pool, line: Line) -> None:
        self._stream = stream
        self._pool = pool
        self._line = line

    def __aiter__(self) -> AsyncIterator[bytes]:
        return aiter(self._stream)

    async def aclose(self) -> None:
        try:
            if (close := getattr(self._stream, "aclose", None)) is not None:
                await close()
        finally:
            self._pool.take_back(self._line)
