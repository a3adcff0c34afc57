"""REST over a real server and real connections."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator

import httpx
import pytest

from tests.api.rest import failure
from tests.support.tools import Hub, Programmable, blocking_tool
from tools_app import governance
from tools_app.models import Call
from tools_app.sdk.decorator import tool
from tools_app.sdk.hints import Hints

MEGABYTE = 1024 * 1024
CALL = {"name": "echo", "parameters": {"message": "hi"}}


def raw(server: httpx.Client, *parts: bytes, seconds: float = 10) -> tuple[bytes, bytes]:
    """Send bytes as they are and read until the server hangs up."""
    with socket.create_connection((server.base_url.host, server.base_url.port or 80), timeout=seconds) as connection:
        received = b""
        try:
            for part in parts:
                connection.sendall(part)
            while more := connection.recv(65536):
                received += more
        except ConnectionError:
            pass
    head, _, body = received.partition(b"\r\n\r\n")
    return head, body


def head_of(server: httpx.Client, *lines: str, path: str = "/v1/tools/call") -> bytes:
    key = server.headers["X-API-Key"]
    fixed = [f"POST {path} HTTP/1.1", "Host: localhost", f"X-API-Key: {key}", "Content-Type: application/json"]
    return "\r\n".join([*fixed, *lines, "", ""]).encode()


def test_serves_everything_over_http(server: httpx.Client) -> None:
    assert server.get("/").json()["message"] == "MCP Server is running"
    assert server.get("/health").json()["status"] == "healthy"
    assert [one["name"] for one in server.get("/v1/tools").json()["tools"]] == ["calculate", "echo", "read_result"]
    assert server.post("/v1/tools/call", json=CALL).json()["result"] == {"message": "hi"}
    assert server.get("/admin/login/").headers["content-type"].startswith("text/html")


def test_a_large_body_in_chunks_is_refused_and_the_answer_arrives(server: httpx.Client) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(40):
            yield b" " * 65536

    response = server.post("/v1/tools/call", content=chunks(), headers={"Content-Type": "application/json"})

    failure(response, 413, "BODY_TOO_LARGE")
    assert server.get("/v1/tools").status_code == 200


def test_a_large_body_with_its_length_is_refused_and_the_answer_arrives(server: httpx.Client) -> None:
    response = server.post(
        "/v1/tools/call", content=b" " * (3 * MEGABYTE), headers={"Content-Type": "application/json"}
    )

    failure(response, 413, "BODY_TOO_LARGE")
    assert server.get("/v1/tools").status_code == 200


def test_a_body_that_is_only_announced_is_refused_at_once(server: httpx.Client) -> None:
    begun = time.monotonic()

    head, body = raw(server, head_of(server, "Content-Length: 5000000", "Expect: 100-continue"))

    assert head.startswith(b"HTTP/1.1 413 ")
    assert json.loads(body)["code"] == "BODY_TOO_LARGE"
    assert time.monotonic() - begun < 20


def test_a_length_that_lies_does_not_let_a_large_body_in(server: httpx.Client) -> None:
    body = b"%x\r\n%s\r\n0\r\n\r\n" % (2 * MEGABYTE, b" " * (2 * MEGABYTE))

    head, _ = raw(server, head_of(server, "Content-Length: 5", "Transfer-Encoding: chunked"), body)

    assert head.startswith((b"HTTP/1.1 413 ", b"HTTP/1.1 400 "))


def test_a_body_without_end_is_cut_off(server: httpx.Client) -> None:
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"

    head, _ = raw(server, head_of(server, "Transfer-Encoding: chunked"), *[chunk] * 600)

    assert head.startswith(b"HTTP/1.1 413 ") or head == b""  # Whoever never stops sending may miss the answer.
    assert server.get("/v1/tools").status_code == 200


@pytest.mark.parametrize("type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
def test_another_type_of_body_is_refused(server: httpx.Client, type: str) -> None:
    response = server.post("/v1/tools/call", content=json.dumps(CALL), headers={"Content-Type": type})

    failure(response, 415, "UNSUPPORTED_MEDIA_TYPE")
    assert Call.objects.count() == 0


def test_a_compressed_bomb_is_not_unpacked(server: httpx.Client) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}

    failure(server.post("/v1/tools/call", content=b"\x1f\x8b" * 1000, headers=headers), 415, "UNSUPPORTED_MEDIA_TYPE")


def test_a_connection_stays_usable_after_every_refusal(server: httpx.Client) -> None:
    with socket.create_connection((server.base_url.host, server.base_url.port or 80), timeout=10) as connection:
        stream = connection.makefile("rb")
        for method, path, lines, body, status in (
            ("GET", "/nope", (), b"", 404),
            ("GET", "/v1/tools?limit=0", (), b"", 400),
            ("DELETE", "/v1/tools", (), b"", 405),
            ("HEAD", "/v1/tools", (), b"", 405),
            ("OPTIONS", "/v1/tools/call", (), b"", 405),
            ("POST", "/v1/tools/call", ("Content-Type: text/plain",), b"{}", 415),
            ("POST", "/v1/tools/call", ("Content-Type: application/json",), b"{", 400),
            ("POST", "/v1/tools/call", ("Content-Type: application/json",), b'{"name": "nope"}', 404),
            ("GET", "/tools", (), b"", 302),
            ("GET", "/v1/tools", (), b"", 200),
        ):
            head = [f"{method} {path} HTTP/1.1", "Host: localhost", f"X-API-Key: {server.headers['X-API-Key']}"]
            head += [*lines, f"Content-Length: {len(body)}", "", ""]
            connection.sendall("\r\n".join(head).encode() + body)
            answered = stream.readline()
            assert answered.split()[1] == str(status).encode(), (method, path, answered)
            length = 0
            while (line := stream.readline()) not in (b"\r\n", b""):
                name, _, value = line.decode().partition(":")
                length = int(value) if name.lower() == "content-length" else length
            if method != "HEAD":
                stream.read(length)


def test_the_old_addresses_lead_to_the_new_ones(server: httpx.Client) -> None:
    client = httpx.Client(base_url=server.base_url, headers=server.headers, trust_env=False, timeout=30)
    client.follow_redirects = True
    with client:
        listed = client.get("/tools?limit=1")
        called = client.post("/tools/call", json=CALL)

    assert (listed.url.path, len(listed.json()["tools"])) == ("/v1/tools", 1)
    assert called.url.path == "/v1/tools/call"
    assert called.json()["result"] == {"message": "hi"}


def test_a_caller_that_hangs_up_ends_its_call(server: httpx.Client, hub: Hub) -> None:
    ended = threading.Event()

    async def slow() -> None:
        """Take a minute."""
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    hub.add(tool(name="slow", hints=Hints(read_only=True))(slow))
    with pytest.raises(httpx.ReadTimeout):
        server.post("/v1/tools/call", json={"name": "slow"}, timeout=0.5)

    assert ended.wait(5)


@pytest.mark.parametrize("kind", ["async", "blocking"])
def test_twenty_slow_calls_do_not_hold_up_the_list(server: httpx.Client, hub: Hub, kind: str) -> None:
    release = threading.Event()
    if kind == "blocking":
        hub.add(blocking_tool("slow", release))
    else:

        async def slow() -> str:
            """Take two seconds."""
            await asyncio.sleep(2)
            return "released"

        hub.add(tool(name="slow", hints=Hints(read_only=True))(slow))
    statuses: list[int] = []

    def call() -> None:
        statuses.append(server.post("/v1/tools/call", json={"name": "slow"}, timeout=20).status_code)

    server.get("/v1/tools")
    threads = [threading.Thread(target=call) for _ in range(20)]
    for thread in threads:
        thread.start()
    time.sleep(0.3)

    taken = []
    for _ in range(20):
        begun = time.perf_counter()
        assert server.get("/v1/tools").status_code == 200
        taken.append(time.perf_counter() - begun)
    release.set()
    for thread in threads:
        thread.join(20)

    assert sorted(taken)[10] < 1
    assert statuses == [200] * 20


def test_a_switch_is_obeyed_by_the_next_call(server: httpx.Client, programmable: Programmable) -> None:
    assert server.post("/v1/tools/call", json={"name": "programmable"}).status_code == 200

    governance.set_enabled(["programmable"], False, actor=governance.trusted("test"))

    failure(server.post("/v1/tools/call", json={"name": "programmable"}), 403, "TOOL_DISABLED")
