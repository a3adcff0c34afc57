"""Listings of sources, their changes, and the end of a hub."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.support import mcp_upstream
from tests.support.mcp_upstream import McpUpstream, tool
from tests.upstream.conftest import Calls, text_of, until
from tools_app.base import database
from tools_app.base.ports import UnavailableError
from tools_app.models import Source, SourceStatus
from tools_app.sdk.errors import ToolError
from tools_app.sdk.hub_errors import DefinitionChangedError
from tools_app.sdk.outside import Listing, Origin
from tools_app.upstream.upstreams import Upstreams

pytestmark = pytest.mark.anyio


async def listing(origin: Origin) -> Listing:
    return await asyncio.to_thread(Upstreams().listing, origin)


@pytest.mark.parametrize("eras", [("legacy",), ("modern",)])
async def test_everything_is_listed_as_it_came(server: McpUpstream, origin: Origin, eras: tuple[str, ...]) -> None:
    server.eras = set(eras)
    odd = {"name": "x", "inputSchema": {"properties": {}}, "x_vendor": [1], "annotations": {"moodHint": "good"}}
    server.tools = [odd, tool("b"), {"no": "name"}, 7]  # type: ignore[list-item]
    server.resources = [{"uri": "file:///a", "name": "a"}]
    server.templates = [{"uriTemplate": "file:///{x}", "name": "t"}]
    server.prompts = [{"name": "p"}]
    server.instructions = "Read me."
    found = await listing(origin)
    assert (found.tools, found.resources, found.templates, found.prompts) == (
        server.tools,
        server.resources,
        server.templates,
        server.prompts,
    )
    assert (found.instructions, found.server) == ("Read me.", "fake 1.0")
    assert found.era == {"legacy": "2025-11-25", "modern": "2026-07-28"}[eras[0]]
    assert found.capabilities["tools"] == {"listChanged": True}


@pytest.mark.parametrize("newest", mcp_upstream.HANDSHAKES)
async def test_every_version_of_the_handshake(server: McpUpstream, origin: Origin, newest: str) -> None:
    server.eras, server.newest = {"legacy"}, newest
    assert (await listing(origin)).era == newest


async def test_what_is_not_declared_is_not_asked_for(server: McpUpstream, origin: Origin) -> None:
    await listing(origin)
    assert not server.count("resources/list")
    assert not server.count("prompts/list")


async def test_pages(server: McpUpstream, origin: Origin) -> None:
    server.tools = [tool(f"t{number}") for number in range(25)]
    server.page = 10
    assert (await listing(origin)).tools == server.tools


async def test_tools_that_are_described_differently_each_time_are_named(server: McpUpstream, origin: Origin) -> None:
    class Changing(dict[str, Any]):
        """A definition that is another at each look."""

        reads = 0

        def items(self) -> Any:
            Changing.reads += 1
            return {**self, "description": f"The time is {Changing.reads}."}.items()

    server.tools = [Changing(tool("clock")), tool("b")]
    assert (await listing(origin)).unstable == {"clock"}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda server: setattr(server, "endless", True), "more than 50 pages"),
        (lambda server: setattr(server, "tools", [tool(f"t{n}") for n in range(2001)]), "more than 2,000 tools"),
        (lambda server: setattr(server, "tools", [tool("a", "x" * 5_000_000)]), "larger than 4 MiB"),
        (lambda server: server.fail("tools/list", status=500, times=0), "HTTP 500"),
        (lambda server: server.fail("tools/list", body=b"nonsense", times=0), "not valid JSON-RPC"),
        (lambda server: server.fail("*", status=401, times=0), "HTTP 401"),
        (lambda server: server.fail("*", status=503, times=0), "HTTP 503"),
        (lambda server: server.fail("*", body=b"<html>", kind="text/html", times=0), "not JSON but text/html"),
        (lambda server: server.eras.clear(), "no version of MCP"),
    ],
)
async def test_why_a_source_cannot_be_listed(
    server: McpUpstream, origin: Origin, change: Callable[[McpUpstream], None], why: str
) -> None:
    change(server)
    with pytest.raises(UnavailableError, match=why):
        await listing(origin)


async def test_a_listing_leaves_nothing_behind(server: McpUpstream, origin: Origin) -> None:
    server.eras = {"legacy"}
    before = threading.active_count()
    await listing(origin)
    assert not server.sessions
    await until(lambda: not server.listening)
    assert threading.active_count() <= before + 1  # the thread of this test


# ---- changes


@pytest.fixture
def source(transactional_db: None, server: McpUpstream) -> Source:
    row = Source.objects.create(name="up", prefix="up", kind=Source.Kind.MCP_HTTP, location=server.url, internal=True)
    SourceStatus.objects.create(source=row)
    return row


def is_due(source: Source) -> bool:
    return SourceStatus.objects.filter(source=source, next_try_at__isnull=False).exists()


async def due(source: Source, seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while not await database.run(is_due, source):  # noqa: ASYNC110 – a row
            await asyncio.sleep(0.01)


def forget(source: Source) -> None:
    SourceStatus.objects.filter(source=source).update(next_try_at=None)


@pytest.mark.parametrize("eras", [("legacy",), ("modern",)])
async def test_an_announced_change_makes_a_source_due(
    server: McpUpstream, call: Calls, source: Source, eras: tuple[str, ...]
) -> None:
    server.eras = set(eras)
    await call("echo")
    await until(lambda: server.listening)
    assert not await database.run(is_due, source)
    server.changed()
    await due(source)


@pytest.mark.parametrize("eras", [("legacy",), ("modern",)])
async def test_a_stream_of_announcements_that_was_cut_is_opened_again(
    server: McpUpstream, call: Calls, source: Source, eras: tuple[str, ...]
) -> None:
    server.eras = set(eras)
    await call("echo")
    await until(lambda: server.listening)
    server.cut(streams_only=True)
    # What was announced in between is not known.
    await due(source)
    await until(lambda: server.listening)
    await database.run(forget, source)
    await asyncio.sleep(0.6)  # one note at a time
    server.changed()
    await due(source)


async def test_a_tool_that_is_gone_makes_a_source_due(server: McpUpstream, call: Calls, source: Source) -> None:
    server.tools = []
    with pytest.raises(DefinitionChangedError):
        await call("echo")
    await due(source)


async def test_thousands_of_announcements_are_noted_once(server: McpUpstream, call: Calls, source: Source) -> None:
    await call("echo")
    await until(lambda: server.listening)
    for _ in range(3_000):
        server.changed()
    await due(source)
    await call("echo", seconds=10)


# ---- the end


async def test_reconnect_ends_the_connection_and_the_next_call_has_another(server: McpUpstream, call: Calls) -> None:
    server.eras = {"legacy"}
    await call("echo")
    await call.upstreams.reconnect("other")
    assert server.sessions
    await call.upstreams.reconnect("up")
    assert not server.sessions
    await call("echo")
    assert len({session for _, session in call.noted}) == 2


async def test_a_call_after_a_reconnection_elsewhere_ends_what_hangs(
    server: McpUpstream, call: Calls, origin: Origin
) -> None:
    server.eras = {"legacy"}
    server.behave("echo", hold=threading.Event())
    hanging = asyncio.create_task(call("echo", seconds=60))
    await until(lambda: server.calls)
    later = call.upstreams.session(replace(origin, reconnects=1), None, "")
    with pytest.raises(ToolError, match="ended"):
        await hanging
    assert later is not call.upstreams.session(origin, None, "")


async def test_outdated_connections_are_ended_without_a_call(
    server: McpUpstream, call: Calls, origin: Origin, source: Source
) -> None:
    server.eras = {"legacy"}
    await call("echo")
    assert call.upstreams.origins() == [origin]
    await asyncio.to_thread(call.upstreams.end, [replace(origin, epoch=7)])
    assert server.sessions
    await asyncio.to_thread(call.upstreams.end, [origin])
    await until(lambda: not server.sessions)
    assert call.upstreams.origins() == []


async def test_the_end_waits_for_calls(server: McpUpstream, call: Calls) -> None:
    held = threading.Event()
    server.behave("echo", hold=held)
    running = asyncio.create_task(call("echo"))
    await until(lambda: server.calls)
    closing = asyncio.create_task(call.upstreams.aclose())
    await asyncio.sleep(0.1)
    assert not closing.done()
    held.set()
    assert text_of(await running) == "{}"
    await closing


def test_sessions_of_another_loop_are_ended_from_here(server: McpUpstream, origin: Origin) -> None:
    server.eras = {"legacy"}
    upstreams = Upstreams()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(Calls(upstreams, origin)("echo"), loop).result(10)
    assert server.sessions
    asyncio.run(upstreams.aclose())
    assert not server.sessions
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()
