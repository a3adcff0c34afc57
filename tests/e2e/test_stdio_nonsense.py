"""`toolhub runmcp` and what no honest client sends: everything is answered once, and nothing ends the connection."""

from __future__ import annotations

import json
import resource
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from mcp_types import INVALID_REQUEST

from tests.support.agents import LEGACY, MODERN, Agent
from tests.support.nonsense import STORED, Nasty, Nonsense, answered_as
from tests.support.processes import Home

MIB = 1024 * 1024

TOOLS = '''
from typing_extensions import TypedDict
from toolhub import Hints, tool

class Counted(TypedDict):
    n: int

@tool(hints=Hints(read_only=True))
async def count(n: int) -> Counted:
    """Count."""
    return {"n": n}

@tool(hints=Hints(read_only=True))
def crash() -> str:
    """Break, and print."""
    print("printed")
    raise RuntimeError("what nobody may see")
'''


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    folder = tmp_path_factory.mktemp("nonsense")
    (folder / "tools").mkdir()
    (folder / "tools" / "trials.py").write_text(TOOLS)
    made = Home(folder / "home", {"TOOLHUB_TOOLS_DIR": str(folder / "tools"), "TOOLHUB_RATE_CALLS": "0"})
    assert made.run("synctools").returncode == 0
    return made


@pytest.fixture(scope="module", params=[LEGACY, MODERN])
def agent(home: Home, request: pytest.FixtureRequest) -> Iterator[Agent]:
    with Agent(home, request.param) as connected:
        connected.connect()
        yield connected


@pytest.mark.parametrize("nasty", STORED, ids=lambda nasty: nasty.what)
def test_a_line_that_is_no_message_is_answered_and_the_next_one_works(agent: Agent, nasty: Nasty) -> None:
    agent.write(nasty.line + b"\n")
    refused = agent.next()
    assert (refused["id"], refused["error"]["code"]) == (nasty.request_id, nasty.code)
    assert agent.call("count", n=1)["isError"] is False


def test_a_line_without_end_is_answered_before_it_ends(agent: Agent) -> None:
    agent.write(b'{"a":"' + b"x" * 5 * MIB)
    refused = agent.next()
    assert (refused["id"], refused["error"]["code"]) == (None, INVALID_REQUEST)
    agent.write(b'"}\n')
    assert agent.call("count", n=1)["isError"] is False


@pytest.mark.parametrize("era", [LEGACY, MODERN])
@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.mcp)])
def test_every_line_is_answered_once_and_nothing_else_is_on_stdout(home: Home, era: str, count: int) -> None:
    with Agent(home, era) as agent:
        agent.connect()
        agent.call("count", n=1)
        agent.seen.clear()
        before = resident(agent)
        expected: Counter[str] = Counter()
        for line in Nonsense(era, seed=count).lines(count):
            agent.write(line + b"\n")
            if (request_id := answered_as(line)) is not None:
                expected[request_id] += 1
        expected[json.dumps(agent.ask_tool("count", n=count))] += 1
        while len(agent.seen) < expected.total():
            agent.next()
        assert agent.silent(0.1)
        assert Counter(json.dumps(message["id"]) for message in agent.seen) == expected
        assert all(("result" in message) != ("error" in message) for message in agent.seen)
        assert resident(agent) < before + 50 * MIB
        assert b"nobody may see" not in b"".join(agent.raw)
        code, seconds = agent.leave()
        assert (code, seconds < 2) == (0, True)
        errors = agent.errors()
        assert errors.count("Traceback") == errors.count("RuntimeError: what nobody may see"), "nothing else broke"


def resident(agent: Agent) -> int:
    pages = int(Path(f"/proc/{agent.process.pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize()
