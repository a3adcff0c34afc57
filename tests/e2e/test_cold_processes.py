"""A process that has imported no pack lists all tools, at once and in the same bytes; the first call imports."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from tests.support.agents import LEGACY, MODERN, Agent
from tests.support.installed import InstalledPack, home_with, installed
from tests.support.processes import Home, key_in
from tests.support.stores import SQLiteStore

CHANGED = "notifications/tools/list_changed"
AGENTS = 3
IMPORT_SECONDS = 3.0
SLOW = '''
import time
from toolhub import Hints, Pack

time.sleep(SECONDS)
pack = Pack("slow", version="1.0.0")
READ = Hints(read_only=True, open_world=False)


@pack.tool(hints=READ)
def add_up(second: float, first: float) -> float:
    """Add two numbers."""
    return first + second


@pack.tool(hints=READ)
def multiply(first: float, second: float) -> float:
    """Multiply two numbers."""
    return first * second


@pack.prompt(tools=["add_up"])
def tally(what: str) -> str:
    """Add things up."""
    return f"Add up {what}."


@pack.resource("shelf://books/{number}")
def book(number: int) -> str:
    """A book."""
    return f"Book {number}"
'''.replace("SECONDS", str(IMPORT_SECONDS))
TOOLS = {"add_up", "multiply"}


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> InstalledPack:
    return installed(tmp_path_factory.mktemp("installed"), "slow_pack", SLOW)


@pytest.fixture(scope="module")
def home(pack: InstalledPack, tmp_path_factory: pytest.TempPathFactory) -> Home:
    return home_with(pack, tmp_path_factory.mktemp("cold") / "home")


def raw_list(agent: Agent) -> tuple[bytes, float]:
    """The whole answer to `tools/list` as it was sent, and how long it took after the handshake."""
    agent.connect()
    begin = time.monotonic()
    assert names_in(agent.result(agent.ask("tools/list"))) >= TOOLS
    return agent.raw[-1], time.monotonic() - begin


def names_in(result: dict[str, Any]) -> set[str]:
    return {tool["name"] for tool in result["tools"]}


def lists_of_new_processes(home: Home, count: int = AGENTS, era: str = LEGACY) -> list[tuple[bytes, float]]:
    """The first lists of processes that start at the same time."""
    with ExitStack() as running:
        agents = [running.enter_context(Agent(home, era)) for _ in range(count)]
        return [raw_list(agent) for agent in agents]


@pytest.mark.parametrize("era", [LEGACY, MODERN])
def test_first_lists_are_complete_and_identical_before_and_after_a_restart(home: Home, era: str) -> None:
    lists = [content for _ in range(2) for content, _ in lists_of_new_processes(home, era=era)]
    assert len(lists) == 2 * AGENTS
    assert len(set(lists)) == 1


def test_three_first_lists_arrive_at_once(home: Home) -> None:
    assert max(waited for _, waited in lists_of_new_processes(home)) < IMPORT_SECONDS


def test_a_list_imports_nothing_and_the_first_call_imports_once(home: Home, pack: InstalledPack) -> None:
    with Agent(home) as agent:
        raw_list(agent)
        time.sleep(0.5)
        assert agent.process.pid not in pack.importing_processes()
        for first in (1, 2):
            result = agent.call("add_up", first=first, second=2)
            assert result["content"][0]["text"] == f"{first + 2.0}"
        assert pack.importing_processes().count(agent.process.pid) == 1


def test_a_cold_process_checks_arguments_before_it_imports(home: Home, pack: InstalledPack) -> None:
    with Agent(home) as agent:
        raw_list(agent)
        refused = agent.call("add_up", first="one", second=2)
        assert refused["_meta"]["toolhub/error"]["code"] == "VALIDATION_ERROR"
        assert agent.process.pid not in pack.importing_processes()


def test_prompts_and_resources_are_listed_without_an_import_too(home: Home, pack: InstalledPack) -> None:
    lists = []
    for _ in range(2):
        with Agent(home) as agent:
            agent.connect()
            prompts = agent.result(agent.ask("prompts/list"))["prompts"]
            lists.append(agent.raw[-1])
            templates = agent.result(agent.ask("resources/templates/list"))["resourceTemplates"]
            lists.append(agent.raw[-1])
            assert agent.process.pid not in pack.importing_processes()
            assert "tally" in [prompt["name"] for prompt in prompts]
            assert "shelf://books/{number}" in [template["uriTemplate"] for template in templates]
            got = agent.result(agent.ask("prompts/get", {"name": "tally", "arguments": {"what": "apples"}}))
            assert got["messages"][0]["content"]["text"] == "Add up apples."
            read = agent.result(agent.ask("resources/read", {"uri": "shelf://books/7"}))
            assert read["contents"][0]["text"] == "Book 7"
            assert pack.importing_processes().count(agent.process.pid) == 1
    assert lists[:2] == lists[2:]


def test_a_cold_process_is_notified_within_a_second_and_refuses_the_next_call(home: Home) -> None:
    store = SQLiteStore(home.database)
    delays = []
    with Agent(home) as agent:
        raw_list(agent)
        for enabled in (0, 1, 0, 1):
            store.query(f"UPDATE tools_app_toolrecord SET enabled = {enabled} WHERE name = 'add_up'")  # noqa: S608
            begin = time.monotonic()
            agent.told(CHANGED, 10)
            delays.append(time.monotonic() - begin)
            result = agent.call("add_up", first=1, second=2)
            assert result["isError"] is not bool(enabled)
            if not enabled:
                assert result["_meta"]["toolhub/error"]["code"] == "TOOL_DISABLED"
    # The best of four: a busy machine delays some.
    assert min(delays) < 1, delays


def test_keys_hold_from_the_next_request_in_another_process(home: Home) -> None:
    """… and they do not change what agents are shown."""
    with home.serving() as server, Agent(home) as agent:
        before, _ = raw_list(agent)
        with httpx.Client(base_url=server.url, trust_env=False, timeout=30) as client:

            def status(key: str) -> int:
                return client.get("/v1/tools/echo", headers={"X-API-Key": key}).status_code

            made = home.run("addkey", "reader", "--scope", "tools:read")
            assert made.returncode == 0, made.stderr
            key = key_in(made.stdout)
            assert status(key) == 200
            revoked = home.run("revokekey", "reader")
            assert revoked.returncode == 0, revoked.stderr
            assert status(key) == 401
        assert agent.silent(0.5)
        again = agent.ask("tools/list")
        assert agent.result(again) == json.loads(before)["result"]
