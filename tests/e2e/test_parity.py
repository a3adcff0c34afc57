"""The same call through every door: the same answer, the same error, and one row in the journal."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias

import httpx
import pytest

from tests.packs.websearch.fakes import REPLACEMENT, web_for_processes
from tests.support.agents import LEGACY, MODERN, Agent
from tests.support.http_agents import HttpAgent, answer
from tests.support.processes import CHECKOUT, Home, key_in

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

Asked: TypeAlias = tuple[str, dict[str, Any]]

CALLS: list[Asked] = [
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
    ("web_search", {"query": "toolhub & more", "max_results": 3}),
    ("web_search", {"query": "nothing"}),
    ("web_search", {"query": " "}),
    ("web_search", {"query": "q", "max_results": 31}),
    ("instant_answer", {"query": "django"}),
    ("instant_answer", {}),
    ("read_page", {"url": "{web}/page/"}),
    ("read_page", {"url": "http://10.0.0.1/"}),
]


def calls(home: Home) -> Iterator[Asked]:
    for name, arguments in CALLS:
        if "url" in arguments:
            arguments = {"url": arguments["url"].format(web=home.extra["WEB_OF_THE_TEST"])}
        yield name, arguments


# Replaces the web in each process at its start, whether or not it imports a tool.
REPLACING = """
from django.apps import AppConfig

CODE = '''{code}'''


class Replacing(AppConfig):
    name = "replacing"

    def ready(self):
        exec(CODE, {{}})
"""
SETTINGS = """
from toolhub.settings import *

INSTALLED_APPS = [*INSTALLED_APPS, "replacing"]
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    directory: Path = tmp_path_factory.mktemp("parity")
    (directory / "tools").mkdir()
    (directory / "tools" / "doors.py").write_text(TOOLS)
    (directory / "replacing").mkdir()
    (directory / "replacing" / "__init__.py").touch()
    (directory / "replacing" / "apps.py").write_text(REPLACING.format(code=REPLACEMENT))
    (directory / "replacing_settings.py").write_text(SETTINGS)
    with web_for_processes() as web:
        web.say("api", "ddg_ia_article.json")
        web.say("page", "ddg_html_no_results.html")
        settings = {
            "TOOLHUB_TOOLS_DIR": str(directory / "tools"),
            "DJANGO_SETTINGS_MODULE": "replacing_settings",
            "PYTHONPATH": os.pathsep.join((str(CHECKOUT), str(directory))),
            "WEB_OF_THE_TEST": web.server.url,
            "WEBSEARCH_SEARXNG_URL": web.server.url,
            "WEBSEARCH_RATE_LIMIT_MS": "0",
        }
        made = Home(directory / "home", settings)
        assert made.run("synctools").returncode == 0
        with closing(sqlite3.connect(made.database, isolation_level=None)) as database:
            database.execute("UPDATE tools_app_toolrecord SET enabled = 0 WHERE name = 'off'")
            database.execute("UPDATE tools_app_toolrecord SET enabled = 1 WHERE name = 'read_page'")
        yield made


def parsed(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    # The marks around a page differ from call to call.
    return json.loads(text) if text.startswith("{") else re.sub(r"\[untrusted [0-9a-f]{16}", "[untrusted", text)


def over_rest(home: Home, asked: list[Asked]) -> list[Any]:
    outcomes: list[Any] = []
    key = key_in(home.run("addkey", f"parity of {len(asked)}").stdout)
    with home.serving() as server, httpx.Client(headers={"X-API-Key": key}, trust_env=False, timeout=30) as client:
        for name, arguments in asked:
            body = client.post(f"{server.url}/v1/tools/call", json={"name": name, "parameters": arguments}).json()
            outcomes.append(parsed(body["result"]) if body["success"] else (body["code"], body["error"]))
    return outcomes


def over_stdio(home: Home, asked: list[Asked]) -> list[Any]:
    with Agent(home) as agent:
        agent.connect()
        outcomes = [outcome(name, agent.answer(agent.ask_tool(name, **arguments))) for name, arguments in asked]
        agent.leave()
    return outcomes


def over_http(home: Home, era: str, asked: list[Asked]) -> list[Any]:
    key = key_in(home.run("addkey", f"parity {era}").stdout)
    with home.serving() as server, HttpAgent(server.url, key, era) as agent:
        agent.connect()
        return [
            outcome(name, answer(agent.send(agent.message("tools/call", {"name": name, "arguments": arguments}))))
            for name, arguments in asked
        ]


def outcome(name: str, answered: dict[str, Any]) -> Any:
    """What a call over MCP came to, in the form of `over_rest`."""
    if "error" in answered:
        assert answered["error"]["code"] == -32602
        return "TOOL_NOT_FOUND", f"Tool not found: {name}"
    result = answered["result"]
    text = result["content"][0]["text"]
    return (result["_meta"]["toolhub/error"]["code"], text) if result["isError"] else parsed(text)


def by_command(home: Home, asked: list[Asked]) -> list[Any]:
    outcomes: list[Any] = []
    for name, arguments in asked:
        done = home.run("calltool", name, json.dumps(arguments))
        if done.returncode == 0:
            outcomes.append(parsed(done.stdout.strip()))
        else:
            outcomes.append((done.returncode, done.stderr))
    return outcomes


def test_every_door_gives_the_same_answer_and_writes_one_row(home: Home) -> None:
    asked = list(calls(home))
    rest, command = over_rest(home, asked), by_command(home, asked)
    assert over_stdio(home, asked) == rest
    assert over_http(home, LEGACY, asked) == rest
    assert over_http(home, MODERN, asked) == rest
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
