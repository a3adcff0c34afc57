"""Code that differs from what was recorded: new code never runs under old text, and what cannot load is not lost."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.agents import LEGACY, MODERN, Agent
from tests.support.installed import home_with, installed
from tests.support.processes import Home, key_in

CHANGED = "DEFINITION_CHANGED"
TOOL = '''
from toolhub import Hints, tool

@tool(hints=Hints(read_only=True, open_world=False))
def greet({parameter}: str) -> str:
    """Greet {whom}."""
    return "{words} " + {parameter}
'''
OLD = TOOL.format(parameter="who", whom="somebody", words="hello")
NEW = TOOL.format(parameter="who", whom="anybody", words="howdy")
PACK = '''
from toolhub import Hints, Pack

pack = Pack("adding", version="1.0.0")

@pack.tool(hints=Hints(read_only=True, open_world=False))
def add_up(first: float, second: float) -> float:
    """Add two numbers."""
    return first + second
'''
REASON = "broken on purpose"
BROKEN = f"raise RuntimeError({REASON!r})\n"


# ---- a file of the tools directory that is edited


@pytest.fixture
def home(tmp_path: Path) -> Home:
    tools = tmp_path / "tools"
    tools.mkdir(mode=0o755)
    made = Home(tmp_path / "home", {"TOOLHUB_TOOLS_DIR": str(tools)})
    save(made, OLD)
    assert made.run("synctools").returncode == 0
    return made


def save(home: Home, source: str) -> None:
    path = Path(home.extra["TOOLHUB_TOOLS_DIR"]) / "greet.py"
    path.write_text(source)
    path.chmod(0o644)


def listed_description(agent: Agent) -> str:
    (tool,) = (tool for tool in agent.tools() if tool["name"] == "greet")
    description: str = tool["description"]
    return description


def code_of(result: dict[str, Any]) -> str:
    code: str = result["_meta"]["toolhub/error"]["code"] if result.get("isError") else ""
    return code


def text_of(result: dict[str, Any]) -> str:
    text: str = result["content"][0]["text"]
    return text


@pytest.mark.parametrize("era", [LEGACY, MODERN])
def test_a_call_directly_after_an_edit_does_not_run_new_code_under_the_old_text(home: Home, era: str) -> None:
    with Agent(home, era) as agent:
        agent.connect()
        assert "Greet somebody" in listed_description(agent)
        # Sent at once: the process has not imported the file, and its watcher looks twice before it reloads one.
        save(home, NEW)
        refused = agent.call("greet", who="Ann")
        assert code_of(refused) == CHANGED, refused
        assert "howdy" not in json.dumps(refused)
        assert "Greet anybody" in listed_description(agent)
        assert text_of(agent.call("greet", who="Ann")) == "howdy Ann"


def test_a_process_that_starts_after_the_edit_has_the_new_definition(home: Home) -> None:
    save(home, NEW)
    done = home.run("calltool", "greet", '{"who": "Ann"}')
    assert "howdy Ann" in done.stdout, done.stderr


def test_arguments_are_checked_against_the_new_definition_then(home: Home) -> None:
    save(home, TOOL.format(parameter="person", whom="somebody", words="hello"))
    refused = home.run("calltool", "greet", '{"who": "Ann"}')
    assert "Required parameter missing: person" in refused.stderr
    again = home.run("calltool", "greet", '{"person": "Ann"}')
    assert "hello Ann" in again.stdout, again.stderr


def test_an_edit_that_leaves_the_definition_runs_at_once(home: Home) -> None:
    save(home, TOOL.format(parameter="who", whom="somebody", words="howdy"))
    done = home.run("calltool", "greet", '{"who": "Ann"}')
    assert done.returncode == 0, done.stderr
    assert "howdy Ann" in done.stdout


# ---- an installed pack


def test_a_pack_that_was_replaced_is_recorded_by_the_first_call(tmp_path: Path) -> None:
    pack = installed(tmp_path / "installed", "adding_pack", PACK)
    home = home_with(pack, tmp_path / "home")
    with Agent(home) as agent:
        agent.connect()
        pack.write(PACK.replace("Add two numbers", "Add two values").replace("first + second", "first + second + 1"))
        refused = agent.call("add_up", first=1, second=2)
        assert code_of(refused) == CHANGED, refused
        (description,) = (tool["description"] for tool in agent.tools() if tool["name"] == "add_up")
        assert "Add two values" in description
        assert text_of(agent.call("add_up", first=1, second=2)) == "4.0"


def retired(home: Home, name: str) -> bool:
    with closing(sqlite3.connect(home.database, timeout=5)) as database:
        rows = database.execute("SELECT retired_at FROM tools_app_toolrecord WHERE name = ?", [name]).fetchall()
    ((retired_at,),) = rows
    return retired_at is not None


def shown(home: Home, key: str, name: str) -> dict[str, Any]:
    """A tool as an administrator sees it over REST, from a new server."""
    with home.serving() as server:
        headers = {"X-API-Key": key}
        response = httpx.get(f"{server.url}/v1/tools/{name}", headers=headers, timeout=30, trust_env=False)
    assert response.status_code == 200, response.text
    tool: dict[str, Any] = response.json()
    return tool


def test_tools_of_a_pack_that_does_not_load_are_kept_until_it_is_repaired(tmp_path: Path) -> None:
    pack = installed(tmp_path / "installed", "adding_pack", PACK)
    home = home_with(pack, tmp_path / "home")
    key = key_in(home.run("addkey", "boss", "--scope", "admin:*").stdout)
    before = shown(home, key, "add_up")
    assert before["available"] is True

    pack.write(BROKEN)
    for _ in range(3):  # Absence counts only after a source has loaded.
        synced = home.run("synctools")
        assert "Traceback" not in synced.stdout
        assert not retired(home, "add_up")
    broken = shown(home, key, "add_up")
    assert (broken["available"], broken["enabled"]) == (False, True)
    assert broken["unavailableReason"]
    for column in ("description", "inputSchema", "version", "definitionHash", "annotations"):
        assert broken[column] == before[column], column
    doctor = home.run("doctor")
    assert doctor.returncode == 1
    assert f"RuntimeError: {REASON}" in doctor.stdout
    assert "adding_pack.py" in doctor.stdout
    refused = home.run("calltool", "add_up", '{"first": 1, "second": 2}')
    assert refused.returncode != 0
    assert REASON not in refused.stdout
    assert not retired(home, "add_up")

    pack.write(PACK)
    assert shown(home, key, "add_up") == before
    done = home.run("calltool", "add_up", '{"first": 1, "second": 2}')
    assert (done.returncode, done.stdout.strip()) == (0, "3.0"), done.stderr
