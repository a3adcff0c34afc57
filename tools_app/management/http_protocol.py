"""How the server treats a connection, whatever the requests on it are.

uvicorn waits for ever for the first lines of a request, and for a client to read its answer; it takes requests that
different programs read differently, and answers what it cannot read with plain text. Its worker processes read this
module before Django is set up, so what needs Django is imported where it is used.
"""

from __future__ import annotations

import asyncio
import sys
from http import HTTPStatus
from typing import Any, Final

import h11
from h11._receivebuffer import ReceiveBuffer
from uvicorn.protocols.http.h11_impl import H11Protocol

from tools_app.sdk.errors import ToolError, ValidationError

HEAD_SECONDS: Final = 10.0
LINGER_SECONDS: Final = 2.0
# A client has to read this much of what waits for it, in each of these periods.
READ_SECONDS: Final = 10.0
READ_BYTES: Final = 16 * 1024


class StrictLines(ReceiveBuffer):
    """The lines in front of a body, as h11 gets them: refused where a proxy may see another request in them.

    Both faults are on the list of RFC 9112 (5.2, 6.1): h11 joins the lines, and prefers Transfer-Encoding.
    """

    def maybe_extract_lines(self) -> list[bytearray] | None:
        lines = super().maybe_extract_lines()
        names = set()
        for line in lines[1:] if lines else ():
            if line.startswith((b" ", b"\t")):
                raise h11.RemoteProtocolError("a header goes on in another line")
            names.add(bytes(line.partition(b":")[0]).lower())
        if {b"content-length", b"transfer-encoding"} <= names:
            raise h11.RemoteProtocolError("the length of the body is told in two ways")
        return lines


class Connection(H11Protocol):
    """uvicorn's, with an end to its patience, and with our one form for what is refused."""

    _head_late: asyncio.TimerHandle | None = None
    _refused = False
    _reader_late: asyncio.TimerHandle | None = None
    _unread = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
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

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch_head()
        self._unwatch_reader()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_reader()

    def on_response_complete(self) -> None:
        # Closing a connection waits for what is still to be read: for ever, if it is not.
        self._watch_reader()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        from tools_app.api.errors import HeadersTooLargeError

        cause = sys.exc_info()[1]
        if isinstance(cause, h11.RemoteProtocolError) and cause.error_status_hint == 431:
            self._refuse(HeadersTooLargeError())
        else:
            self._refuse(ValidationError("The request is no HTTP that can be read"))

    def _refuse(self, error: ToolError) -> None:
        from tools_app.api import errors, headers

        self._refused = True
        self._unwatch_head()
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            # An answer is on its way out already: nothing can be said any more.
            self.transport.close()
            return
        made = errors.envelope(error)
        told: list[tuple[Any, Any]] = [(name.lower(), value) for name, value in made.items()]
        told += [*headers.STRICT, ("content-length", str(len(made.content))), ("connection", "close")]
        reason = HTTPStatus(made.status_code).phrase.encode()
        for event in (
            h11.Response(status_code=made.status_code, headers=told, reason=reason),
            h11.Data(data=made.content),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        # Whoever is still sending would lose the answer with the connection.
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


# How uvicorn is to serve the hub, whoever starts it.
SERVING: Final[dict[str, Any]] = {
    "http": Connection,
    "lifespan": "on",
    "log_config": None,
    # It would print query strings, where people put keys; the engine's own lines say more about a call.
    "access_log": False,
    # Which proxies are believed is the application's business.
    "proxy_headers": False,
    "server_header": False,
}
