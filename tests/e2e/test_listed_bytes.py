"""What agents and REST clients read of a list is the same, byte for byte, on both databases and after a restart."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.agents import LEGACY, MODERN, Agent
from tests.support.http_agents import HttpAgent
from tests.support.installed import home_with, installed
from tests.support.processes import Home, key_in
from tests.support.stores import SQLiteStore, Store, created

POSTGRES_URL = os.environ.get("TOOLHUB_TEST_POSTGRES_URL", "")
# The order of these keys is neither alphabetical nor by length, which is how PostgreSQL orders keys of `jsonb`.
PACK = '''
from typing import Annotated, Literal
from pydantic import BaseModel, Field
from toolhub import Example, Hints, Pack

pack = Pack("ordered", version="1.0.0")


class Item(BaseModel):
    zone: str
    a: int = 1
    middle_name: str | None = None


@pack.tool(
    hints=Hints(read_only=True, open_world=False),
    tags=["zebra", "apple"],
    examples=[Example("Two", {"zulu": "z", "b": 2, "alpha": "a"})],
)
async def unsorted_keys(
    zulu: Annotated[str, Field(description="The last letter: \\u00e9\\u65e5\\U0001f600.", max_length=20)],
    b: Annotated[float, Field(ge=0, le=1e20)],
    alpha: str = "first",
    items: list[Item] | None = None,
    mode: Literal["slow", "fast", "any"] = "fast",
) -> Item:
    """Return an item."""
    return Item(zone=zulu, a=1)
'''
PROPERTIES = ["zulu", "b", "alpha", "items", "mode"]
ITEM_PROPERTIES = ["zone", "a", "middle_name"]


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[list[Store]]:
    if not POSTGRES_URL:
        pytest.skip("TOOLHUB_TEST_POSTGRES_URL names no PostgreSQL")
    with created(POSTGRES_URL) as postgres:
        yield [SQLiteStore(tmp_path / "other.sqlite3"), postgres]


def stdio_list(home: Home) -> bytes:
    with Agent(home, LEGACY) as agent:
        agent.connect()
        agent.tools()
        return agent.raw[-1]


def http_list(url: str, key: str) -> bytes:
    with HttpAgent(url, key, MODERN) as agent:
        response = agent.send(agent.message("tools/list"))
        assert response.status_code == 200, response.text
        return response.content


def rest_list(url: str, key: str) -> bytes:
    response = httpx.get(f"{url}/v1/tools?limit=100", headers={"X-API-Key": key}, timeout=30, trust_env=False)
    assert response.status_code == 200, response.text
    return response.content


def test_lists_are_the_same_bytes_on_sqlite_and_postgresql(tmp_path: Path, stores: list[Store]) -> None:
    pack = installed(tmp_path / "installed", "ordered_pack", PACK)
    lists: dict[str, list[bytes]] = {"stdio": [], "HTTP": [], "REST": []}
    for number, store in enumerate(stores):
        home = home_with(pack, tmp_path / f"home{number}", **store.environment)
        # REST shows when a tool was registered.
        store.query("UPDATE tools_app_toolrecord SET registered_at = '2026-01-02 03:04:05+00:00'")
        key = key_in(home.run("addkey", "reader", "--scope", "tools:list").stdout)
        for _ in range(2):
            lists["stdio"].append(stdio_list(home))
            with home.serving() as server:
                lists["HTTP"].append(http_list(server.url, key))
                lists["REST"].append(rest_list(server.url, key))
    assert {channel: len(set(contents)) for channel, contents in lists.items()} == {"stdio": 1, "HTTP": 1, "REST": 1}
    mcp_tool = tool_in(json.loads(lists["stdio"][0])["result"])
    rest_tool = tool_in(json.loads(lists["REST"][0]))
    for schema in (mcp_tool["inputSchema"], rest_tool["inputSchema"]):
        assert list(schema["properties"]) == PROPERTIES
        assert list(schema["properties"]["items"]["items"]["properties"]) == ITEM_PROPERTIES
    output_schema = json.dumps(mcp_tool["outputSchema"])
    positions = [output_schema.index(f'"{name}"') for name in ITEM_PROPERTIES]
    assert positions == sorted(positions)


def tool_in(listing: dict[str, Any]) -> dict[str, Any]:
    tools: list[dict[str, Any]] = listing["tools"]
    (tool,) = (tool for tool in tools if tool["name"] == "unsorted_keys")
    return tool
