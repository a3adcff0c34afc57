"""Which clients are connected: known by what they say of themselves, counted, and gone when they leave."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from mcp_types import JSONRPCRequest

from tests.support.agents import LEGACY, MODERN, PREFIX
from tests.support.http_agents import ACCEPT
from tests.support.tools import Hub, eventually
from tools_app import engine, governance
from tools_app.base import database
from tools_app.mcp_server import presence
from tools_app.mcp_server.http import Http
from tools_app.mcp_server.presence import SessionlessClients, new_presence
from tools_app.models import Agent
from tools_app.sdk.context import Caller

pytestmark = pytest.mark.anyio

ME = {"name": "probe", "version": "1.2"}


@pytest.fixture
async def http(hub: Hub) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a hub's MCP over HTTP, with a key that is bound to a toolset."""
    governance_key = await database.run(_key)
    engine.adopt_running_loop()
    app = Http()
    headers = {"x-api-key": governance_key, "accept": ACCEPT}
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:3000", headers=headers) as client:
        yield client
    await app.stop()
    await engine.close(1)


def _key() -> str:
    governance.create_toolset("talking", names=["echo"], actor=governance.trusted("test"))
    return governance.create_key("somebody", toolsets=["talking"], actor=governance.trusted("test"))[1]


def said(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


async def connected(number: int) -> list[Agent]:
    """The recorded agents, once there are this many."""

    def look() -> list[Agent]:
        eventually(lambda: Agent.objects.count() == number, 10)
        return list(Agent.objects.all())

    return await database.run(look)


async def test_a_session_is_an_agent_until_it_ends(http: httpx.AsyncClient) -> None:
    hello = said("initialize", protocolVersion=LEGACY, capabilities={}, clientInfo=ME)
    opened = await http.post("/mcp", json=hello)
    session = {"mcp-session-id": opened.headers["mcp-session-id"]}
    await http.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=session)
    await http.post("/mcp", json=said("tools/list"), headers=session)
    await http.post("/mcp", json=said("tools/call", name="echo", arguments={"message": "hi"}), headers=session)
    [agent] = await connected(1)
    assert (agent.client, agent.version, agent.door, agent.era) == ("probe", "1.2", "http", "handshake")
    assert (agent.protocol, agent.toolset, agent.caller_name, agent.calls) == (LEGACY, "talking", "somebody", 1)
    assert agent.called_at is not None
    assert agent.id not in opened.headers["mcp-session-id"]
    await http.delete("/mcp", headers=session)
    assert await connected(0) == []


async def test_a_client_without_sessions_is_one_agent_however_often_it_asks(http: httpx.AsyncClient) -> None:
    meta = {
        f"{PREFIX}protocolVersion": MODERN,
        f"{PREFIX}clientCapabilities": {},
        f"{PREFIX}clientInfo": {**ME, "title": "The probe"},
    }
    headers = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "echo"}
    for _ in range(3):
        call = said("tools/call", name="echo", arguments={"message": "hi"}, _meta=meta)
        assert (await http.post("/mcp", json=call, headers=headers)).status_code == 200
    [agent] = await connected(1)
    assert (agent.client, agent.door, agent.era, agent.protocol) == ("The probe", "http", "modern", MODERN)
    assert agent.calls == 3


@pytest.mark.parametrize(
    "client", [None, "probe", 7, [], {}, {"name": 7, "version": None}, {"name": {"a": 1}}, {"title": []}]
)
def test_any_client_information_is_accepted(client: Any) -> None:
    made = new_presence("http", Caller("key", "key:1", "somebody"), client, "", modern=True)
    assert (made.client, made.version) == ("", "")


def test_what_cannot_be_seen_does_not_get_into_the_list() -> None:
    made = new_presence("http", Caller("key", "key:1", "a"), {"name": "pro\u200bbe" + "x" * 999}, "", modern=True)
    assert made.client.startswith("probe")
    assert len(made.client) < 100


async def test_the_number_of_clients_is_limited(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence, "MOST_SESSIONLESS", 2)
    engine.adopt_running_loop()
    passing, caller = SessionlessClients(), Caller("key", "key:1", "somebody")

    def ask(name: str) -> engine.Presence:
        meta = {f"{PREFIX}protocolVersion": MODERN, f"{PREFIX}clientInfo": {"name": name, "version": "1"}}
        message = JSONRPCRequest(jsonrpc="2.0", id=1, method="tools/list", params={"_meta": meta})
        seen = passing.presence_of(caller, message, modern=True)
        assert seen is not None
        return seen

    one, two = ask("one"), ask("two")
    assert ask("one") is one
    ask("three")
    assert (one.left, two.left) == (False, True)
    assert ask("two") is not two
    await engine.close(1)
