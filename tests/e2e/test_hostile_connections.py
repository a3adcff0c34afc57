"""A real server, and connections that are opened to keep others out: idle, slow, and made to be misunderstood."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import httpx
import pytest

from tests.support.agents import MODERN
from tests.support.http_agents import HttpAgent
from tests.support.processes import Home, Server, key_in

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


def test_a_stranger_is_told_at_once_and_not_waited_for(server: Server) -> None:
    head = b"POST /v1/tools/call HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(head)
        received = b""
        while more := connection.recv(65536):
            received += more

    assert received.startswith(b"HTTP/1.1 401 ")
    assert b"connection: close" in received.lower()
