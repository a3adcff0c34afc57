"""MCP over HTTP as an ASGI application, under servers that differ from ours."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, MutableMapping
from typing import Any

import pytest

from tests.support.agents import MODERN, PREFIX
from tests.support.http_agents import ACCEPT, scope_of
from tests.support.tools import Hub
from tools_app import engine, governance
from tools_app.base import database
from tools_app.mcp_server.http import Http
from tools_app.models import ApiKey, Call

pytestmark = pytest.mark.anyio


@pytest.fixture
async def http(hub: Hub) -> AsyncIterator[Http]:
    engine.adopt_running_loop()
    made = Http()
    yield made
    await made.stop()
    await engine.close(1)


@pytest.fixture
def key(hub: Hub) -> str:
    return governance.create_key("somebody", actor=governance.trusted("test"))[1]


async def ask(http: Http, key: str, *, receive: Any = None, **changed: str) -> tuple[int, Any]:
    """One `tools/list`; the status and the JSON that came back."""
    meta = {f"{PREFIX}protocolVersion": MODERN, f"{PREFIX}clientCapabilities": {}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}).encode()
    headers = {
        "host": "localhost:3000",
        "x-api-key": key,
        "content-type": "application/json",
        "accept": ACCEPT,
        "mcp-protocol-version": MODERN,
        "mcp-method": "tools/list",
        **{name.replace("_", "-"): value for name, value in changed.items()},
    }
    waiting: list[dict[str, Any]] = [
        {"type": "http.request", "body": body[:9], "more_body": True},
        {"type": "http.request", "body": body[9:]},
    ]

    async def given() -> dict[str, Any]:
        if waiting:
            return waiting.pop(0)
        await asyncio.sleep(60)
        return {"type": "http.disconnect"}

    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    await http(scope_of(headers), receive or given, send)
    answer = b"".join(message.get("body", b"") for message in sent)
    return (sent[0]["status"], json.loads(answer)) if sent else (0, None)


async def test_starts_with_the_first_request_where_the_server_has_no_lifespan(http: Http, key: str) -> None:
    answers = await asyncio.gather(*(ask(http, key) for _ in range(5)))
    for status, body in answers:
        assert status == 200
        assert [tool["name"] for tool in body["result"]["tools"]] == ["calculate", "echo", "read_result"]


async def test_white_space_around_headers_is_no_part_of_them(http: Http, key: str) -> None:
    status, _ = await ask(http, key, mcp_method=" tools/list \t", mcp_protocol_version=f"{MODERN} ")
    assert status == 200


async def test_sends_nothing_to_a_disconnected_client(http: Http, key: str) -> None:
    async def gone() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    assert await ask(http, key, receive=gone) == (0, None)


async def test_a_bug_is_answered_with_its_number_and_nothing_else(http: Http, key: str) -> None:
    async def broken() -> dict[str, Any]:
        raise RuntimeError("what nobody may see")

    status, body = await ask(http, key, receive=broken)
    assert status == 500
    assert body["error"]["data"]["errorId"]
    assert "nobody" not in json.dumps(body)


async def test_operators_see_who_was_refused(http: Http, key: str) -> None:
    kept = await ApiKey.objects.aget()
    await database.run(lambda: governance.revoke_key(kept, actor=governance.trusted("test")))
    for presented in (key, key, "thub_AbCd1234_guessed"):
        assert (await ask(http, presented, user_agent="agent/1.0"))[0] == 401
    await engine.close(5)
    shown = {call.key_prefix: call async for call in Call.objects.all()}
    assert shown.keys() == {kept.prefix, "AbCd1234"}
    known = shown[kept.prefix]
    assert (known.caller_id, known.caller_name, known.count) == (f"key:{kept.pk}", "somebody", 2)
    assert {(call.address, call.client, call.door) for call in shown.values()} == {("192.0.2.9", "agent/1.0", "mcp")}


async def test_can_be_started_again(http: Http, key: str) -> None:
    assert (await ask(http, key))[0] == 200
    await http.stop()
    assert (await ask(http, key))[0] == 200
