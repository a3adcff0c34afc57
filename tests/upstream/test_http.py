"""Calls over HTTP: both eras, and what servers and networks do wrong."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import threading
import time
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import mcp_upstream
from tests.support.faultd import Faultd
from tests.support.mcp_upstream import McpUpstream, text, tool
from tests.upstream.conftest import Calls, Client, spec, text_of, until
from tools_app.sdk.accounts import Credentials
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import ApiError, ToolError, ToolExecutionError, UpstreamUnavailableError
from tools_app.sdk.hub_errors import DefinitionChangedError, UpstreamStartingError
from tools_app.sdk.spec import Kind
from tools_app.upstream import http, wire
from tools_app.upstream.results import UnansweredError, UnreadableError

pytestmark = pytest.mark.anyio

ERAS = [("legacy",), ("modern",)]


@pytest.fixture
def canary() -> Iterator[Faultd]:
    """A server that the hub must not connect to."""
    with Faultd(host="127.0.0.2") as inside:
        yield inside
    assert inside.connections == 0


@pytest.mark.parametrize("eras", [*ERAS, ("legacy", "modern")])
@pytest.mark.parametrize("events", [False, True])
async def test_a_call_in_each_era(server: McpUpstream, call: Calls, eras: tuple[str, ...], events: bool) -> None:
    server.eras, server.events = set(eras), events
    assert text_of(await call("echo", {"text": "hi"})) == '{"text": "hi"}'
    assert server.calls == [("echo", {"text": "hi"})]
    [(sent, session)] = call.noted
    assert sent == "yes"
    assert session.startswith("up-")


async def test_one_connection_serves_many_calls_at_once(server: McpUpstream, call: Calls) -> None:
    await asyncio.gather(*(call("echo", {"text": str(number)}) for number in range(30)))
    assert len(server.calls) == 30
    assert server.count("server/discover") == 1
    assert len({session for _, session in call.noted}) == 1


async def test_the_era_is_remembered(server: McpUpstream, call: Calls) -> None:
    server.eras = {"legacy"}
    await call("echo")
    await call.upstreams.reconnect("up")
    await call("echo")
    assert server.count("initialize") == 2
    assert server.count("server/discover") == 1


async def test_a_server_that_has_changed_its_era_is_found_again(server: McpUpstream, call: Calls) -> None:
    server.eras = {"legacy"}
    await call("echo")
    server.eras = {"modern"}
    await call.upstreams.reconnect("up")
    await call("echo")
    assert len(server.calls) == 2


# ---- what a source answers


async def test_an_upstream_gets_only_what_the_caller_sent(server: McpUpstream, call: Calls) -> None:
    properties = {"a": {"type": "string", "default": "x"}, "b": {"type": "integer"}}
    server.tools = [tool("echo", properties=properties)]
    await call.run(spec("echo", keys={"b": "b"}), {"b": 1})
    assert server.calls == [("echo", {"b": 1})]


async def test_content_is_kept_as_it_is_and_data_beside_it(server: McpUpstream, call: Calls) -> None:
    content = [
        {"type": "text", "text": "words"},
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "file:///a", "mimeType": "text/plain", "text": "all"}},
        {"type": "resource_link", "uri": "file:///b", "name": "b", "title": "B"},
    ]
    server.behave("echo", result={"content": content, "structuredContent": {"a": [1]}})
    outcome = await call("echo")
    assert [block.wire() for block in outcome.value] == content
    assert outcome.structured == {"a": [1]}


async def test_data_alone_is_text_as_well(server: McpUpstream, call: Calls) -> None:
    server.behave("echo", result={"structuredContent": {"a": 1}, "content": []})
    outcome = await call("echo")
    assert json.loads(text_of(outcome)) == outcome.structured == {"a": 1}


async def test_content_of_an_unknown_type_is_shown_as_data(server: McpUpstream, call: Calls) -> None:
    server.behave("echo", result={"content": [{"type": "hologram", "url": "x"}]})
    assert json.loads(text_of(await call("echo"))) == {"type": "hologram", "url": "x"}


async def test_fields_that_a_type_does_not_have_are_left_out(server: McpUpstream, call: Calls) -> None:
    # A `data` would otherwise keep invisible characters from being removed.
    server.behave("echo", result={"content": [{"type": "text", "text": "a", "data": "b", "_meta": {"c": 1}}]})
    [block] = (await call("echo")).value
    assert block.wire() == {"type": "text", "text": "a"}


@pytest.mark.parametrize(
    "result",
    [
        {"content": [{"text": "no type"}]},
        {"content": [{"type": "text", "text": 5}]},
        {"content": [{"type": "image", "data": "é", "mimeType": "image/png"}]},
        {"content": [{"type": "image", "data": "aa", "mimeType": "no type"}]},
        {"content": [{"type": "resource", "resource": {"uri": "no uri", "text": ""}}]},
        {"content": [{"type": "text", "text": ""}] * 10_001},
        {"content": [7]},
        {"content": 7},
    ],
)
async def test_a_result_that_is_none_is_an_error(server: McpUpstream, call: Calls, result: mcp_upstream.Json) -> None:
    server.behave("echo", result=result)
    with pytest.raises(UnreadableError) as caught:
        await call("echo")
    assert caught.value.is_unanswered


async def test_a_long_uri_is_refused_before_it_is_escaped(server: McpUpstream, call: Calls) -> None:
    server.behave("echo", result={"content": [{"type": "resource_link", "uri": "x:" + "é" * 3_000, "name": "x"}]})
    with pytest.raises(UnreadableError) as caught:
        await call("echo")
    assert "too long" in str(caught.value.__cause__)


async def test_a_failure_is_an_error_with_the_words_of_the_source(server: McpUpstream, call: Calls) -> None:
    server.behave("echo", result=text("No such city", isError=True))
    with pytest.raises(ToolExecutionError, match="No such city") as caught:
        await call("echo")
    assert not caught.value.blames_upstream
    assert call.noted[0][0] == "yes"


async def test_a_failure_told_as_success_is_recognised_by_a_rule(server: McpUpstream, call: Calls) -> None:
    server.behave("echo", result=text("Error searching libraries"))
    assert text_of(await call("echo"))
    with pytest.raises(ToolExecutionError, match="Error searching"):
        await call.to(failure_pattern="^Error ")("echo")
    assert text_of(await call.to(failure_pattern="^Warning ")("echo"))


@pytest.mark.parametrize(("code", "blames"), [(-32602, False), (-32603, True), (-32000, True), (-32042, False)])
async def test_an_error_of_the_protocol_says_who_is_to_blame(
    server: McpUpstream, call: Calls, code: int, blames: bool
) -> None:
    server.behave("echo", error=(code, "It does not work"))
    with pytest.raises(ApiError, match="It does not work") as caught:
        await call("echo")
    assert caught.value.blames_upstream is blames
    assert not caught.value.retryable


@pytest.mark.parametrize(
    "behaviour",
    [
        {"error": (-32602, "Unknown tool: echo")},
        {"error": (-32601, "Method not found")},
        {"error": (-32602, "MCP error -32602: Tool echo not found")},
        {"result": text("Unknown tool: echo", isError=True)},
    ],
)
@pytest.mark.django_db(transaction=True)
async def test_a_tool_that_is_gone_was_not_run(server: McpUpstream, call: Calls, behaviour: mcp_upstream.Json) -> None:
    server.behave("echo", **behaviour)
    with pytest.raises(DefinitionChangedError, match="does not know up_echo any more"):
        await call("echo")


async def test_an_error_that_mentions_a_tool_is_not_the_end_of_the_tool(server: McpUpstream, call: Calls) -> None:
    server.behave("echo", result=text("Tool hammer not found in the shed", isError=True))
    with pytest.raises(ToolExecutionError, match="hammer"):
        await call("echo")


async def test_prompts_and_resources(server: McpUpstream, call: Calls) -> None:
    [message] = (await call.run(spec("plan", kind=str(Kind.PROMPT)), {"city": "Rome"})).value
    assert message.wire() == {"role": "user", "content": {"type": "text", "text": '{"city": "Rome"}'}}
    [contents] = (await call.run(spec("file:///a", kind=str(Kind.RESOURCE)))).value
    assert contents.wire()["resource"] == {"uri": "file:///a", "text": "text of file:///a"}


# ---- while a call runs


@pytest.mark.parametrize("eras", ERAS)
async def test_progress_and_messages_reach_the_caller(server: McpUpstream, call: Calls, eras: tuple[str, ...]) -> None:
    server.eras = set(eras)
    server.behave("echo", progress=3, log=2)
    client = Client()
    await call("echo", client=client)
    await until(lambda: len(client.heard) == 5)
    assert {(1.0, 3.0, "on"), (3.0, 3.0, "on"), ("info", "message 0"), ("info", "message 1")} <= set(client.heard)


@pytest.mark.parametrize("eras", ERAS)
async def test_a_cancelled_call_is_cancelled_there(server: McpUpstream, call: Calls, eras: tuple[str, ...]) -> None:
    server.eras = set(eras)
    server.behave("echo", hang=True)
    task = asyncio.create_task(call("echo"))
    await until(lambda: server.calls)
    task.cancel()
    began = time.monotonic()
    await asyncio.wait({task})
    assert time.monotonic() - began < 30
    await until(lambda: server.cancelled)
    assert call.noted[0][0] == "maybe"


async def test_a_deadline_ends_a_call_although_the_server_hangs(server: McpUpstream, call: Calls) -> None:
    server.fail("tools/call", hang=True, times=0)
    with pytest.raises(TimeoutError):
        await call("echo", seconds=0.4)
    assert call.noted[0][0] == "maybe"


async def test_a_server_that_does_not_answer_yet_is_starting(server: McpUpstream, call: Calls) -> None:
    server.fail("*", hang=True, times=0)
    with pytest.raises(UpstreamStartingError) as caught:
        await call("echo", seconds=0.5)
    assert caught.value.nothing_done
    assert caught.value.retry_after
    assert call.noted[0][0] == "no"


# ---- what breaks


async def test_a_server_that_is_not_there_is_reported_at_once(call: Calls) -> None:
    absent = call.to(location="http://127.0.0.1:9/mcp")
    with pytest.raises(UpstreamUnavailableError, match="cannot be reached") as caught:
        await absent("echo", seconds=30)
    assert caught.value.nothing_done
    assert caught.value.retryable
    assert absent.noted == [("no", "")]


async def test_a_server_that_comes_back_is_used_again(call: Calls) -> None:
    with mcp_upstream.running() as first:
        moved = call.to(location=first.url)
        await moved("echo")
    with pytest.raises(ToolError):
        await moved("echo")
    with mcp_upstream.running(port=first.port) as second:
        await moved("echo")
        assert len(second.calls) == 1


@pytest.mark.parametrize(
    ("status", "retryable", "nothing_done"),
    [(401, False, True), (403, False, True), (429, True, True), (500, False, False), (503, True, True)],
)
async def test_a_status_and_its_pause_reach_the_error(
    server: McpUpstream, call: Calls, status: int, retryable: bool, nothing_done: bool
) -> None:
    await call("echo")
    server.fail("tools/call", status=status, headers={"Retry-After": "7"}, body=b"secret words", kind="text/plain")
    with pytest.raises(ApiError) as caught:
        await call("echo")
    error = caught.value
    assert (error.context["statusCode"], error.retry_after) == (status, 7)
    assert (error.retryable, error.nothing_done) == (retryable, nothing_done)
    assert "secret words" not in str(error.as_dict())
    # The session is still good.
    await call("echo")
    assert len({session for _, session in call.noted}) == 1


async def test_metadata_that_a_refusal_names_is_never_fetched(server: McpUpstream, call: Calls, canary: Faultd) -> None:
    await call("echo")
    metadata = f'Bearer resource_metadata="{canary.url}/ok"'
    server.fail("*", status=401, headers={"WWW-Authenticate": metadata}, times=0)
    with pytest.raises(ApiError):
        await call("echo")


async def test_one_broken_request_fails_alone(server: McpUpstream, call: Calls) -> None:
    held = threading.Event()
    server.tools.append(tool("slow"))
    server.behave("slow", hold=held)
    slow = asyncio.create_task(call("slow"))
    await until(lambda: server.calls)
    server.fail("tools/call", cut_answer=10)
    with pytest.raises(UnansweredError, match="the connection broke|not valid HTTP"):
        await call("echo")
    held.set()
    assert text_of(await slow) == "{}"
    await call("echo")
    assert server.count("server/discover") == 1


@pytest.mark.parametrize(
    ("lost_status", "lost_text"),
    [(404, "Session not found"), (404, "whatever"), (400, "Bad Request: No valid session ID provided")],
)
async def test_a_lost_session_is_replaced_and_the_call_sent_once_more(
    server: McpUpstream, call: Calls, lost_status: int, lost_text: str
) -> None:
    server.eras = {"legacy"}
    server.lost_status, server.lost_text = lost_status, lost_text
    await call("echo")
    server.forget_sessions()
    await call("echo", {"text": "again"})
    assert server.calls == [("echo", {}), ("echo", {"text": "again"})]
    assert server.count("initialize") == 2


async def test_a_call_over_a_lost_session_gets_its_answer_while_others_use_the_next(
    server: McpUpstream, call: Calls
) -> None:
    server.eras = {"legacy"}
    held = threading.Event()
    server.tools.append(tool("slow"))
    server.behave("slow", hold=held)
    slow = asyncio.create_task(call("slow"))
    await until(lambda: server.calls)
    server.sessions.clear()
    await call("echo")
    held.set()
    assert text_of(await slow) == "{}"
    assert server.executions == {"slow": 1, "echo": 1}


async def test_a_bad_request_is_no_lost_session(server: McpUpstream, call: Calls) -> None:
    server.eras = {"legacy"}
    await call("echo")
    server.fail("tools/call", status=400, body=b"a field is missing", kind="text/plain")
    with pytest.raises(ApiError):
        await call("echo")
    assert server.count("initialize") == 1


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b"[]", b'{"jsonrpc":"2.0","method":"x"}', b"<html>", b"7"])
@pytest.mark.parametrize("kind", ["application/json", "text/event-stream", "text/html"])
async def test_an_answer_that_is_garbage_fails_its_call_alone(
    server: McpUpstream, call: Calls, body: bytes, kind: str
) -> None:
    await call("echo")
    server.fail("tools/call", body=body, kind=kind)
    with pytest.raises((UnreadableError, UnansweredError)) as caught:
        await call("echo")
    assert caught.value.is_unanswered
    await call("echo")
    assert server.count("server/discover") == 1


async def test_a_compressed_answer_is_refused(server: McpUpstream, call: Calls) -> None:
    server.fail("tools/call", compressed=True)
    with pytest.raises(UnreadableError, match="compressed"):
        await call("echo")
    assert {headers["accept-encoding"] for _, headers in server.requests} == {"identity"}


@pytest.mark.parametrize("events", [False, True])
async def test_answers_of_several_megabytes_pass_and_endless_ones_do_not(
    server: McpUpstream, call: Calls, events: bool
) -> None:
    server.events = events
    server.behave("echo", result=text("x" * (3 * 2**20)))
    assert len(text_of(await call("echo"))) == 3 * 2**20
    server.behave("echo", result=text("x" * (17 * 2**20)))
    with pytest.raises(UnreadableError, match="more than 16,777,216 bytes"):
        await call("echo", seconds=30)


async def test_an_event_stream_without_an_answer_ends_the_call(server: McpUpstream, call: Calls) -> None:
    await call("echo")
    server.fail("tools/call", body=b'data: {"jsonrpc":"2.0","method":"notifications/x"}\n\n', kind="text/event-stream")
    with pytest.raises(UnansweredError, match="before its answer"):
        await call("echo")


async def test_secrets_of_a_connection_are_masked_in_answers() -> None:
    mask = wire.masking(Credentials(headers={"Authorization": "Bearer s3cr3t-t0k3n"}, environment={"A": "an0ther-one"}))
    assert mask is not None
    answer = b'{"a": "s3cr3t-t0k3n and an0ther-one", "b": "Bearer s3cr3t-t0k3n", "c": "czNjcjN0LXQwazNu"}'
    masked = mask(answer)
    assert json.loads(masked) == {"a": "*** and ***", "b": "***", "c": "***"}


LINES = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC", "BKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"
KEY = "\n".join(("-----BEGIN NO KEY-----", *LINES, "-----END NO KEY-----", ""))


@pytest.mark.parametrize(
    "value",
    [KEY, json.dumps({"private_key": KEY, "token_type": "service_account"}, indent=2), "pässwörd-with-umlauts"],
    ids=["a key", "a file of JSON", "other letters"],
)
@pytest.mark.parametrize("ensure_ascii", [True, False])
async def test_secrets_of_several_lines_are_masked_in_any_layout(value: str, ensure_ascii: bool) -> None:
    mask = wire.masking(Credentials(environment={"A": value, "B": "x"}))
    assert mask is not None
    texts = [value, value.replace("\n", " "), value.replace("\n", ""), json.dumps(value)]
    answer = {"result": {"texts": texts, "other": {"token_type": 1, "BEGIN": [2]}}}
    masked = mask(json.dumps(answer, ensure_ascii=ensure_ascii).encode())
    for secret in (*LINES, "umlauts"):
        assert secret.encode() not in masked
    assert json.loads(masked)["result"]["other"] == answer["result"]["other"]


async def test_an_event_of_empty_lines_is_limited(server: McpUpstream, call: Calls, monkeypatch: Any) -> None:
    monkeypatch.setattr(http, "MOST_BYTES", 10_000)
    server.fail("tools/call", body=b"data:\n" * 20_000, kind="text/event-stream")
    with pytest.raises(UnreadableError, match="an event of more than"):
        await call("echo")


# ---- addresses


@pytest.mark.parametrize("status", [307, 308])
async def test_a_redirect_within_the_origin_is_followed(server: McpUpstream, call: Calls, status: int) -> None:
    server.fail("tools/call", status=status, headers={"Location": "/mcp/"})
    await call("echo")
    assert server.executions == {"echo": 1}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_to_another_origin_is_not_followed(
    server: McpUpstream, call: Calls, canary: Faultd, status: int
) -> None:
    await call("echo")
    server.fail("tools/call", status=status, headers={"Location": f"{canary.url}/ok?token=secret"})
    with pytest.raises(ApiError, match="redirects to 127.0.0.2") as caught:
        await call("echo")
    assert "secret" not in str(caught.value.as_dict())


@pytest.mark.parametrize(
    ("location", "internal", "why"),
    [
        ("http://127.0.0.1:1/mcp", False, "must begin with https"),
        ("https://127.0.0.1:1/mcp", False, "not public"),
        ("https://10.0.0.1/mcp", False, "not public"),
        ("http://169.254.169.254/mcp", True, "metadata"),
        ("https://metadata.google.internal/mcp", True, "metadata"),
        ("http://[fe80::1]/mcp", True, "metadata"),
        ("https://user:secret@example.com/mcp", False, "without a user"),
        ("ftp://example.com/", True, "must be a URL"),
    ],
)
async def test_addresses_that_a_source_may_not_have(call: Calls, location: str, internal: bool, why: str) -> None:
    with pytest.raises(UpstreamUnavailableError, match=why) as caught:
        await call.to(location=location, internal=internal)("echo")
    assert "secret" not in str(caught.value.as_dict())


# ---- sessions


async def test_a_source_can_have_a_session_for_each_client(server: McpUpstream, call: Calls) -> None:
    server.eras = {"legacy"}
    own = call.to(per_session=True)
    for key in ("1", "2", "1"):
        await own("echo", caller=Caller("key", key, "agent"))
    assert server.count("initialize") == 2
    assert len({session for _, session in own.noted}) == 2


async def test_a_changed_source_gets_new_sessions_and_the_old_ones_end(server: McpUpstream, call: Calls) -> None:
    server.eras = {"legacy"}
    await call("echo")
    await call.to(epoch=2)("echo")
    await until(lambda: len(server.sessions) == 1)


@pytest.mark.parametrize("status", [400, 404, 405, 500])
async def test_a_server_without_a_stream_of_announcements_keeps_its_session(
    server: McpUpstream, call: Calls, status: int
) -> None:
    server.eras = {"legacy"}
    server.fail("GET", status=status, times=0)
    await call("echo")
    await until(lambda: "GET" in [method for method, _ in server.requests])
    await asyncio.sleep(0.2)
    await call("echo")
    assert server.count("initialize") == 1


async def test_closing_ends_the_sessions_of_the_server(server: McpUpstream, call: Calls) -> None:
    server.eras = {"legacy"}
    await call("echo")
    assert server.sessions
    await call.upstreams.aclose()
    assert not server.sessions
    await until(lambda: not server.listening)


async def test_the_old_transport_is_named(server: McpUpstream, call: Calls) -> None:
    server.fail("server/discover", status=404, times=0)
    server.fail("initialize", status=404, times=0)
    server.fail("GET", body=b"event: endpoint\ndata: /messages?session=1\n\n", kind="text/event-stream", times=0)
    with pytest.raises(ToolError, match="old HTTP\\+SSE transport"):
        await call("echo")


async def test_one_source_that_hangs_delays_no_other(server: McpUpstream, call: Calls) -> None:
    with mcp_upstream.running() as bad:
        bad.behave("echo", hang=True)
        hanging = call.to(name="bad", location=bad.url)
        tasks = [asyncio.create_task(hanging("echo", seconds=60)) for _ in range(20)]
        await until(lambda: len(bad.calls) == 20)
        await call("echo", seconds=5)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def test_the_addresses_are_checked_without_a_connection() -> None:
    from dataclasses import replace

    from tools_app.sdk.outside import Origin

    good = Origin("up", "mcp_http", 1, location="https://example.com/mcp")
    http.checked(good)
    with pytest.raises(wire.Broken):
        http.checked(replace(good, location="https://example.com/mcp#part"))


# ---- the server of these tests


def test_a_connection_that_comes_at_the_end_of_the_server_is_closed() -> None:
    """Otherwise any test would fail now and then, as its socket is found by the garbage collector."""
    entered, connected = threading.Event(), threading.Event()

    def wait() -> None:
        entered.set()
        connected.wait(10)

    with mcp_upstream.running() as server:
        assert server._loop is not None
        server._loop.call_soon_threadsafe(wait)
        entered.wait(10)
        client = socket.create_connection((server.host, server.port))
        # In the next turn of its loop it accepts, after it was told to end.
        server._loop.call_soon_threadsafe(time.sleep, 0.2)
        connected.set()
        time.sleep(0.05)
    client.close()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gc.collect()
    assert not caught
