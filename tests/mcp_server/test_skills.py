"""Skills of packs, with the SDK's own client: as resources, as prompts, and by the extension; and for whom."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, Request, RequestParams, Result, TextContent, TextResourceContents
from pydantic import ConfigDict

from tests.mcp_server.test_server import connected, era
from tests.support.tools import Hub
from tools_app import governance
from tools_app.base import database
from tools_app.mcp_server.beyond import SKILLS_EXTENSION
from tools_app.models import Call, Source
from tools_app.sdk.context import Caller
from tools_app.sdk.hints import Hints
from tools_app.sdk.pack import Pack
from tools_app.sdk.reach import Reach
from tools_app.sources import skills

pytestmark = pytest.mark.anyio
__all__ = ["era"]  # a fixture

URI = "skill://my-weather/SKILL.md"
TEXT = """---
name: my-weather
description: How to tell the weather.
license: MIT
---

# Weather

Call `get_forecast {"city": "Kyoto"}`.
"""
ENTRY = {
    "uri": URI,
    "frontmatter": {"name": "my-weather", "description": "How to tell the weather.", "license": "MIT"},
    "resources": [
        {"uri": URI, "digest": f"sha256:{hashlib.sha256(TEXT.encode()).hexdigest()}", "size": len(TEXT.encode())}
    ],
}
ACTOR = governance.trusted("test")
READS = Hints(read_only=True)


class Params(RequestParams):
    model_config = ConfigDict(extra="allow")


class Raw(Result):
    """A result with whatever is in it."""

    model_config = ConfigDict(extra="allow")


async def asked(client: Client, method: str, **params: Any) -> dict[str, Any]:
    request: Request[Params, str] = Request(method=method, params=Params(**params))
    result = await client.session.send_request(request, Raw)
    return result.model_dump(by_alias=True)


@pytest.fixture
def weather(hub: Hub, tmp_path: Path) -> Pack:
    """A pack of two tools with a skill, in the hub."""
    pack = Pack("my_weather", title="Weather")

    @pack.tool(hints=READS, category="weather", tags=["sky"])
    def get_forecast(city: str) -> str:
        """Tell the weather."""
        return "blue"

    @pack.tool(hints=READS, category="weather", tags=["ground"])
    def get_tides(city: str) -> str:
        """Tell the tides."""
        return "low"

    (tmp_path / skills.FILE).write_text(TEXT)
    hub.add(*pack.tools)
    for offer in skills.offers_of(pack, tmp_path, shared=False):
        hub.loaded_by(Source.Kind.CODE).offer(offer, pack=pack.name)
    hub.offer()
    return pack


async def offered(client: Client) -> tuple[list[str], list[str], list[str]]:
    """What a client is offered of the skill: resources, prompts, entries of the extension."""
    return (
        [one.uri for one in (await client.list_resources()).resources if one.uri.startswith("skill:")],
        [one.name for one in (await client.list_prompts()).prompts if one.name == "my-weather"],
        [one["uri"] for one in (await asked(client, "skills/list"))["skills"]],
    )


EVERYWHERE = ([URI], ["my-weather"], [URI])
NOWHERE: tuple[list[str], list[str], list[str]] = ([], [], [])


async def test_is_a_resource_for_every_client(weather: Pack, alice: Caller, era: str) -> None:
    async with connected(era, alice) as client:
        (listed,) = [one for one in (await client.list_resources()).resources if one.uri == URI]
        assert (listed.name, listed.title) == ("my-weather", "Weather: skill")
        assert (listed.description, listed.mime_type) == ("How to tell the weather.", "text/markdown")
        assert listed.size == len(TEXT.encode())
        (content,) = (await client.read_resource(URI)).contents
        assert isinstance(content, TextResourceContents)
        assert (content.uri, content.mime_type, content.text) == (URI, "text/markdown", TEXT)
    row = await database.run(Call.objects.get)
    assert (row.tool_name, row.status) == ("resource:my-weather", "succeeded")


async def test_is_a_prompt_for_every_client(weather: Pack, alice: Caller, era: str) -> None:
    async with connected(era, alice) as client:
        (message,) = (await client.get_prompt("my-weather", {"task": "Will it rain?"})).messages
        assert isinstance(message.content, TextContent)
        assert message.content.text.startswith("# Weather")
        assert message.content.text.endswith("Will it rain?")


async def test_the_extension_lists_it_with_front_matter_and_digest(weather: Pack, alice: Caller, era: str) -> None:
    async with connected(era, alice) as client:
        listed = await asked(client, "skills/list")
        assert listed["skills"] == [ENTRY]
        assert (listed["ttlMs"], listed["cacheScope"], "nextCursor" in listed) == (1000, "private", False)
        got = await asked(client, "skills/get", uri=URI)
        assert got["skill"] == ENTRY
        assert (got["ttlMs"], got["cacheScope"]) == (1000, "private")
        if era != "legacy":
            assert listed["resultType"] == got["resultType"] == "complete"


async def test_the_extension_is_declared(hub: Hub, alice: Caller) -> None:
    async with connected("auto", alice) as client:
        assert client.server_capabilities.extensions == {SKILLS_EXTENSION: {}}
        assert client.server_capabilities.resources is not None
        assert (await asked(client, "skills/list"))["skills"] == []


@pytest.mark.parametrize("uri", ["skill://another/SKILL.md", "toolhub://tools", "skill://my-weather", ""])
async def test_only_a_skill_is_got(weather: Pack, alice: Caller, uri: str) -> None:
    async with connected("2026-07-28", alice) as client:
        with pytest.raises(MCPError, match="Resource not found") as caught:
            await asked(client, "skills/get", uri=uri)
        assert caught.value.code == INVALID_PARAMS


async def test_a_wrong_cursor_is_refused(weather: Pack, alice: Caller) -> None:
    async with connected("2026-07-28", alice) as client:
        with pytest.raises(MCPError, match="Invalid cursor"):
            await asked(client, "skills/list", cursor="?")


async def test_is_offered_to_who_can_use_a_tool_of_its_pack(weather: Pack, alice: Caller, era: str) -> None:
    await database.run(governance.create_toolset, "sky", actor=ACTOR, tags=["sky"])
    await database.run(governance.create_toolset, "other", actor=ACTOR, names=["echo"])
    for toolset, expected in (("sky", EVERYWHERE), ("other", NOWHERE)):
        limited = replace(alice, reach=Reach(frozenset({toolset})))
        async with connected(era, limited) as client:
            assert await offered(client) == expected
            if expected == NOWHERE:
                for method in ("skills/get", "resources/read"):
                    with pytest.raises(MCPError, match="Resource not found"):
                        await asked(client, method, uri=URI)


async def test_is_gone_when_the_last_tool_of_its_pack_is_disabled(weather: Pack, alice: Caller, era: str) -> None:
    async with connected(era, alice) as client:
        assert await offered(client) == EVERYWHERE
        await database.run(lambda: governance.set_enabled(["get_tides"], False, actor=ACTOR))
        assert await offered(client) == EVERYWHERE
        await database.run(lambda: governance.set_enabled(["get_forecast"], False, actor=ACTOR))
        assert await offered(client) == NOWHERE


async def test_listing_needs_the_permission_to_list_and_reading_that_to_execute(
    weather: Pack, alice: Caller, era: str
) -> None:
    async with connected(era, replace(alice, scopes=frozenset({"tools:execute"}))) as client:
        for method, params in (("skills/list", {}), ("skills/get", {"uri": URI})):
            with pytest.raises(MCPError, match="requires"):
                await asked(client, method, **params)
    async with connected(era, replace(alice, scopes=frozenset({"tools:list"}))) as client:
        assert (await asked(client, "skills/list"))["skills"] == [ENTRY]
        with pytest.raises(MCPError, match="requires"):
            await client.read_resource(URI)
