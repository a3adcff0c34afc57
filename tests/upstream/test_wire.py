"""What passes between a transport and callers, message by message: over a pair of sockets, in the order of the wire."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from tests.upstream.conftest import until
from tests.upstream.test_lines import asked
from tools_app.upstream.lines import LineTransport
from tools_app.upstream.links import Link, opened
from tools_app.upstream.wire import Broken

pytestmark = pytest.mark.anyio

Answer = Callable[[Mapping[str, Any]], list[Mapping[str, Any] | bytes]]


@asynccontextmanager
async def link(answer: Answer) -> AsyncIterator[tuple[Link, list[Mapping[str, Any]]]]:
    """A connection to a server of the handshake era, which answers calls with these messages; and what it received."""
    ours, theirs = socket.socketpair()
    received: list[Mapping[str, Any]] = []

    async def serve() -> None:
        reader, writer = await asyncio.open_connection(sock=theirs)
        while line := await reader.readline():
            message = json.loads(line)
            received.append(message)
            if message["method"] == "server/discover":
                replies: Any = [{"id": message["id"], "error": {"code": -32601, "message": "unknown"}}]
            elif message["method"] == "initialize":
                info = {"capabilities": {}, "serverInfo": {"name": "here", "version": "1"}}
                replies = [{"id": message["id"], "result": {"protocolVersion": "2025-11-25", **info}}]
            else:
                replies = answer(message) if "id" in message else []
            lines = [
                one if isinstance(one, bytes) else json.dumps({"jsonrpc": "2.0", **one}).encode() for one in replies
            ]
            writer.write(b"".join(line + b"\n" for line in lines))
        writer.close()

    serving = asyncio.create_task(serve())
    transport = LineTransport(*await asyncio.open_connection(sock=ours))
    async with opened(transport, era="", seconds=20, on_change=lambda: None) as one:
        yield one, received
    await serving


async def refused(work: Awaitable[Any]) -> str:
    with pytest.raises((MCPError, Broken)) as caught:
        await work
    return str(caught.value)


async def test_progress_and_messages_come_before_the_answer_that_follows_them() -> None:
    def answer(call: Mapping[str, Any]) -> list[Mapping[str, Any] | bytes]:
        token = call["params"]["_meta"]["progressToken"]
        told = [{"method": "notifications/progress", "params": {"progressToken": token, "progress": n}} for n in (1, 2)]
        log = {"method": "notifications/message", "params": {"level": "info", "data": "nearly"}}
        return [*told, log, {"id": call["id"], "result": {"content": []}}]

    heard: list[Any] = []
    request = asked(progress=lambda done, total, text: heard.append((done, total, text)), log=heard.append)
    async with link(answer) as (one, _):
        for _ in range(20):
            await one.ask("tools/call", {"name": "x"}, request)
            heard.append("answer")
    assert heard == [(1.0, None, ""), (2.0, None, ""), {"level": "info", "data": "nearly"}, "answer"] * 20


async def test_progress_that_is_none_is_ignored() -> None:
    def answer(call: Mapping[str, Any]) -> list[Mapping[str, Any] | bytes]:
        bad = [{"progressToken": [1], "progress": 1}, {"progressToken": call["id"], "progress": "half"}, {}]
        told = [{"method": "notifications/progress", "params": params} for params in bad]
        return [*told, {"method": "notifications/progress"}, {"id": call["id"], "result": {}}]

    heard: list[Any] = []
    async with link(answer) as (one, _):
        assert await one.ask("tools/call", {"name": "x"}, asked(progress=lambda *told: heard.append(told))) == {}
    assert heard == []


async def test_a_callback_that_fails_ends_neither_call_nor_connection(caplog: Any) -> None:
    def answer(call: Mapping[str, Any]) -> list[Mapping[str, Any] | bytes]:
        log = {"method": "notifications/message", "params": {"data": "x"}}
        return [log, {"id": call["id"], "result": {}}]

    def broken(_: object) -> None:
        raise ZeroDivisionError

    async with link(answer) as (one, _):
        for _ in range(2):
            assert await one.ask("tools/call", {"name": "x"}, asked(log=broken)) == {}
    assert "a notification failed" in caplog.text


async def test_an_id_that_comes_back_as_text_is_the_same_id() -> None:
    async with link(lambda call: [{"id": str(call["id"]), "result": {"ok": True}}]) as (one, _):
        assert await one.ask("tools/call", {"name": "x"}, asked()) == {"ok": True}


@pytest.mark.parametrize(
    "garbage",
    [
        b"[]",
        b"7",
        b'{"jsonrpc": "1.0", "id": 1000, "result": {}}',
        b'{"jsonrpc": "2.0", "id": [], "result": {}}',
        b'{"jsonrpc": "2.0", "method": 7}',
        b'{"jsonrpc": "2.0", "method": "x", "params": []}',
        b'{"jsonrpc": "2.0", "id": 999999, "result": {}}',
        b"[" * 5_000,
        b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "Parse error"}}',
        b'{"jsonrpc": "2.0", "id": 1000, "result": "text"}',
        b'{"jsonrpc": "2.0", "id": 1000, "error": "text"}',
        b'{"jsonrpc": "2.0", "id": 1000}',
    ],
)
async def test_what_is_no_answer_is_passed_over(garbage: bytes) -> None:
    async with link(lambda call: [garbage, {"id": call["id"], "result": {"ok": True}}]) as (one, _):
        assert await one.ask("tools/call", {"name": "x"}, asked()) == {"ok": True}


async def test_a_second_answer_to_a_request_is_ignored() -> None:
    def answer(call: Mapping[str, Any]) -> list[Mapping[str, Any] | bytes]:
        return [{"id": call["id"], "result": {"is": n}} for n in (1, 2)]

    async with link(answer) as (one, _):
        for _ in range(3):
            assert await one.ask("tools/call", {"name": "x"}, asked()) == {"is": 1}


async def test_an_error_keeps_its_code_and_its_data() -> None:
    error = {"code": -32000, "message": "busy", "data": {"wait": 1}}
    async with link(lambda call: [{"id": call["id"], "error": error}]) as (one, _):
        with pytest.raises(MCPError) as caught:
            await one.ask("tools/call", {"name": "x"}, request := asked())
    assert caught.value.error.model_dump() == error
    assert request.sent == "yes"


async def test_a_request_that_cannot_be_written_is_not_sent() -> None:
    async with link(lambda call: [{"id": call["id"], "result": {}}]) as (one, received):
        request = asked()
        told = await refused(one.ask("tools/call", {"name": "x", "arguments": {"a": "\ud800"}}, request))
        assert "cannot be written as JSON" in told
        assert request.sent == "no"
        assert await one.ask("tools/call", {"name": "y"}, asked()) == {}
    assert [message["params"]["name"] for message in received if message["method"] == "tools/call"] == ["y"]


async def test_meta_of_the_caller_is_sent_and_not_changed() -> None:
    params = {"name": "x", "_meta": {"trace": "1"}}
    async with link(lambda call: [{"id": call["id"], "result": {}}]) as (one, received):
        await one.ask("tools/call", params, asked(progress=lambda *_: None))
        await one.ask("tools/call", {"name": "x"}, asked())
    first, second = [message["params"] for message in received if message["method"] == "tools/call"]
    assert first["_meta"]["trace"] == "1"
    assert first["_meta"].keys() == {"trace", "progressToken"}
    assert second == {"name": "x"}
    assert params == {"name": "x", "_meta": {"trace": "1"}}


async def test_a_call_after_the_end_is_not_sent() -> None:
    async with link(lambda call: []) as (one, _):
        one.transport.finish("over and out")
        request = asked()
        assert await refused(one.ask("tools/call", {"name": "x"}, request)) == "over and out"
        assert request.sent == "no"


async def test_the_end_of_the_connection_fails_the_calls_that_wait() -> None:
    async with link(lambda call: []) as (one, received):
        requests = [asked() for _ in range(5)]
        calls = [asyncio.create_task(one.ask("tools/call", {"name": "x"}, request)) for request in requests]
        await until(lambda: len([message for message in received if message["method"] == "tools/call"]) == 5)
        one.transport.finish("it was unplugged")
        assert {await refused(call) for call in calls} == {"it was unplugged"}
        assert {request.sent for request in requests} == {"maybe"}
