"""Traces of real hubs, as a collector gets them: REST, MCP over HTTP and stdio, the shell, and a hub behind the hub."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.agents import LEGACY, Agent
from tests.support.collector import Collector, Seen
from tests.support.http_agents import HttpAgent
from tests.support.processes import Home, Server, key_in
from tests.support.tools import eventually

STRANGER = "00f067aa0ba902b7"
SECRET = "hunter2-Xy9"


@dataclass
class Pair:
    collector: Collector
    outer: Home
    server: Server
    key: str
    inner: Server

    def traced(self, trace_id: str, count: int) -> list[Seen]:
        """The spans of a trace, each after the one that it belongs to."""
        assert eventually(lambda: len(self.collector.of(trace_id)) >= count)
        spans = {span.parent_id: span for span in self.collector.of(trace_id)}
        assert len(spans) == count, spans
        chain = [spans.pop(STRANGER if STRANGER in spans else "")]
        while spans:
            chain.append(spans.pop(chain[-1].span_id))
        return chain


def ran(home: Home, *arguments: str, stdin: str = "") -> str:
    done = home.run(*arguments, stdin=stdin)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A hub with another one as an upstream MCP server, both of which export."""
    path = tmp_path_factory.mktemp("traces")
    with Collector() as collector:
        logs = {"LOG_LEVEL": "debug", "TOOLHUB_LOG_FORMAT": "json"}
        inner = Home(path / "inner", {**collector.variables, "OTEL_SERVICE_NAME": "inner"})
        outer = Home(path / "outer", {**collector.variables, "OTEL_SERVICE_NAME": "outer", **logs})
        with inner.serving() as upstream, outer.serving() as server:
            boss = {"X-API-Key": key_in(ran(outer, "addkey", "boss", "--scope", "admin:*"))}
            with httpx.Client(base_url=server.url, headers=boss, trust_env=False, timeout=60) as rest:

                def send(method: str, path: str, **body: Any) -> dict[str, Any]:
                    told = rest.request(method, f"/v1/{path}", json=body)
                    assert told.status_code < 300, told.text
                    made: dict[str, Any] = told.json()
                    return made

                address = {"location": f"{upstream.url}/mcp", "internal": True}
                send("POST", "sources", name="inner", **address)
                token = {"token": key_in((inner.path / "first-login.txt").read_text())}
                send("POST", "connections", name="main", pack="inner", form="bearer", secrets=token)
                send("PATCH", "sources/inner", connection="main")
                send("PATCH", "sources/inner", enabled=True)
                send("POST", "sources/inner/describe")
                send("POST", "sources/inner/approve", tools=["inner_echo"], enable=True)
                send("POST", "toolsets", name="all", packs=["inner", "builtin"])
                key = send("POST", "keys", name="user", toolsets=["all"], connections=["main"])["key"]
            yield Pair(collector, outer, server, key, upstream)


def of(number: int, flags: str = "00") -> tuple[str, str]:
    """A trace of a client, and its header."""
    trace_id = f"{number:032x}"
    return trace_id, f"00-{trace_id}-{STRANGER}-{flags}"


def test_one_trace_goes_through_two_hubs(pair: Pair) -> None:
    trace_id, traceparent = of(1)
    headers = {"X-API-Key": pair.key, "traceparent": traceparent, "tracestate": "vendor=1"}
    body = {"name": "inner_echo", "parameters": {"message": SECRET}}
    told = httpx.post(f"{pair.server.url}/v1/tools/call", json=body, headers=headers, trust_env=False)
    assert told.status_code == 200, told.text
    chain = pair.traced(trace_id, 3)
    assert [(span.service, span.kind, span.name) for span in chain] == [
        ("outer", "SERVER", "POST /v1/tools/call"),
        ("outer", "CLIENT", "tools/call echo"),
        ("inner", "SERVER", "tools/call echo"),
    ]
    assert [span.state for span in chain] == ["vendor=1"] * 3
    rest, sent, received = (span.attributes for span in chain)
    assert rest == {
        "http.request.method": "POST",
        "http.route": "/v1/tools/call",
        "http.response.status_code": 200,
        "url.scheme": "http",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "inner_echo",
        "toolhub.call.id": told.json()["callId"],
    }
    assert (sent["server.address"], sent["server.port"]) == ("127.0.0.1", pair.inner.port)
    assert received["jsonrpc.request.id"] == sent["jsonrpc.request.id"]
    for attributes in (sent, received):
        assert attributes["mcp.method.name"] == "tools/call"
        assert attributes["network.transport"] == "tcp"
    assert not any(span.is_error for span in chain)


def test_mcp_names_the_trace_in_meta_and_fails_as_its_conventions_say(pair: Pair) -> None:
    def ask(number: int, name: str, **arguments: Any) -> Seen:
        trace_id, traceparent = of(number)
        # What carries the message has a trace of its own, which is linked.
        _, around = of(0x99)
        params = {"name": name, "arguments": arguments, "_meta": {"traceparent": traceparent}}
        agent.send(agent.message("tools/call", params), traceparent=around)
        (span,) = pair.traced(trace_id, 1)
        assert span.links == (f"{0x99:032x}",)
        return span

    with HttpAgent(pair.server.url, pair.key, era=LEGACY) as agent:
        agent.connect()
        good = ask(2, "echo", message="hi")
        assert (good.kind, good.name, good.is_error) == ("SERVER", "tools/call echo", False)
        assert good.attributes["mcp.session.id"] == agent.session
        assert good.attributes["mcp.protocol.version"] == LEGACY
        failed = ask(3, "echo", message=7)
        assert failed.attributes["error.type"] == "tool_error"
        assert failed.attributes["toolhub.error.code"] == "VALIDATION_ERROR"
        assert failed.is_error
        # A name that no tool has is not in the name of a span.
        unknown = ask(4, SECRET)
        assert (unknown.name, unknown.attributes["error.type"]) == ("tools/call", "-32602")
        assert "gen_ai.tool.name" not in unknown.attributes


@pytest.mark.parametrize(
    "traceparent", ["", "00-1-2-3", f"00-{'0' * 32}-{STRANGER}-01", f"ff-{'1' * 32}-{STRANGER}-01"]
)
def test_nonsense_begins_a_trace_of_its_own(pair: Pair, traceparent: str) -> None:
    seen = len(pair.collector.spans)
    headers = {"X-API-Key": pair.key, "traceparent": traceparent}
    told = httpx.get(f"{pair.server.url}/v1/tools", headers=headers, trust_env=False)
    assert told.status_code == 200
    assert eventually(lambda: len(pair.collector.spans) > seen)
    assert pair.collector.spans[seen].parent_id == ""
    assert pair.collector.spans[seen].attributes["http.route"] == "/v1/tools"


def test_nothing_of_a_call_but_names_is_exported_and_logs_name_trace_and_call(pair: Pair) -> None:
    headers = {"X-API-Key": pair.key, "traceparent": of(5)[1]}
    url = f"{pair.server.url}/v1/tools/echo/call"
    told = httpx.post(url, params={"timeout": 4321}, json={"message": SECRET}, headers=headers, trust_env=False).json()
    (span,) = pair.traced(of(5)[0], 1)
    assert span.name == "POST /v1/tools/<name>/call"
    sent = b"".join(pair.collector.bodies)
    assert not [word for word in (SECRET, "4321", pair.key) if word.encode() in sent]

    def logged() -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in pair.server.errors if line.startswith("{")]
        return [line for line in lines if line.get("call_id") == told["callId"]]

    assert eventually(lambda: bool(logged()))
    assert {line["trace_id"] for line in logged()} == {of(5)[0]}


def test_stdio_and_the_shell_export_before_they_end(pair: Pair) -> None:
    with Agent(pair.outer) as agent:
        agent.connect()
        trace_id, traceparent = of(6)
        asked = agent.ask(
            "tools/call", {"name": "echo", "arguments": {"message": "hi"}, "_meta": {"traceparent": traceparent}}
        )
        agent.result(asked)
        agent.leave()
    (span,) = pair.traced(trace_id, 1)
    assert (span.kind, span.name, span.attributes["network.transport"]) == ("SERVER", "tools/call echo", "pipe")
    seen = len(pair.collector.spans)
    ran(pair.outer, "calltool", "echo", '{"message": "hi"}')
    # The command has ended: nothing comes later.
    (span,) = pair.collector.spans[seen:]
    assert (span.kind, span.name, span.parent_id) == ("INTERNAL", "execute_tool echo", "")


def test_a_dead_collector_costs_no_call_and_is_logged_once(tmp_path: Path) -> None:
    with Collector() as collector:
        collector.status = 500
        home = Home(tmp_path / "home", {**collector.variables, "LOG_LEVEL": "info"})
        with home.serving() as server:
            headers = {"X-API-Key": key_in(ran(home, "addkey", "agent"))}
            body = {"name": "echo", "parameters": {"message": "hi"}}
            for count in range(1, 11):
                told = httpx.post(f"{server.url}/v1/tools/call", json=body, headers=headers, trust_env=False)
                assert told.status_code == 200
                assert eventually(functools.partial(collector.was_asked, count))
        said = [line for line in server.errors if "opentelemetry" in line or "races cannot be exported" in line]
        assert len(said) == 1, said
        assert "HTTP 500" in said[0]


def test_off_nothing_of_opentelemetry_is_imported_and_without_the_extra_it_says_so(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    program = """
import sys
import toolhub.asgi
print(sorted(name for name in sys.modules if name.partition(".")[0] == "opentelemetry"))
"""
    done = home.python(program)
    assert done.stdout.splitlines()[-1:] == ["[]"], done.stderr
    without = "import sys; sys.modules['opentelemetry.exporter'] = None; import django; django.setup()"
    refused = Home(home.path, {"OTEL_TRACES_EXPORTER": "otlp"}).python(without)
    assert "OTEL_TRACES_EXPORTER: traces need OpenTelemetry's SDK, which is not installed" in refused.stderr
