"""An agent that speaks MCP over HTTP in bare messages: it can send anything, and sees everything that comes back."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import httpx

from tests.support.agents import LEGACY, MODERN, PREFIX

ACCEPT = "application/json, text/event-stream"
HELLO = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


class HttpAgent:
    """A client with a key, in one of the eras. Closed with the block."""

    def __init__(self, url: str, key: str | None, era: str = MODERN, path: str = "/mcp") -> None:
        self.era = era
        self.path = path
        self.session: str | None = None
        self._ids = itertools.count(1)
        given = {"Authorization": f"Bearer {key}"} if key else {}
        self.http = httpx.Client(base_url=url, headers=given, timeout=30, trust_env=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.http.close()

    # ---- one message

    def message(self, method: str, params: dict[str, Any] | None = None, request_id: Any = None) -> dict[str, Any]:
        """A request; a notification where the id is None and the method says so."""
        made: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": dict(params or {})}
        if not method.startswith("notifications/"):
            made["id"] = next(self._ids) if request_id is None else request_id
            if self.era == MODERN:
                made["params"]["_meta"] = {
                    f"{PREFIX}protocolVersion": MODERN,
                    f"{PREFIX}clientCapabilities": {},
                    f"{PREFIX}clientInfo": {"name": "test", "version": "1"},
                    **made["params"].get("_meta", {}),
                }
        return made

    def headers(self, message: dict[str, Any], **changed: str | None) -> dict[str, str]:
        """Those that belong to a message; `changed` by their names with underscores, None to leave one out."""
        made: dict[str, str | None] = {"content-type": "application/json", "accept": ACCEPT}
        if self.era == MODERN:
            made |= {"mcp-protocol-version": MODERN, "mcp-method": message.get("method", "")}
            params = message.get("params", {})
            if (named := params.get("name", params.get("uri"))) is not None:
                made["mcp-name"] = named
        elif self.session is not None:
            made |= {"mcp-protocol-version": self.era, "mcp-session-id": self.session}
        made |= {name.replace("_", "-"): value for name, value in changed.items()}
        return {name: value for name, value in made.items() if value is not None}

    def send(self, message: dict[str, Any], **changed: str | None) -> httpx.Response:
        return self.http.post(self.path, content=json.dumps(message), headers=self.headers(message, **changed))

    def send_raw(self, body: bytes | Iterator[bytes], **changed: str | None) -> httpx.Response:
        message = {"method": "tools/list"}
        return self.http.post(self.path, content=body, headers=self.headers(message, **changed))

    @contextmanager
    def stream(self, message: dict[str, Any] | None) -> Iterator[Iterator[dict[str, Any]]]:
        """The messages of an answer as they come; without a message those of the GET stream of the session."""
        method = "POST" if message is not None else "GET"
        body = json.dumps(message) if message is not None else None
        with self.http.stream(method, self.path, content=body, headers=self.headers(message or {})) as response:
            assert response.status_code == 200, response.read()
            yield messages(response.iter_lines())

    # ---- whole exchanges

    def connect(self) -> dict[str, Any]:
        """The handshake, or what is in its place."""
        if self.era == MODERN:
            return self.ask("server/discover")
        response = self.send(self.message("initialize", HELLO))
        assert response.status_code == 200, response.text
        self.session = response.headers.get("mcp-session-id")
        told = self.send(self.message("notifications/initialized"))
        assert told.status_code == 202, told.text
        result: dict[str, Any] = answer(response)["result"]
        return result

    def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        response = self.send(self.message(method, params))
        assert response.status_code == 200, response.text
        result: dict[str, Any] = answer(response)["result"]
        return result

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        return self.ask("tools/call", {"name": name, "arguments": arguments})

    def names(self) -> list[str]:
        return [tool["name"] for tool in self.ask("tools/list")["tools"]]


def messages(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        if line.startswith("data:"):
            yield json.loads(line.removeprefix("data:"))


def answer(response: httpx.Response) -> dict[str, Any]:
    """The answer to a request, whichever way it came."""
    if response.headers["content-type"].startswith("application/json"):
        found: dict[str, Any] = response.json()
        return found
    return [message for message in messages(iter(response.text.splitlines())) if "id" in message][-1]


def scope_of(headers: dict[str, str]) -> dict[str, Any]:
    """An ASGI request to the MCP door, for tests without a server."""
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/mcp",
        "raw_path": b"/mcp",
        "root_path": "",
        "query_string": b"",
        "client": ("192.0.2.9", 50_000),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
