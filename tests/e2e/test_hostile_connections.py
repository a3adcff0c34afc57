"""A real server and hostile connections: idle, slow and ambiguous."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.agents import MODERN
from tests.support.http_agents import HttpAgent
from tests.support.processes import Home, Server, key_in
from tests.support.tools import eventually

IDLE = 200
CALLS = 100
CALL = {"name": "echo", "parameters": {"message": "hi"}}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    unlimited = dict.fromkeys(("TOOLHUB_RATE_CALLS", "TOOLHUB_KEY_RATE_CALLS", "TOOLHUB_ANONYMOUS_RATE_CALLS"), "0")
    made = Home(tmp_path_factory.mktemp("connections") / "home", unlimited)
    assert made.run("synctools").returncode == 0
    return made


@pytest.fixture(scope="module")
def server(home: Home) -> Iterator[Server]:
    with home.serving() as running:
        yield running


@pytest.fixture(scope="module")
def key(home: Home) -> str:
    return key_in(home.run("addkey", "connections").stdout)


@contextlib.contextmanager
def idle_connections(server: Server, path: str, length: int, *headers: str) -> Iterator[None]:
    """Connections that announce a body and never send it."""
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", *headers, f"Content-Length: {length}", "", ""]
    head = "\r\n".join(lines).encode()
    with contextlib.ExitStack() as opened:
        for _ in range(IDLE):
            connection = socket.create_connection(("127.0.0.1", server.port), timeout=10)
            opened.enter_context(connection).sendall(head)
        yield


@pytest.mark.parametrize("known", [False, True])
def test_idle_connections_do_not_close_rest(server: Server, key: str, known: bool) -> None:
    attackers = [f"X-API-Key: {key}"] if known else []
    with (
        idle_connections(server, "/v1/tools/call", 1024 * 1024, "Content-Type: application/json", *attackers),
        httpx.Client(base_url=server.url, headers={"X-API-Key": key}, trust_env=False, timeout=30) as client,
    ):
        statuses = [client.post("/v1/tools/call", json=CALL).status_code for _ in range(CALLS)]

    assert statuses.count(200) >= CALLS * 0.99


def test_idle_connections_do_not_close_mcp(server: Server, key: str) -> None:
    headers = ("Content-Type: application/json", "Accept: application/json, text/event-stream", f"X-API-Key: {key}")
    with idle_connections(server, "/mcp", 4 * 1024 * 1024, *headers), HttpAgent(server.url, key, era=MODERN) as agent:
        statuses = [agent.send(agent.message("tools/list")).status_code for _ in range(CALLS)]

    assert statuses.count(200) >= CALLS * 0.99


def test_idle_connections_do_not_close_the_admin(server: Server) -> None:
    with (
        idle_connections(server, "/admin/login/", 1024 * 1024, "Content-Type: application/x-www-form-urlencoded"),
        httpx.Client(base_url=server.url, trust_env=False, timeout=30) as client,
    ):
        client.get("/admin/login/")
        form = {"username": "nobody", "password": "wrong", "csrfmiddlewaretoken": client.cookies["toolhub_csrf"]}
        statuses = [client.post("/admin/login/", data=form).status_code for _ in range(5)]

    assert statuses == [200] * 5


def test_a_request_without_a_key_is_refused_before_its_body(server: Server) -> None:
    received = raw(server, b"POST /v1/tools/call HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n")

    assert received.startswith(b"HTTP/1.1 401 ")
    assert b"connection: close" in received.lower()


def raw(server: Server, sent: bytes) -> bytes:
    """What comes back until the server hangs up."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(sent)
        received = b""
        while more := connection.recv(65536):
            received += more
    return received


def descriptors(server: Server) -> int:
    return len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))


def threads(server: Server) -> int:
    return len(list(Path(f"/proc/{server.process.pid}/task").iterdir()))


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks at the server as Linux shows it")
@pytest.mark.parametrize("path", ["/static/unfold/css/styles.css", "/admin/login/"])
def test_readers_that_do_not_read_hold_no_threads_and_are_let_go(server: Server, path: str) -> None:
    asked = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() * 20
    before = threads(server)
    with contextlib.ExitStack() as opened:
        for _ in range(IDLE):
            connection = socket.socket()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            opened.enter_context(connection).connect(("127.0.0.1", server.port))
            connection.sendall(asked)
        assert eventually(lambda: descriptors(server) >= IDLE, 20)
        assert httpx.get(f"{server.url}/health", trust_env=False, timeout=30).status_code == 200
        # Those that make pages at the time, of which there may be 64, and none for each of the connections.
        assert threads(server) <= before + 80
        assert eventually(lambda: descriptors(server) < IDLE / 2, 60)


@pytest.mark.parametrize(
    "lines",
    [
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\ncontent-length: 5",
        "X-Note: one\r\n two",
        "X-Note: one\r\n\tTransfer-Encoding: chunked",
    ],
)
def test_an_ambiguous_request_is_refused(server: Server, lines: str) -> None:
    head = f"POST /v1/tools/call HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n\r\n"
    smuggled = "0\r\n\r\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"

    received = raw(server, (head + smuggled).encode())

    assert received.startswith(b"HTTP/1.1 400 ")
    assert received.count(b"HTTP/1.1 ") == 1
    assert b'"code":"VALIDATION_ERROR"' in received
