"""The same call through every door: the same answer, the same error, and one row in the journal."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.agents import LEGACY, MODERN, Agent
from tests.support.http_agents import HttpAgent, answer
from tests.support.processes import Home, key_in

TOOLS = '''
from toolhub import Hints, NotFoundError, tool

@tool(hints=Hints(read_only=True))
def workflow(id: str) -> dict[str, str]:
    """Get a workflow."""
    if id == "abc123":
        context = {"operation": "get workflow", "resourceType": "Workflow", "resourceId": id}
        raise NotFoundError(f"Workflow {id!r} not found", context=context)
    if id == "boom":
        raise RuntimeError("secret detail")
    return {"id": id}

@tool(hints=Hints(read_only=True))
def off() -> str:
    """Be switched off."""
    return "on"

@tool(hints=Hints(read_only=True))
def words(text: str) -> str:
    """Say something."""
    return f"# {text}"
'''

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("echo", {"message": "hi 日本語 😀"}),
    ("calculate", {"operation": "divide", "a": 7, "b": 2}),
    ("words", {"text": "a heading"}),
    ("workflow", {"id": "1"}),
    ("calculate", {"operation": "divide", "a": 1, "b": 0}),
    ("calculate", {"operation": "power", "a": "1"}),
    ("echo", {"message": 3}),
    ("echo", {"message": "x", "more": 1}),
    ("workflow", {"id": "abc123"}),
    ("workflow", {"id": "boom"}),
    ("off", {}),
    ("nothing", {}),
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    directory: Path = tmp_path_factory.mktemp("parity")
    (directory / "tools").mkdir()
    (directory / "tools" / "doors.py").write_text(TOOLS)
    made = Home(directory / "home", {"TOOLHUB_TOOLS_DIR": str(directory / "tools")})
    assert made.run("synctools").returncode == 0
    with closing(sqlite3.connect(made.database, isolation_level=None)) as database:
        database.execute("UPDATE tools_app_toolrecord SET enabled = 0 WHERE name = 'off'")
    return made


def parsed(text: str) -> Any:
    return json.loads(text) if text.startswith("{") else text


def over_rest(home: Home) -> list[Any]:
    outcomes: list[Any] = []
    key = key_in(home.run("addkey", "parity").stdout)
    with home.serving() as server, httpx.Client(headers={"X-API-Key": key}, trust_env=False) as client:
        for name, arguments in CALLS:
            body = client.post(f"{server.url}/v1/tools/call", json={"name": name, "parameters": arguments}).json()
            outcomes.append(body["result"] if body["success"] else (body["code"], body["error"]))
    return outcomes


def over_stdio(home: Home) -> list[Any]:
    with Agent(home) as agent:
        agent.connect()
        outcomes = [outcome(name, agent.answer(agent.ask_tool(name, **arguments))) for name, arguments in CALLS]
        agent.leave()
    return outcomes


def over_http(home: Home, era: str) -> list[Any]:
    key = key_in(home.run("addkey", f"parity {era}").stdout)
    with home.serving() as server, HttpAgent(server.url, key, era) as agent:
        agent.connect()
        return [
            outcome(name, answer(agent.send(agent.message("tools/call", {"name": name, "arguments": arguments}))))
            for name, arguments in CALLS
        ]


def outcome(name: str, answered: dict[str, Any]) -> Any:
    """What a call over MCP came to, in the form of `over_rest`."""
    if "error" in answered:
        assert answered["error"]["code"] == -32602
        return "TOOL_NOT_FOUND", f"Tool not found: {name}"
    result = answered["result"]
    text = result["content"][0]["text"]
    return (result["_meta"]["toolhub/error"]["code"], text) if result["isError"] else parsed(text)


def by_command(home: Home) -> list[Any]:
    outcomes: list[Any] = []
    for name, arguments in CALLS:
        done = home.run("calltool", name, json.dumps(arguments))
        if done.returncode == 0:
            outcomes.append(parsed(done.stdout.strip()))
        else:
            outcomes.append((done.returncode, done.stderr))
    return outcomes


def test_every_door_gives_the_same_answer_and_writes_one_row(home: Home) -> None:
    rest, command = over_rest(home), by_command(home)
    assert over_stdio(home) == rest
    assert over_http(home, LEGACY) == rest
    assert over_http(home, MODERN) == rest
    exits = {"TOOL_NOT_FOUND": 3, "TOOL_DISABLED": 3, "VALIDATION_ERROR": 2}
    for outcome, expected in zip(command, rest, strict=True):
        if isinstance(expected, tuple):
            code, message = expected
            assert outcome[0] == exits.get(code, 1)
            assert message in outcome[1]
            assert "secret detail" not in outcome[1]
        else:
            assert outcome == expected
    with closing(sqlite3.connect(home.database, isolation_level=None)) as database:
        query = "SELECT tool_name, status, code, error FROM tools_app_call WHERE door = ? ORDER BY started_at"
        rows = {door: database.execute(query, [door]).fetchall() for door in ("rest", "mcp", "command")}
    assert len(rows["rest"]) == len(CALLS)
    assert rows["rest"] == rows["command"]
    assert rows["mcp"] == rows["rest"] * 3, "over stdio, and over HTTP in both eras"
