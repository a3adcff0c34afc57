"""Approvals and stops, as agents meet them in both eras."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from mcp_types import CallToolResult, TextContent

from tests.mcp_server.test_server import ERAS, connected
from tests.support.tools import Hub, Programmable
from tools_app import governance
from tools_app.base import database
from tools_app.models import Approval
from tools_app.sdk.context import Caller
from tools_app.sdk.hints import Hints

pytestmark = pytest.mark.anyio


def texts(result: CallToolResult) -> list[str]:
    return [block.text for block in result.content if isinstance(block, TextContent)]


def error(result: CallToolResult) -> dict[str, Any]:
    assert result.is_error
    assert result.meta is not None
    told: dict[str, Any] = result.meta["toolhub/error"]
    return told


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("with_id", [True, False])
async def test_an_agent_asks_and_repeats_the_call(hub: Hub, alice: Caller, era: str, with_id: bool) -> None:
    asking = Programmable("asking", hints=Hints(read_only=False))
    await database.run(lambda: hub.add(asking.tool))
    await database.run(lambda: governance.set_ask("asking", True, actor=governance.trusted("test")))
    async with connected(era, alice) as agent:
        refused = await agent.call_tool("asking", {"value": 1})
        told = error(refused)
        assert (told["code"], told["retryable"]) == ("APPROVAL_REQUIRED", False)
        approval_id = told["context"]["approvalId"]
        assert approval_id in texts(refused)[1], "a model reads the text, and nothing else"
        await database.run(lambda: governance.approve_call(approval_id, actor=governance.trusted("user:olivia")))
        meta: Any = {"toolhub/approval": approval_id} if with_id else None
        done = await agent.call_tool("asking", {"value": 1}, meta=meta)
        assert not done.is_error
        assert (await database.run(Approval.objects.get)).state == "used"
        again = error(await agent.call_tool("asking", {"value": 1}, meta=meta))
        assert again["code"] == ("APPROVAL_INVALID" if with_id else "APPROVAL_REQUIRED")
    assert len(asking.calls) == 1


@pytest.mark.parametrize("era", ERAS)
async def test_an_agent_sees_the_tools_of_a_stopped_hub_vanish(hub: Hub, alice: Caller, era: str) -> None:
    async with connected(era, alice) as agent:
        before = [tool.name for tool in (await agent.list_tools()).tools]
        await database.run(lambda: governance.stop("hub", actor=governance.trusted("user:olivia"), reason="fire"))
        assert (await agent.list_tools()).tools == []
        told = error(await agent.call_tool("echo", {"message": "hi"}))
        assert told["code"] == "STOPPED"
        assert told["error"].endswith("UTC: fire")
        await database.run(lambda: governance.resume("hub", actor=governance.trusted("user:olivia")))
        assert [tool.name for tool in (await agent.list_tools()).tools] == before


@pytest.mark.parametrize("era", ERAS)
async def test_an_agent_is_told_when_maintenance_ends_and_keeps_its_tools(hub: Hub, alice: Caller, era: str) -> None:
    writing = Programmable("writing", hints=Hints(read_only=False))
    await database.run(lambda: hub.add(writing.tool))
    operator = governance.trusted("user:olivia")
    async with connected(era, alice) as agent:
        before = [tool.name for tool in (await agent.list_tools()).tools]
        lasting = timedelta(minutes=10)
        await database.run(lambda: governance.stop("writes", actor=operator, reason="moving", duration=lasting))
        assert [tool.name for tool in (await agent.list_tools()).tools] == before
        refused = await agent.call_tool("writing", {})
        told = error(refused)
        assert (told["code"], told["retryable"]) == ("MAINTENANCE", True)
        assert 590 <= told["retryAfter"] <= 600
        assert any("Try again in" in text for text in texts(refused)), "a model reads the text, and nothing else"
        assert not (await agent.call_tool("echo", {"message": "hi"})).is_error
        await database.run(lambda: governance.resume("writes", actor=operator))
        assert not (await agent.call_tool("writing", {})).is_error
