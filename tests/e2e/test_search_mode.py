"""An agent that is listed five tools and works with all: the official client over stdio and HTTP, in both eras."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, ElicitResult, TextContent

from tests.support.processes import CHECKOUT, Home, Server, key_in

pytestmark = pytest.mark.anyio

TOOLS = '''
import asyncio
from pydantic import BaseModel
from toolhub import Context, Hints, tool

class Sure(BaseModel):
    sure: bool

@tool(hints=Hints(destructive=False), keywords=["注文"])
async def place_order(customer: str, lines: list[str]) -> dict[str, int]:
    """Place an order."""
    return {"lines": len(lines)}

@tool(hints=Hints(read_only=True))
async def count_slowly(ctx: Context, steps: int) -> dict[str, int]:
    """Count, a step at a time."""
    for step in range(steps):
        ctx.progress(step + 1, steps)
        await asyncio.sleep(0.05)
    return {"counted": steps}

@tool(hints=Hints(read_only=True))
async def ask_back(ctx: Context) -> dict[str, bool]:
    """Ask whether that is meant."""
    reply = await ctx.elicit("Sure?", Sure)
    return {"sure": reply.data.sure}

@tool(hints=Hints(read_only=True), description="Lorem ipsum dolor. " * 800)
def lorem_ipsum() -> str:
    """A list that has this is too long to be shown."""
    return ""

@tool(hints=Hints(read_only=True))
def many_rows() -> list[str]:
    """Give very many rows."""
    return ["a row of some length"] * 20_000
'''
LISTED = ["call_many", "call_tool", "call_writing_tool", "describe_tool", "read_result", "search_tools"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    directory: Path = tmp_path_factory.mktemp("search")
    (directory / "tools").mkdir()
    (directory / "tools" / "orders.py").write_text(TOOLS)
    made = Home(directory / "home", {"TOOLHUB_TOOLS_DIR": str(directory / "tools"), "TOOLHUB_LIST_MODE": "search"})
    assert made.run("synctools").returncode == 0
    return made


@pytest.fixture(scope="module")
def server(home: Home) -> Iterator[Server]:
    with home.serving() as server:
        yield server


@asynccontextmanager
async def connected(way: str, home: Home, server: Server) -> AsyncIterator[Client]:
    async def sure(context: Any, params: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={"sure": True})

    transport, era = way.split()
    if transport == "stdio":
        parameters = StdioServerParameters(
            command=sys.executable, args=["-m", "toolhub", "runmcp"], env=home.environment, cwd=CHECKOUT
        )
        async with Client(parameters, mode=era, elicitation_callback=sure) as client:
            yield client
        return
    key = key_in(home.run("addkey", f"agent-{era}").stdout)
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, trust_env=False) as http,
        Client(streamable_http_client(f"{server.url}/mcp", http_client=http), mode=era, elicitation_callback=sure) as c,
    ):
        yield c


def texts(result: CallToolResult) -> list[str]:
    return [part.text for part in result.content if isinstance(part, TextContent)]


def answer(result: CallToolResult) -> Any:
    assert not result.is_error, texts(result)
    return json.loads(texts(result)[0])


def latest(home: Home) -> tuple[str, str, str]:
    with closing(sqlite3.connect(home.database, timeout=10)) as database:
        query = "SELECT tool_name, via, status FROM tools_app_call ORDER BY started_at DESC LIMIT 1"
        found: tuple[str, str, str] = database.execute(query).fetchone()
    return found


@pytest.mark.parametrize("way", ["stdio legacy", "stdio auto", "http legacy", "http auto"])
async def test_answers_are_enough_for_an_agent_to_continue(home: Home, server: Server, way: str) -> None:
    with anyio.fail_after(60):
        async with connected(way, home, server) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == LISTED

            found = answer(await client.call_tool("search_tools", {"query": "注文を出したい"}))["tools"][0]
            assert (found["name"], found["effect"]) == ("place_order", "writes")
            told = answer(await client.call_tool("describe_tool", {"name": found["name"]}))
            assert set(told["inputSchema"]["required"]) == {"customer", "lines"}
            order = {"name": "place_order", "arguments": {"customer": "Ann", "lines": ["tea"]}}
            refused = await client.call_tool("call_tool", order)
            assert (refused.is_error, told["callWith"]) == (True, "call_writing_tool")
            assert "call_writing_tool" in texts(refused)[0]
            assert answer(await client.call_tool("call_writing_tool", order)) == {"lines": 1}
            assert latest(home) == ("place_order", "call_writing_tool", "succeeded")

            steps: list[float] = []

            async def step(progress: float, total: float | None, message: str | None) -> None:
                steps.append(progress)

            counting = {"name": "count_slowly", "arguments": {"steps": 3}}
            assert answer(await client.call_tool("call_tool", counting, progress_callback=step)) == {"counted": 3}
            assert steps == [1, 2, 3]
            assert answer(await client.call_tool("call_tool", {"name": "ask_back"})) == {"sure": True}

            outline = answer(await client.call_tool("call_tool", {"name": "many_rows"}))
            example = outline["_guidance"]["example"]
            assert answer(await client.call_tool(example["name"], example["arguments"]))["items"]

            with pytest.raises(MCPError, match="the character NUL"):
                await client.call_tool("search_tools", {"query": "a\x00b"})
            for query in ("x" * 501, "", "the of", "🎉", "\u202eissue", "שלום"):
                result = await client.call_tool("search_tools", {"query": query})
                assert result.is_error or answer(result)["tools"] == []

            with anyio.move_on_after(0.5):
                await client.call_tool("call_tool", {"name": "count_slowly", "arguments": {"steps": 500}})
            with anyio.fail_after(10):
                while latest(home) != ("count_slowly", "call_tool", "cancelled"):  # noqa: ASYNC110 – another process
                    await anyio.sleep(0.1)
