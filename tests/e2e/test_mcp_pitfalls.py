"""Where servers like this one have fallen before, over both transports, as far as no other file is about it.

Lines that cannot be read, numbers and nesting: `test_stdio_nonsense`, `test_mcp_http_nonsense`. Ends in time, a clean
stdout, calls that overtake: `test_stdio`. Streams at shutdown, ids twice, sessions, workers: `test_mcp_http`. Pages,
bodies and headers: `test_mcp_http_hostile`. What a crowd costs: `test_mcp_http_growth`. One tool that is wrong, and
what must stay inside: `tests/mcp_server`. References in schemas: `tests/test_schemas`.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx
import pytest

from tests.support.agents import LEGACY, MODERN, PREFIX, Agent
from tests.support.http_agents import HttpAgent, answer
from tests.support.processes import Home, Server, key_in
from tests.support.tools import eventually

ERAS = pytest.mark.parametrize("era", [LEGACY, MODERN])

TOOLS = '''
import asyncio, subprocess
from pydantic import BaseModel
from toolhub import Context, Hints, tool

subprocess.run(["echo", "written by a child at import"])
READ = Hints(read_only=True)

class Number(BaseModel):
    n: int

@tool(hints=READ)
async def same(n: int) -> Number:
    """Say it again."""
    return Number(n=n)

@tool
async def nap(seconds: float) -> str:
    """Sleep; writes, so that it is on record while it runs."""
    await asyncio.sleep(seconds)
    return "rested"

@tool(hints=READ)
async def twice(ctx: Context) -> str:
    """Ask two things, one after the other."""
    first = await ctx.elicit("First?", Number)
    second = await ctx.elicit(f"After {first.data.n}?", Number)
    return f"{first.data.n} and {second.data.n}"
'''


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    folder = tmp_path_factory.mktemp("pitfalls")
    (folder / "tools").mkdir()
    (folder / "tools" / "trials.py").write_text(TOOLS)
    unlimited = {"TOOLHUB_RATE_CALLS": "0", "TOOLHUB_KEY_RATE_CALLS": "0"}
    made = Home(folder / "home", {"TOOLHUB_TOOLS_DIR": str(folder / "tools"), **unlimited})
    assert made.run("synctools").returncode == 0
    return made


@pytest.fixture(scope="module")
def key(home: Home) -> str:
    return key_in(home.run("addkey", "pitfalls").stdout)


@pytest.fixture(scope="module")
def server(home: Home) -> Iterator[Server]:
    with home.serving() as running:
        yield running


def journal(home: Home, tool: str) -> list[str]:
    with closing(sqlite3.connect(home.database, timeout=5)) as database:
        rows = database.execute("SELECT status FROM tools_app_call WHERE tool_name = ? ORDER BY started_at", [tool])
        return [status for (status,) in rows]


@ERAS
def test_large_numbers_arrive_as_they_were_sent(home: Home, server: Server, key: str, era: str) -> None:
    """JSON readers that know only floats round them, and strict ones refuse what others wrote."""
    numbers = [2**53 + 1, -(2**63), 2**63 - 1]
    with Agent(home, era) as stdio, HttpAgent(server.url, key, era) as http:
        stdio.connect()
        http.connect()
        for number in numbers:
            for answered in (stdio.call("same", n=number), http.call("same", n=number)):
                assert answered["structuredContent"] == {"n": number}


@ERAS
def test_requests_under_one_id_are_answered_both(home: Home, era: str) -> None:
    """A server that keeps streams by the text of an id never answers the first request."""
    with Agent(home, era) as agent:
        agent.connect()
        for request_id, seconds in ((8, 0.2), (8, 0), ("8", 0.1), (8, 0)):
            params = {"name": "nap", "arguments": {"seconds": seconds}}
            agent.write(agent.line("tools/call", params, request_id))
        found = [agent.next() for _ in range(4)]
        assert sorted(repr(message["id"]) for message in found) == ["'8'", "8", "8", "8"]
        assert agent.call("same", n=1)["isError"] is False


def test_a_child_that_writes_at_import_does_not_reach_the_protocol(home: Home) -> None:
    with Agent(home) as agent:
        agent.connect()
        agent.call("nap", seconds=0)
        agent.leave()
        agent.rest()
        assert "written by a child at import" in agent.errors()


def test_hanging_up_does_not_cancel_a_call_of_the_handshake_era(home: Home, server: Server, key: str) -> None:
    before = len(journal(home, "nap"))
    with HttpAgent(server.url, key, LEGACY) as agent:
        agent.connect()
        message = agent.message("tools/call", {"name": "nap", "arguments": {"seconds": 0.6}})
        with pytest.raises(httpx.ReadTimeout):
            agent.http.post("/mcp", content=json.dumps(message), headers=agent.headers(message), timeout=0.3)
        assert eventually(lambda: journal(home, "nap")[before:] == ["succeeded"], 5)


def test_any_worker_takes_the_answer_to_a_question_of_another(home: Home, key: str) -> None:
    """The state that a client brings back must not be sealed with a key of one process."""
    with home.serving("--workers", "2") as server:
        for _ in range(5):
            brought: dict[str, Any] = {}
            for n in (1, 2):
                asked = asking(server, key, brought)
                assert asked["resultType"] == "input_required"
                (name,) = asked["inputRequests"]
                answers = {name: {"action": "accept", "content": {"n": n}}}
                brought = {"inputResponses": answers, "requestState": asked["requestState"]}
            assert asking(server, key, brought)["content"] == [{"type": "text", "text": "1 and 2"}]


def asking(server: Server, key: str, brought: dict[str, Any]) -> dict[str, Any]:
    """One round, on a connection of its own."""
    with HttpAgent(server.url, key, MODERN) as agent:
        meta: dict[str, Any] = {f"{PREFIX}clientCapabilities": {"elicitation": {}}}
        message = agent.message("tools/call", {"name": "twice", "arguments": {}, "_meta": meta, **brought})
        result: dict[str, Any] = answer(agent.send(message))["result"]
        return result
