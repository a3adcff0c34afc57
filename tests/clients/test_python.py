"""The SDK in Python, over both transports in every mode it has."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, TypeAlias

import anyio
import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, ElicitResult, TextContent, ToolListChangedNotification

from tests.clients.conftest import TOOLS, Site
from tests.support.agents import LEGACY, MODERN

pytestmark = pytest.mark.anyio

Connect: TypeAlias = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture(params=["legacy", "auto", MODERN])
def mode(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture(params=["stdio", "http"])
def connect(request: pytest.FixtureRequest, mode: str, site: Site) -> Connect:
    """A client of that mode. It has half a minute."""

    @asynccontextmanager
    async def connected(**options: Any) -> AsyncIterator[Client]:
        with anyio.fail_after(30):
            async with AsyncExitStack() as held:
                server: Any = StdioServerParameters(**site.command())
                if request.param == "http":
                    headers = {"Authorization": f"Bearer {site.key}"}
                    http = await held.enter_async_context(httpx2.AsyncClient(headers=headers, trust_env=False))
                    server = streamable_http_client(site.url, http_client=http)
                yield await held.enter_async_context(Client(server, mode=mode, cache=None, **options))

    return connected


async def test_lists_calls_and_sees_failures(connect: Connect, mode: str) -> None:
    async with connect() as client:
        assert client.protocol_version == (LEGACY if mode == "legacy" else MODERN)
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tuple(tools) == TOOLS
        echoed = await client.call_tool("echo", {"message": "grüß dich 😀"})
        assert (echoed.is_error, echoed.content) == (False, [TextContent(text='{"message":"grüß dich 😀"}')])
        measured = await client.call_tool("measure", {"text": "12 345"})
        assert measured.structured_content == {"text": "12 345", "length": 6, "longest": "345"}
        for arguments, why in (({"text": ""}, "There is nothing to measure"), ({"text": 5}, "text")):
            failed = await client.call_tool("measure", arguments)
            assert failed.is_error
            assert isinstance(failed.content[0], TextContent)
            assert why in failed.content[0].text
        for name in ("calculate", "nobody_has_this"):
            with pytest.raises(MCPError, match=f"Unknown tool: {name}") as unknown:
                await client.call_tool(name, {})
            assert unknown.value.code == INVALID_PARAMS


async def test_hears_of_progress_and_is_asked(connect: Connect) -> None:
    told: list[tuple[float, float | None, str | None]] = []

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    async def asked(context: object, params: Any) -> ElicitResult:
        assert params.message == "Which size?"
        return ElicitResult(action="accept", content={"size": 42})

    async with connect(elicitation_callback=asked) as client:
        await client.call_tool("climb", {"steps": 3}, progress_callback=progressed)
        assert told == [(step, 3, f"step {step}") for step in (1, 2, 3)]
        answer = await client.call_tool("order", {})
        assert answer.content == [TextContent(text="accept 42 False")]


async def test_reads_resources_and_gets_prompts(connect: Connect) -> None:
    async with connect() as client:
        assert "toolhub://tools" in [resource.uri for resource in (await client.list_resources()).resources]
        read = (await client.read_resource("toolhub://tools/measure")).contents[0]
        assert "Measure a text." in getattr(read, "text", "")
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["compare"]
        filled = await client.get_prompt("compare", {"one": "a", "other": "bb"})
        assert isinstance(filled.messages[0].content, TextContent)
        assert filled.messages[0].content.text == "Measure 'a' and 'bb', and say which is longer."


async def test_runs_many_calls_at_once(connect: Connect) -> None:
    async with connect() as client:
        texts = ["x" * (number + 1) for number in range(50)]
        answers = await asyncio.gather(*(client.call_tool("measure", {"text": text}) for text in texts))
        assert [answer.structured_content and answer.structured_content["length"] for answer in answers] == [
            *range(1, 51)
        ]


async def test_is_notified_within_a_second_of_changes_by_another_process(
    connect: Connect, mode: str, site: Site
) -> None:
    told = asyncio.Event()

    async def noticed(message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            told.set()

    async with connect(message_handler=noticed) as client, AsyncExitStack() as held:
        await client.list_tools()
        if mode != "legacy":
            subscription = await held.enter_async_context(client.listen(tools_list_changed=True))
            listening = asyncio.create_task(_listen(subscription, told))
            held.callback(listening.cancel)
        for enabled in (False, True):
            told.clear()
            await asyncio.to_thread(site.operate, "PATCH", "tools/echo", {"enabled": enabled})
            refused = await client.call_tool("echo", {"message": "hi"})
            assert refused.is_error is not enabled
            with anyio.fail_after(1):
                await told.wait()
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert names == [name for name in TOOLS if enabled or name != "echo"]


async def _listen(subscription: Any, told: asyncio.Event) -> None:
    async for event in subscription:
        if isinstance(event, ToolsListChanged):
            told.set()


async def test_gets_the_reason_why_a_hub_is_not_ready(mode: str, site: Site) -> None:
    refused = pytest.RaisesGroup(
        pytest.RaisesExc(MCPError, match="created by a later version of ToolHub"),
        allow_unwrapped=True,
        flatten_subgroups=True,
    )
    with anyio.fail_after(30), refused:
        async with Client(StdioServerParameters(**site.command(broken=True)), mode=mode) as client:
            await client.list_tools()
