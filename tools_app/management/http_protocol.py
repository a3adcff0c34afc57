"""HTTP connections of the server: timeouts, strict parsing, and errors in our format.

uvicorn has no timeout for the head of a request or for a client that does not read its answer; it accepts ambiguous
requests (request smuggling), and answers malformed ones with plain text. Worker processes import this module before
Django is set up, so what needs Django is imported where it is used.
"""

from __future__ import annotations

import asyncio
import sys
from http import HTTPStatus
from typing import Any, Final, cast

import h11
from h11._receivebuffer import ReceiveBuffer
from uvicorn.protocols.http.h11_impl import H11Protocol

from tools_app.sdk.errors import ToolError, ValidationError

HEAD_SECONDS: Final = 10.0
LINGER_SECONDS: Final = 2.0
# At shutdown, connections without a request yet stay open for it.
FIRST_REQUEST_SECONDS: Final = 0.5
# A client must read this many bytes of a pending answer in each of these periods.
READ_SECONDS: Final = 10.0
READ_BYTES: Final = 16 * 1024
# Larger parts of a response do not wait for more.
MOST_UNSENT: Final = 64 * 1024


class StrictLines(ReceiveBuffer):
    """Refuses heads that a proxy could parse as another request (request smuggling).

    RFC 9112, 5.2 and 6.1: h11 joins folded lines, and prefers Transfer-Encoding to Content-Length.
    """

    def maybe_extract_lines(self) -> list[bytearray] | None:
        lines = super().maybe_extract_lines()
        names = set()
        for line in lines[1:] if lines else ():
            if line.startswith((b" ", b"\t")):
                raise h11.RemoteProtocolError("a header is folded over several lines")
            names.add(bytes(line.partition(b":")[0]).lower())
        if {b"content-length", b"transfer-encoding"} <= names:
            raise h11.RemoteProtocolError("both Content-Length and Transfer-Encoding are given")
        return lines


class JoinedWrites:
    """A transport that sends the head of a response together with its body: one system call, and one packet.

    What is written is sent when anything else is asked of the transport, which the end of a response does, and at the
    latest in the next round of the event loop.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._unsent = bytearray()

    def write(self, data: bytes) -> None:
        if not self._unsent:
            self._loop.call_soon(self._flush)
        self._unsent += data
        if len(self._unsent) > MOST_UNSENT:
            self._flush()

    def __getattr__(self, name: str) -> Any:
        self._flush()
        return getattr(self._transport, name)

    def _flush(self) -> None:
        if self._unsent:
            data, self._unsent = self._unsent, bytearray()
            self._transport.write(data)


class HttpConnection(H11Protocol):
    """uvicorn's protocol with timeouts, and with refusals in our error format."""

    _head_late: asyncio.TimerHandle | None = None
    _refused = False
    _reader_late: asyncio.TimerHandle | None = None
    _unread = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(cast(asyncio.Transport, JoinedWrites(transport, self.loop)))
        self.conn._receive_buffer = StrictLines()
        self._watch_head()

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._unwatch_head()
        elif self._head_late is None:
            self._watch_head()

    def shutdown(self) -> None:
        if cast(Any, self.cycle) is None:
            # A proxy that has just connected is about to send a request: closed now, it would be lost.
            self.loop.call_later(FIRST_REQUEST_SECONDS, self._shut_down)
        else:
            super().shutdown()

    def _shut_down(self) -> None:
        if not self.transport.is_closing():
            super().shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch_head()
        self._unwatch_reader()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_reader()

    def on_response_complete(self) -> None:
        # Closing a connection waits until the client has read everything, without a timeout.
        self._watch_reader()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        from tools_app.api.errors import HeadersTooLargeError

        cause = sys.exc_info()[1]
        if isinstance(cause, h11.RemoteProtocolError) and cause.error_status_hint == 431:
            self._refuse(HeadersTooLargeError())
        else:
            self._refuse(ValidationError("The request is not valid HTTP"))

    def _refuse(self, error: ToolError) -> None:
        from tools_app.api import errors, headers

        self._refused = True
        self._unwatch_head()
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            # An answer has been started, so no error can be sent.
            self.transport.close()
            return
        status, own_headers, body = errors.last_response(error)
        for event in (
            h11.Response(
                status_code=status, headers=[*own_headers, *headers.STRICT], reason=HTTPStatus(status).phrase.encode()
            ),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        # Closing at once would lose the answer for a client that is still sending.
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(LINGER_SECONDS, self.transport.close)

    def _watch_reader(self) -> None:
        unread = self.transport.get_write_buffer_size()
        if unread and self._reader_late is None:
            self._unread = unread
            self._reader_late = self.loop.call_later(READ_SECONDS, self._look_at_reader)

    def _look_at_reader(self) -> None:
        self._reader_late = None
        waits = self.flow.write_paused or self.transport.is_closing() or self.cycle.response_complete
        if waits and self.transport.get_write_buffer_size() > self._unread - READ_BYTES:
            self.transport.abort()
        else:
            self._watch_reader()

    def _unwatch_reader(self) -> None:
        if self._reader_late is not None:
            self._reader_late.cancel()
            self._reader_late = None

    def _watch_head(self) -> None:
        self._head_late = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _unwatch_head(self) -> None:
        if self._head_late is not None:
            self._head_late.cancel()
            self._head_late = None


# Arguments of uvicorn.Config, for all who start the server.
SERVING: Final[dict[str, Any]] = {
    "http": HttpConnection,
    "lifespan": "on",
    "log_config": None,
    # It would log query strings, which may contain keys; the engine logs calls itself.
    "access_log": False,
    # The application decides which proxies to trust.
    "proxy_headers": False,
    "server_header": False,
}
