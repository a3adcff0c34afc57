"""A developer at work: agents and a server that run take up what changes in the tools directory."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.agents import LEGACY, Agent
from tests.support.processes import Home, key_in

CHANGED = "notifications/tools/list_changed"
TOOL = '''
from toolhub import tool

@tool
def greet() -> str:
    """Greet somebody."""
    return "{words}"
'''
# What a developer is promised, from saving to being told.
SECONDS = 2.0


@pytest.fixture
def home(tmp_path: Path) -> Home:
    tools = tmp_path / "tools"
    tools.mkdir(mode=0o755)
    made = Home(tmp_path / "home", {"TOOLHUB_TOOLS_DIR": str(tools)})
    assert made.run("synctools").returncode == 0
    return made


def save(home: Home, text: str) -> float:
    path = Path(home.extra["TOOLHUB_TOOLS_DIR"]) / "greet.py"
    path.write_text(text)
    path.chmod(0o644)
    return time.monotonic()


def called(agent: Agent) -> str:
    text: str = agent.call("greet")["content"][0]["text"]
    return text


def test_an_agent_is_notified_of_saved_files_and_keeps_working_tools(home: Home) -> None:
    path = Path(home.extra["TOOLHUB_TOOLS_DIR"]) / "greet.py"
    with Agent(home, LEGACY) as agent:
        agent.connect()
        assert "greet" not in {tool["name"] for tool in agent.tools()}
        saved = save(home, TOOL.replace("{words}", "hello"))
        agent.told(CHANGED)
        assert time.monotonic() - saved < SECONDS
        assert called(agent) == "hello"
        save(home, TOOL.replace("{words}", "howdy").replace("Greet somebody", "Greet anybody"))
        agent.told(CHANGED)
        assert called(agent) == "howdy"
        save(home, "def greet(:\n")
        deadline = time.monotonic() + 5
        while f"{path}:1: SyntaxError" not in agent.errors():
            assert time.monotonic() < deadline, agent.errors()
            time.sleep(0.05)
        assert called(agent) == "howdy"
        doctor = home.run("doctor")
        assert f"{path}:1: SyntaxError: invalid syntax" in doctor.stdout
        path.unlink()
        agent.told(CHANGED)
        assert "greet" not in {tool["name"] for tool in agent.tools()}


def test_a_server_does_the_same(home: Home) -> None:
    key = key_in(home.run("addkey", "developer").stdout)
    with home.serving() as server:

        def answer() -> Any:
            headers = {"Authorization": f"Bearer {key}"}
            body = {"name": "greet", "parameters": {}}
            return httpx.post(f"{server.url}/v1/tools/call", json=body, headers=headers).json().get("result")

        for words in ("hello", "howdy"):
            saved = save(home, TOOL.replace("{words}", words))
            while answer() != words:
                assert time.monotonic() - saved < SECONDS + 1
                time.sleep(0.05)
        save(home, "def greet(:\n")
        path = f"{home.extra['TOOLHUB_TOOLS_DIR']}/greet.py:1: SyntaxError"
        while path not in "".join(server.errors):
            assert time.monotonic() - saved < 30, server.errors
            time.sleep(0.05)
        assert answer() == "howdy"
        assert server.end() == 0


def test_no_call_is_lost_while_a_tool_changes(home: Home) -> None:
    home.extra |= {"TOOLHUB_RATE_CALLS": "0"}
    save(home, TOOL.replace("{words}", "v0"))
    home.run("synctools")
    with Agent(home, LEGACY) as agent:
        agent.connect()
        answers: list[str] = []
        for version in range(1, 4):
            save(home, TOOL.replace("{words}", f"v{version}"))
            deadline = time.monotonic() + 20
            while not answers or answers[-1] != f"v{version}":
                assert time.monotonic() < deadline, answers[-5:]
                answers.append(called(agent))
        # Every call got an answer of one version, and none of an older one after a newer.
        assert set(answers) <= {f"v{version}" for version in range(4)}
        assert answers == sorted(answers)


def test_a_call_that_runs_ends_with_the_code_that_it_began_with(home: Home) -> None:
    slow = "import time\n" + TOOL.replace("    return", "    time.sleep(3)\n    return")
    save(home, slow.replace("{words}", "old"))
    home.run("synctools")
    with Agent(home, LEGACY) as agent:
        agent.connect()
        asked = agent.ask_tool("greet")
        time.sleep(0.5)
        save(home, TOOL.replace("{words}", "new").replace("Greet somebody", "Greet anybody"))
        assert agent.result(asked, 20)["content"][0]["text"] == "old"
        deadline = time.monotonic() + 20
        while called(agent) != "new":
            assert time.monotonic() < deadline
