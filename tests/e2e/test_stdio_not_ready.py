"""`toolhub runmcp` on a hub that cannot be used: all that an agent's user sees is what comes over the protocol."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from mcp_types import INTERNAL_ERROR

from tests.support.agents import LEGACY, MODERN, Agent, copy_of
from tests.support.processes import CHECKOUT, Home, free_port

ERAS = pytest.mark.parametrize("era", [LEGACY, MODERN])

Broken: TypeAlias = Callable[[Home], dict[str, Any]]
"""What somebody does to a home, and how an agent then starts it."""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Home:
    made = Home(tmp_path_factory.mktemp("template") / "home")
    assert made.run("synctools").returncode == 0
    return made


@pytest.fixture
def home(template: Home, tmp_path: Path) -> Home:
    return copy_of(template, tmp_path / "home")


def migrated(change: str) -> Broken:
    def broken(home: Home) -> dict[str, Any]:
        with closing(sqlite3.connect(home.database)) as database, database:
            database.execute(change)
        return {}

    return broken


def no_database(home: Home) -> dict[str, Any]:
    for file in home.path.glob("toolhub.sqlite3*"):
        file.unlink()
    home.database.write_bytes(b"this is no database" * 1000)
    return {}


def started_with(*arguments: str, **environment: str) -> Broken:
    return lambda _: {"arguments": arguments, **environment}


LATER = migrated("INSERT INTO django_migrations (app, name, applied) VALUES ('tools_app', '9999_later', '2026-01-01')")
EARLIER = migrated("DELETE FROM django_migrations WHERE app = 'auth' AND name LIKE '0012%'")


@ERAS
@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (LATER, "the database was created by a later version of ToolHub; install that version"),
        (EARLIER, "the database is older than this program; run `toolhub migrate`"),
        (no_database, "(file is not a database); check DATABASE_URL"),
        (started_with(DATABASE_URL="sqlite:////proc/nowhere/x"), "cannot use the database /proc/nowhere/x"),
        (started_with(TOOLHUB_HOME="/proc/nowhere"), "TOOLHUB_HOME: cannot use /proc/nowhere"),
        (started_with(PORT="abc", DEBUG="maybe"), "found 'maybe'; PORT: expected a whole number"),
        (started_with(N8N_READ_ONLY="ture"), "N8N_READ_ONLY: expected true or false, found 'ture'"),
        (started_with(DJANGO_SETTINGS_MODULE="nowhere.settings"), "it failed to start"),
        (started_with("--toolset", "nobody"), "there is no toolset 'nobody'; there are: none"),
        (started_with("--tolset", "sums"), "unrecognized arguments: --tolset sums"),
        (started_with("--transport", "http"), "`toolhub serve` serves MCP over HTTP"),
    ],
    ids=[
        "later",
        "earlier",
        "no database",
        "no file",
        "no home",
        "settings",
        "variables of packs",
        "code",
        "toolset",
        "arguments",
        "transport",
    ],
)
def test_says_over_the_protocol_what_is_wrong(home: Home, broken: Broken, why: str, era: str) -> None:
    with Agent(home, era, **broken(home)) as agent:
        first = agent.greet()
        agent.write(b'nonsense\n[]\n{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        agent.write(b'{"jsonrpc":"2.0","id":null,"method":"ping"}\n{"jsonrpc":"2.0","id":9,"result":{}}\n')
        last = agent.ask("tools/list")
        refused = agent.answer(first, 20), agent.answer(last)
        for answer in refused:
            assert answer["error"]["code"] == INTERNAL_ERROR
            assert answer["error"]["message"].startswith("ToolHub cannot be used: ")
            assert why in answer["error"]["message"]
        assert [message.get("id") for message in agent.seen] == [first, None, None, None, last]
        code, seconds = agent.leave()
        assert code == 2
        assert seconds < 2
        assert all(part in agent.errors() for part in why.split("; "))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_can_be_ended(home: Home, number: signal.Signals) -> None:
    with Agent(home, **LATER(home)) as agent:
        assert "error" in agent.answer(agent.greet(), 20)
        code, seconds = agent.signalled(number)
        assert (code, seconds < 1) == (0, True)
        assert agent.errors().count("\n") == 1


def test_a_user_at_a_terminal_does_not_wait(home: Home) -> None:
    LATER(home)
    ours, theirs = os.openpty()
    with os.fdopen(ours, "rb"), os.fdopen(theirs, "rb") as terminal:
        command = [sys.executable, "-m", "toolhub", "runmcp"]
        done = subprocess.run(
            command,
            stdin=terminal,
            capture_output=True,
            env=home.environment,
            cwd=CHECKOUT.anchor,
            timeout=20,
            check=False,
        )
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"toolhub: the database was created by a later version")


# ---- what passes


def test_greets_its_client_where_the_database_is_not_reached_and_names_no_password(tmp_path: Path) -> None:
    url = f"postgres://somebody:secretpw@127.0.0.1:{free_port()}/none"
    with Agent(Home(tmp_path / "home"), DATABASE_URL=url) as agent:
        assert agent.connect()["serverInfo"]["name"] == "toolhub"
        for asked in (agent.ask("tools/list"), agent.ask_tool("echo", message="hi")):
            refused = agent.answer(asked)["error"]
            assert refused["code"] == INTERNAL_ERROR
            assert "Connection refused" in refused["message"]
            assert refused["message"].endswith("; call again in a moment")
        code, seconds = agent.leave()
        assert (code, seconds < 2) == (0, True)
        assert "secretpw" not in agent.errors() + repr(agent.seen)
