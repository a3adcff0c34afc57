"""What a door for agents is sent that is no agent: foreign pages, bodies made to hurt, headers that lie."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from mcp_types import HEADER_MISMATCH, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR, UNSUPPORTED_PROTOCOL_VERSION

from tests.support.agents import LEGACY, MODERN, PREFIX
from tests.support.http_agents import HELLO, HttpAgent, answer
from tests.support.processes import Home, Server, key_in

MIB = 1024 * 1024
ERAS = pytest.mark.parametrize("era", [LEGACY, MODERN])


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    made = Home(tmp_path_factory.mktemp("hostile") / "home", {"TOOLHUB_RATE_CALLS": "0", "TOOLHUB_KEY_RATE_CALLS": "0"})
    assert made.run("synctools").returncode == 0
    return made


@pytest.fixture(scope="module")
def server(home: Home) -> Iterator[Server]:
    with home.serving(TOOLHUB_PUBLIC_URL="https://hub.example.org/hub") as running:
        yield running


@pytest.fixture(scope="module")
def key(home: Home) -> str:
    return key_in(home.run("addkey", "hostile").stdout)


@pytest.fixture
def agent(server: Server, key: str) -> Iterator[HttpAgent]:
    with HttpAgent(server.url, key) as made:
        yield made
        assert "echo" in made.names(), "whatever it was sent, it goes on"


@pytest.mark.parametrize(
    "origin",
    [
        *("null", "", "http://evil.example", "http://localhost.evil", "http://127.0.0.1", "http://127.0.0.1:1"),
        *("https://127.0.0.1:{port}", "HTTP://127.0.0.1:{port}", "http://127.0.0.1:{port}/", "http://localhost:{port}"),
        *(
            "http://127.0.0.1:{port}.evil",
            "http://evil@127.0.0.1:{port}",
            "http://sub.127.0.0.1:{port}",
            "*",
            "file://",
        ),
        "https://sub.hub.example.org",
    ],
)
def test_pages_of_other_origins_stay_out(agent: HttpAgent, server: Server, origin: str) -> None:
    response = agent.send(agent.message("tools/list"), origin=origin.format(port=server.port))
    assert response.status_code == 403
    assert response.json()["error"]["code"] == INVALID_REQUEST
    assert not [name for name in response.headers if name.startswith("access-control-")]


@pytest.mark.parametrize("origin", ["http://127.0.0.1:{port}", "https://hub.example.org"])
def test_own_origins_are_accepted(agent: HttpAgent, server: Server, origin: str) -> None:
    assert agent.send(agent.message("tools/list"), origin=origin.format(port=server.port)).status_code == 200


@pytest.mark.parametrize(
    "variables",
    [
        {"TOOLHUB_CORS_ORIGINS": "https://app.example.org"},
        {"CORS_ENABLED": "true", "CORS_ORIGIN": "https://app.example.org"},
        {"CORS_ENABLED": "true", "CORS_ORIGIN": "https://other.example.org, https://app.example.org"},
    ],
)
def test_pages_of_an_allowed_site_are_accepted(home: Home, key: str, variables: dict[str, str]) -> None:
    site = "https://app.example.org"
    with home.serving(**variables) as server, HttpAgent(server.url, key) as agent:
        asked = {
            "origin": site,
            "access-control-request-method": "POST",
            "access-control-request-headers": "mcp-method",
        }
        allowed = agent.http.options("/mcp", headers=asked)
        assert allowed.status_code == 204
        assert "Mcp-Method" in allowed.headers["access-control-allow-headers"]
        response = agent.send(agent.message("tools/list"), origin=site)
        assert response.status_code == 200
        assert response.headers["access-control-allow-origin"] == site
        assert "Mcp-Session-Id" in response.headers["access-control-expose-headers"]
        assert agent.send(agent.message("tools/list"), origin="https://app.example.com").status_code == 403


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil", "127.0.0.1.evil:80", "evil.example:{port}", "", "a b", "[::1", "0.0.0.0"]
)
def test_other_names_for_this_machine_are_refused(agent: HttpAgent, server: Server, host: str) -> None:
    response = agent.send(agent.message("tools/list"), host=host.format(port=server.port))
    assert response.status_code == 421
    assert response.json()["error"]["code"] == INVALID_REQUEST


def test_a_body_can_have_four_mebibytes_and_no_more(agent: HttpAgent) -> None:
    empty = agent.message("tools/call", {"name": "echo", "arguments": {"message": ""}})
    spare = 4 * MIB - len(json.dumps(empty))
    empty["params"]["arguments"]["message"] = "x" * spare
    whole = json.dumps(empty).encode()
    assert len(whole) == 4 * MIB
    headers = agent.headers(empty)
    assert agent.http.post("/mcp", content=whole, headers=headers).status_code == 200
    for body in (whole + b" ", iter([whole, b" "])):
        response = agent.http.post("/mcp", content=body, headers=headers)
        assert response.status_code == 413
        assert response.headers["content-type"].startswith("application/json")


@ERAS
@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", PARSE_ERROR),
        (b"{", PARSE_ERROR),
        (b"\xef\xbb\xbf{}", PARSE_ERROR),
        ('{"a": 1}'.encode("utf-16"), PARSE_ERROR),
        (b"[" * 100_000, PARSE_ERROR),
        (b"[" * 65 + b"]" * 65, PARSE_ERROR),
        (b'{"a":' * 1_500 + b"1" + b"}" * 1_500, PARSE_ERROR),
        (b'{"jsonrpc": "2.0", "id": 1, "id": 2, "method": "tools/list"}', PARSE_ERROR),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"a": NaN}}', PARSE_ERROR),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"a": 1e400}}', PARSE_ERROR),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"a": ' + b"9" * 5_000 + b"}}", PARSE_ERROR),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"a": "\\ud800"}}', PARSE_ERROR),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"a": "\\u0000"}}', PARSE_ERROR),
        (b"{" + b",".join(b'"%d":1' % n for n in range(200_000)) + b"}", PARSE_ERROR),
        (b"[]", INVALID_REQUEST),
        (b'[{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}]', INVALID_REQUEST),
        (b"1", INVALID_REQUEST),
        (b"{}", INVALID_REQUEST),
        (b'{"jsonrpc": "1.0", "id": 1, "method": "tools/list"}', INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": null, "method": "tools/list"}', INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": {}, "method": "tools/list"}', INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": 1, "method": 1}', INVALID_REQUEST),
    ],
)
def test_an_invalid_message_is_reported_as_such(server: Server, key: str, era: str, body: bytes, code: int) -> None:
    with HttpAgent(server.url, key, era) as agent:
        agent.connect()
        response = agent.send_raw(body)
        assert response.status_code == 400
        assert response.json()["error"]["code"] == code
        assert "echo" in agent.names()


@pytest.mark.parametrize(
    ("changed", "status", "code"),
    [
        ({"mcp_method": "tools/list"}, 400, HEADER_MISMATCH),
        ({"mcp_method": None}, 400, HEADER_MISMATCH),
        ({"mcp_name": "calculate"}, 400, HEADER_MISMATCH),
        ({"mcp_name": None}, 400, HEADER_MISMATCH),
        ({"mcp_name": "=?base64?!?="}, 400, HEADER_MISMATCH),
        ({"mcp_protocol_version": "2099-01-01"}, 400, HEADER_MISMATCH),
        ({"content_type": "text/plain"}, 415, INVALID_REQUEST),
        ({"content_type": None}, 415, INVALID_REQUEST),
        ({"content_type": "application/jsonp"}, 415, INVALID_REQUEST),
        ({"content_type": "application/json; charset=utf-16"}, 415, INVALID_REQUEST),
        ({"content_encoding": "gzip"}, 415, INVALID_REQUEST),
        ({"accept": "application/json"}, 406, INVALID_REQUEST),
        ({"accept": "text/html"}, 406, INVALID_REQUEST),
    ],
)
def test_headers_must_match(agent: HttpAgent, changed: dict[str, str | None], status: int, code: int) -> None:
    message = agent.message("tools/call", {"name": "echo", "arguments": {"message": "hi"}})
    response = agent.send(message, **changed)
    assert response.status_code == status
    assert response.json()["error"]["code"] == code


def test_headers_can_be_encoded(agent: HttpAgent) -> None:
    message = agent.message("tools/call", {"name": "echo", "arguments": {"message": "hi"}})
    assert agent.send(message, mcp_name="=?base64?ZWNobw==?=").status_code == 200


def test_a_version_that_is_not_spoken_is_refused_with_those_that_are(agent: HttpAgent) -> None:
    meta = {f"{PREFIX}protocolVersion": "2099-01-01"}
    response = agent.send(agent.message("tools/list", {"_meta": meta}), mcp_protocol_version="2099-01-01")
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["code"] == UNSUPPORTED_PROTOCOL_VERSION
    assert error["data"] == {"supported": [MODERN], "requested": "2099-01-01"}


def test_a_modern_message_needs_its_envelope_and_a_method_that_exists(agent: HttpAgent) -> None:
    bare = agent.message("tools/list")
    del bare["params"]["_meta"]
    response = agent.send(bare)
    assert (response.status_code, response.json()["error"]["code"]) == (400, -32602)
    unknown = agent.send(agent.message("tools/burn"))
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, METHOD_NOT_FOUND)


@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS", "HEAD", "TRACE"])
def test_other_methods_are_refused(agent: HttpAgent, method: str) -> None:
    response = agent.http.request(method, "/mcp")
    assert response.status_code == 405
    assert response.headers["allow"] == "GET, POST, DELETE"


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_the_modern_era_knows_only_post(agent: HttpAgent, method: str) -> None:
    response = agent.http.request(method, "/mcp", headers={"mcp-protocol-version": MODERN})
    assert response.status_code == 405
    assert response.headers["allow"] == "POST"


def test_a_session_begins_with_the_handshake(server: Server, key: str) -> None:
    with HttpAgent(server.url, key, LEGACY) as agent:
        assert agent.send(agent.message("tools/list")).status_code == 400
        assert agent.send(agent.message("notifications/initialized")).status_code == 400
        assert agent.http.get("/mcp", headers={"accept": "text/event-stream"}).status_code == 400
        broken = agent.send(agent.message("initialize", {"protocolVersion": 1}))
        assert "mcp-session-id" not in broken.headers or answer(broken)["error"]


@ERAS
def test_each_client_gets_only_its_own_answers(home: Home, server: Server, key: str, era: str) -> None:
    """20 clients at once, all counting their messages alike; some hang up before they are answered."""
    other = key_in(home.run("addkey", f"other-{era}").stdout)
    begin = threading.Barrier(20)

    def client(number: int) -> list[str]:
        wrong = []
        with HttpAgent(server.url, key if number % 2 else other, era) as agent:
            agent.connect()
            begin.wait(30)
            for call in range(2, 52):
                said = f"client {number} call {call}"
                message = agent.message("tools/call", {"name": "echo", "arguments": {"message": said}}, call)
                if call % 10 == 0:
                    hang_up(server.port, agent, message)
                    continue
                got = answer(agent.send(message))
                if got["id"] != call or json.loads(got["result"]["content"][0]["text"]) != {"message": said}:
                    wrong.append(f"{said}: {got}")
        return wrong

    with ThreadPoolExecutor(20) as pool:
        assert [wrong for each in pool.map(client, range(20)) for wrong in each] == []


def hang_up(port: int, agent: HttpAgent, message: dict[str, Any]) -> None:
    """Send a message, and be gone before it is answered."""
    body = json.dumps(message).encode()
    headers = {**dict(agent.http.headers), **agent.headers(message), "host": f"127.0.0.1:{port}"}
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall(f"POST /mcp HTTP/1.1\r\n{head}content-length: {len(body)}\r\n\r\n".encode() + body)


def test_endless_handshakes_leave_no_more_sessions_than_the_limit(home: Home, key: str) -> None:
    with (
        home.serving(TOOLHUB_MCP_SESSIONS="50", LOG_LEVEL="error") as server,
        HttpAgent(server.url, key, LEGACY) as agent,
    ):
        sessions = []
        for _ in range(300):
            response = agent.send(agent.message("initialize", HELLO))
            assert response.status_code == 200
            sessions.append(response.headers["mcp-session-id"])
        assert len(set(sessions)) == 300
        assert all(len(session) == 32 for session in sessions)
        assert [session for session in sessions if lives(agent, session)] == sessions[-50:]


def lives(agent: HttpAgent, session: str) -> bool:
    agent.session = session
    return agent.send(agent.message("ping")).status_code == 200
