"""What agents can ask, in both eras, with the SDK's own client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    CallToolResult,
    TextContent,
    ToolListChangedNotification,
)

from tests.support.tools import Hub, Programmable
from tools_app import engine, governance
from tools_app.base import database
from tools_app.mcp_server import server
from tools_app.mcp_server.changes import Changes, always
from tools_app.models import Call, ErrorLog
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import ToolNotFoundError

pytestmark = pytest.mark.anyio

ERAS = ["legacy", "2026-07-28"]


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@asynccontextmanager
async def connected(era: str, caller: Caller | BaseException, **options: Any) -> AsyncIterator[Client]:
    def caller_of(_: object) -> Caller:
        if isinstance(caller, Caller):
            return caller
        raise caller

    async def asked() -> Caller:
        return caller_of(None)

    engine.adopt_running_loop()
    changes = Changes(lambda _: asked)
    telling = asyncio.create_task(changes.tell())
    try:
        with anyio.fail_after(10):
            async with Client(server.build(changes, caller_of), mode=era, cache=None, **options) as client:
                yield client
    finally:
        telling.cancel()
        await asyncio.wait([telling])
        await engine.close(1)


def texts(result: CallToolResult) -> list[str]:
    assert all(isinstance(part, TextContent) for part in result.content)
    return [part.text for part in result.content if isinstance(part, TextContent)]


async def rows(status: str) -> list[str]:
    return await database.run(lambda: list(Call.objects.filter(status=status).values_list("id", flat=True)))


async def test_says_who_it_is_and_that_the_list_of_tools_changes(hub: Hub, alice: Caller, era: str) -> None:
    async with connected("auto" if era != "legacy" else era, alice) as client:
        assert client.server_info is not None
        assert client.server_info.name == "toolhub"
        assert client.server_info.title == "ToolHub"
        assert client.server_info.icons is not None
        assert [one.mime_type for one in client.server_info.icons] == ["image/svg+xml"]
        assert client.instructions is not None
        there = client.server_capabilities
        assert there.tools is not None
        assert there.prompts is not None
        assert there.resources is not None
        assert there.completions is not None
        lists = (there.tools, there.prompts, there.resources)
        assert {part.list_changed for part in lists} == {True}
        assert there.resources.subscribe is True


async def test_says_what_it_cannot_tell_where_there_are_no_sessions(hub: Hub, alice: Caller) -> None:
    served = server.build(Changes(always(alice)), lambda _: alice, tells=False)
    told = served.create_initialization_options().capabilities
    assert told.prompts is not None
    assert told.resources is not None
    assert (told.prompts.list_changed, told.resources.list_changed, told.resources.subscribe) == (False, False, False)
    assert served.get_request_handler("resources/subscribe") is None
    modern = served.get_capabilities(protocol_version="2026-07-28").resources
    assert modern is not None
    assert (modern.list_changed, modern.subscribe) == (True, True)


async def test_lists_tools_by_name(hub: Hub, alice: Caller, era: str) -> None:
    async with connected(era, alice) as client:
        listed = await client.list_tools()
        assert [tool.name for tool in listed.tools] == ["calculate", "echo", "read_result"]
        assert listed.next_cursor is None
        if era != "legacy":
            assert (listed.ttl_ms, listed.cache_scope) == (1000, "private")


async def test_refuses_a_cursor_that_is_none_of_its_own(hub: Hub, alice: Caller, era: str) -> None:
    async with connected(era, alice) as client:
        with pytest.raises(MCPError, match="Invalid cursor") as caught:
            await client.list_tools(cursor="?")
        assert caught.value.code == INVALID_PARAMS


async def test_answers_a_call_and_names_it(hub: Hub, alice: Caller, era: str) -> None:
    async with connected(era, alice) as client:
        result = await client.call_tool("echo", {"message": "hi"})
        assert texts(result) == ['{"message":"hi"}']
        assert result.is_error is False
        assert result.meta is not None
        assert [result.meta["toolhub/callId"]] == await rows("succeeded")


async def test_a_call_with_the_key_of_an_earlier_one_gets_its_answer(
    programmable: Programmable, alice: Caller, era: str
) -> None:
    async with connected(era, alice) as client:
        key: Any = {"toolhub/idempotencyKey": "k1"}
        first = await client.call_tool("programmable", {"value": 5}, meta=key)
        second = await client.call_tool("programmable", {"value": 5}, meta=key)
        assert texts(first) == texts(second)
        assert first.meta is not None
        assert second.meta is not None
        assert second.meta["toolhub/callId"] == first.meta["toolhub/callId"]
        assert second.meta["toolhub/answeredBy"] == "replay"
        other = await client.call_tool("programmable", {"value": 6}, meta=key)
        assert other.is_error
        assert texts(other)[0] == "This Idempotency-Key was used for a different request"
        number: Any = {"toolhub/idempotencyKey": 7}
        wrong = await client.call_tool("programmable", {}, meta=number)
        assert "Idempotency-Key must be" in texts(wrong)[0]
    assert len(programmable.calls) == 1


async def test_an_object_that_was_declared_passes_the_clients_check(hub: Hub, alice: Caller, era: str) -> None:
    schema = {"type": "object", "properties": {"value": {"type": "integer"}}, "required": ["value"]}
    await database.run(hub.add, Programmable("counted", output_schema=schema).tool)
    async with connected(era, alice) as client:
        await client.list_tools()
        assert (await client.call_tool("counted", {"value": 3})).structured_content == {"value": 3}


async def test_says_everything_that_is_wrong_with_the_arguments(hub: Hub, alice: Caller, era: str) -> None:
    async with connected(era, alice) as client:
        result = await client.call_tool("calculate", {"operation": "pow", "a": "1", "c": 2})
        message, more = texts(result)
        assert result.is_error is True
        assert all(name in more for name in ("/operation", "/a", "b", "c"))
        assert result.meta is not None
        error = result.meta["toolhub/error"]
        assert (error["error"], error["code"]) == (message, "VALIDATION_ERROR")
        assert len(error["details"]) == 4
        assert result.structured_content is None


async def test_a_tool_that_is_not_there_is_a_protocol_error(hub: Hub, alice: Caller, era: str) -> None:
    async with connected(era, alice) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("nope\n", {})
        assert (caught.value.code, caught.value.message) == (
            INVALID_PARAMS,
            "Unknown tool: nope\N{REPLACEMENT CHARACTER}",
        )
        assert caught.value.data["code"] == "TOOL_NOT_FOUND"


async def test_a_tool_that_does_not_find_another_has_failed(
    programmable: Programmable, alice: Caller, era: str
) -> None:
    programmable.outcomes += [ToolNotFoundError.named("other")]
    async with connected(era, alice) as client:
        result = await client.call_tool("programmable", {})
        assert (result.is_error, texts(result)[0]) == (True, "Tool not found: other")


async def test_a_tool_that_is_switched_off_says_so_from_the_next_call(hub: Hub, alice: Caller, era: str) -> None:
    async with connected(era, alice) as client:
        assert not (await client.call_tool("echo", {"message": "hi"})).is_error
        await database.run(governance.set_enabled, ["echo"], False, actor=governance.trusted("test"))
        result = await client.call_tool("echo", {"message": "hi"})
        assert (result.is_error, texts(result)[0]) == (True, "Tool is disabled: echo")
        assert result.meta is not None
        assert result.meta["toolhub/error"]["code"] == "TOOL_DISABLED"
        assert [tool.name for tool in (await client.list_tools()).tools] == ["calculate", "read_result"]


async def test_what_a_tool_broke_on_stays_inside(programmable: Programmable, alice: Caller, era: str) -> None:
    programmable.outcomes += [RuntimeError("secret")]
    async with connected(era, alice) as client:
        result = await client.call_tool("programmable", {})
        assert texts(result)[0] == "Tool execution failed: programmable"
        assert "secret" not in result.model_dump_json()
        assert result.meta is not None
        error_id = result.meta["toolhub/error"]["errorId"]
        assert f"errorId: {error_id}" in texts(result)[1]
    assert "secret" in (await database.run(ErrorLog.objects.get, pk=error_id)).detail


async def test_a_bug_of_ours_stays_inside(hub: Hub, era: str) -> None:
    async with connected(era, ZeroDivisionError("secret")) as client:
        for ask in (client.list_tools(), client.call_tool("echo", {"message": "hi"})):
            with pytest.raises(MCPError) as caught:
                await ask
            assert (caught.value.code, caught.value.message) == (INTERNAL_ERROR, "Internal server error")
            error_id = caught.value.data["errorId"]
            assert "secret" not in str(caught.value.data)
            assert "secret" in (await database.run(ErrorLog.objects.get, pk=error_id)).detail


async def test_a_caller_without_scopes_gets_the_missing_scope(hub: Hub, charlie: Caller, era: str) -> None:
    async with connected(era, charlie) as client:
        with pytest.raises(MCPError, match="requires scope tools:list") as caught:
            await client.list_tools()
        assert caught.value.code == INVALID_REQUEST
        result = await client.call_tool("echo", {"message": "hi"})
        assert (result.is_error, texts(result)[0]) == (True, "Permission denied: requires scope tools:execute")


async def test_a_call_that_takes_long_holds_up_nothing(programmable: Programmable, alice: Caller, era: str) -> None:
    release = anyio.Event()

    async def wait() -> str:
        await release.wait()
        return "done"

    programmable.outcomes += [wait] * 3
    found: list[str] = []
    async with connected(era, alice) as client, anyio.create_task_group() as tasks:

        async def call() -> None:
            found.extend(texts(await client.call_tool("programmable", {})))

        for _ in range(3):
            tasks.start_soon(call)
        await client.call_tool("echo", {"message": "hi"})
        assert len((await client.list_tools()).tools) == 4
        assert found == []
        release.set()
    assert found == ["done"] * 3


async def test_a_call_that_the_client_cancels_ends_and_is_on_record(
    programmable: Programmable, alice: Caller, era: str
) -> None:
    started, ended = anyio.Event(), anyio.Event()

    async def wait() -> None:
        try:
            started.set()
            await anyio.sleep_forever()
        finally:
            ended.set()

    programmable.outcomes += [wait]
    async with connected(era, alice) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "programmable", {})
            await started.wait()
            tasks.cancel_scope.cancel()
        await ended.wait()
        while not await rows("cancelled"):
            await anyio.lowlevel.checkpoint()


async def test_tells_its_clients_when_the_list_has_changed(hub: Hub, alice: Caller, settings: Any) -> None:
    settings.TOOLHUB_WATCH_SECONDS = 0.02
    told = anyio.Event()

    async def note(message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            told.set()

    async with connected("legacy", alice, message_handler=note) as client:
        await client.list_tools()
        await database.run(governance.set_enabled, ["echo"], False, actor=governance.trusted("test"))
        await told.wait()


async def test_tells_those_who_listen_when_the_list_has_changed(hub: Hub, alice: Caller, settings: Any) -> None:
    settings.TOOLHUB_WATCH_SECONDS = 0.02
    async with (
        connected("2026-07-28", alice) as client,
        client.listen(tools_list_changed=True) as changes,
    ):
        await client.list_tools()
        await database.run(governance.set_enabled, ["echo"], False, actor=governance.trusted("test"))
        await anext(changes)
