"""Connections that bring no request, or only slowly: what the server makes of them."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from contextlib import ExitStack

import httpx
import pytest

from tests.api.rest import failure
from tests.api.test_server import CALL, head_of, raw
from tests.support.tools import Hub, eventually
from tools_app.management import http_protocol
from tools_app.sdk.decorator import tool
from tools_app.sdk.hints import Hints


def answered(head: bytes, body: bytes) -> httpx.Response:
    """What came over the wire, as if a client had read it."""
    status, *lines = head.decode("latin-1").split("\r\n")
    return httpx.Response(
        int(status.split()[1]),
        headers=[(name, value) for name, _, value in (line.partition(": ") for line in lines)],
        content=body,
    )


def opened(server: httpx.Client, sent: bytes) -> socket.socket:
    """A connection on which so much has been sent."""
    connection = socket.create_connection((server.base_url.host, server.base_url.port or 80), timeout=10)
    connection.sendall(sent)
    return connection


GET = b"GET /v1/tools HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (b"\x00\x01\x02\r\n\r\n", 400, "VALIDATION_ERROR"),
        (b"GET /v1/t\xe4st HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "VALIDATION_ERROR"),
        (GET + b"X-A: a\rSet-Cookie: b\r\n\r\n", 400, "VALIDATION_ERROR"),
        (GET + b"X-A: a\0b\r\n\r\n", 400, "VALIDATION_ERROR"),
        (GET + b"Host: other\r\n\r\n", 400, "VALIDATION_ERROR"),
        (GET + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\n", 400, "VALIDATION_ERROR"),
        (GET + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n", 400, "VALIDATION_ERROR"),
        (GET + b"Transfer-Encoding: gzip\r\n\r\n", 400, "VALIDATION_ERROR"),
        (GET + b"a: b\r\n" * 10_000 + b"\r\n", 431, "HEADERS_TOO_LARGE"),
        (GET + b"X-A: " + b"a" * 40_000 + b"\r\n\r\n", 431, "HEADERS_TOO_LARGE"),
        (GET + b"X-A: " + b"a" * 200_000 + b"\r\n\r\n", 431, "HEADERS_TOO_LARGE"),
        (GET + b"X-A: " + b"a" * 10_000_000 + b"\r\n\r\n", 431, "HEADERS_TOO_LARGE"),
        (b"GET /v1/tools?a=" + b"a" * 10_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 414, "ADDRESS_TOO_LONG"),
        (b"GET /" + b"a" * 64_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 414, "ADDRESS_TOO_LONG"),
    ],
)
def test_what_cannot_be_read_is_refused_in_the_envelope(
    server: httpx.Client, sent: bytes, status: int, code: str
) -> None:
    response = answered(*raw(server, sent))

    failure(response, status, code)
    assert response.headers["Connection"] == "close"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert "Set-Cookie" not in response.headers
    assert server.get("/v1/tools").status_code == 200


def test_a_body_that_breaks_off_in_the_middle_of_nonsense_is_refused(server: httpx.Client) -> None:
    head, body = raw(server, head_of(server, "Transfer-Encoding: chunked"), b"zz\r\nhello\r\n")

    failure(answered(head, body), 400, "VALIDATION_ERROR")


@pytest.mark.parametrize("sent", [b"", b"GET /v1/tools HTTP/1.1\r\nHost: loc", b"G"])
def test_a_request_that_never_begins_is_not_waited_for(
    server: httpx.Client, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(http_protocol, "HEAD_SECONDS", 0.3)

    assert raw(server, sent) == (b"", b"")


def test_a_head_that_drips_is_not_waited_for(server: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "HEAD_SECONDS", 0.5)
    begun = time.monotonic()

    def drip(dripping: socket.socket) -> None:
        while time.monotonic() - begun < 20:
            dripping.sendall(b"X")
            time.sleep(0.05)

    with opened(server, GET) as dripping, pytest.raises(ConnectionError):
        drip(dripping)


def test_a_second_request_that_drips_is_not_waited_for(server: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(server, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n") as connection:
        received = b""
        while not received.endswith(b"}"):
            received += connection.recv(65536)
        monkeypatch.setattr(http_protocol, "HEAD_SECONDS", 0.3)
        connection.sendall(b"GET /hea")
        assert connection.recv(65536) == b""


def test_two_hundred_slow_clients_leave_the_others_alone(server: httpx.Client) -> None:
    head = head_of(server, "Content-Length: 1000")

    def took() -> list[float]:
        times = []
        for _ in range(50):
            begun = time.perf_counter()
            assert server.post("/v1/tools/call", json=CALL).status_code == 200
            times.append(time.perf_counter() - begun)
        return sorted(times)

    alone = took()
    with ExitStack() as slow:
        dripping = [slow.enter_context(opened(server, head[: len(head) - number % 2 * 30])) for number in range(200)]
        stop = threading.Event()

        def drip() -> None:
            while not stop.wait(0.1):
                for connection in dripping:
                    connection.sendall(b" ")

        dripper = threading.Thread(target=drip)
        dripper.start()
        try:
            beside = took()
        finally:
            stop.set()
            dripper.join()

    assert beside[25] < 10 * alone[25] + 0.1
    assert beside[47] < 2


def test_two_hundred_slow_calls_do_not_hold_up_the_list(server: httpx.Client, hub: Hub) -> None:
    release, running = threading.Event(), []

    async def slow() -> str:
        """Wait until it is released."""
        running.append(1)
        for _ in range(200):
            if release.is_set():
                break
            await asyncio.sleep(0.1)
        return "released"

    hub.add(tool(name="slow", hints=Hints(read_only=True, open_world=False))(slow))
    body = b'{"name": "slow"}'
    request = head_of(server, f"Content-Length: {len(body)}", "Connection: close") + body
    with ExitStack() as calls:
        waiting = [calls.enter_context(opened(server, request)) for _ in range(200)]
        assert eventually(lambda: len(running) == 200, 20)
        times = []
        for _ in range(20):
            begun = time.perf_counter()
            assert server.get("/v1/tools").status_code == 200
            times.append(time.perf_counter() - begun)
        release.set()
        statuses = [connection.makefile("rb").readline().split()[1] for connection in waiting]

    assert sorted(times)[10] < 1
    assert statuses == [b"200"] * 200


def test_the_head_of_a_response_comes_with_its_body(server: httpx.Client) -> None:
    body = b'{"name": "echo", "arguments": {"message": "hi"}}'
    request = head_of(server, f"Content-Length: {len(body)}") + body
    with opened(server, b"") as connection:
        for _ in range(20):
            connection.sendall(request)
            head, _, rest = connection.recv(65536).partition(b"\r\n\r\n")
            assert f"content-length: {len(rest)}\r\n".encode() in head.lower() + b"\r\n"


async def _joined(ours: socket.socket) -> http_protocol.JoinedWrites:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_connection(asyncio.Protocol, sock=ours)
    return http_protocol.JoinedWrites(transport, loop)


def test_what_is_written_waits_for_the_next_round_at_most() -> None:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)

    async def story() -> list[bytes]:
        joined = await _joined(ours)
        joined.write(b"head ")
        joined.write(b"body")
        with pytest.raises(BlockingIOError):
            theirs.recv(100)
        await asyncio.sleep(0)
        received = [theirs.recv(100)]
        joined.write(b"the end")
        assert joined.get_write_buffer_size() == 0  # which asks the transport
        received.append(theirs.recv(100))
        joined.write(b"last")
        joined.close()
        received.append(theirs.recv(100))
        return received

    with theirs:
        assert asyncio.run(story()) == [b"head body", b"the end", b"last"]


def test_what_is_long_is_sent_at_once() -> None:
    ours, theirs = socket.socketpair()

    async def story() -> None:
        joined = await _joined(ours)
        for _ in range(10):
            joined.write(b"x" * http_protocol.MOST_UNSENT)
        # Without a round of the event loop: at most one part is still unsent, the rest is the transport's to limit.
        assert len(joined._unsent) <= http_protocol.MOST_UNSENT
        assert joined._transport.get_write_buffer_size() > 0
        joined.abort()

    with theirs:
        asyncio.run(story())
