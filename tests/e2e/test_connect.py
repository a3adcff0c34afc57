"""`toolhub connect`: real clients' files, and what is written there is started as a client would start it."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support import shipped
from tests.support.http_agents import HttpAgent
from tests.support.processes import Home, Server, free_port
from tests.support.stores import SQLiteStore

TOOL = '''
from toolhub import Hints, tool

@tool(hints=Hints(read_only=True))
def near() -> str:
    """Be near."""
    return "near"
'''


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return Home(tmp_path_factory.mktemp("connect") / "home")


@pytest.fixture(scope="module")
def server(home: Home) -> Iterator[Server]:
    with home.serving() as server:
        yield server


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """The home of a user who has clients."""
    (tmp_path / "user").mkdir()
    return tmp_path / "user"


def connect(home: Home, user: Path, *arguments: str, **extra: str) -> str:
    done = home.run("connect", *arguments, HOME=str(user), **extra)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


def refused(home: Home, user: Path, *arguments: str, **extra: str) -> str:
    done = home.run("connect", *arguments, HOME=str(user), **extra)
    assert done.returncode in (1, 2)
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.stderr


def entry_in(path: Path, name: str = "toolhub", member: str = "mcpServers") -> dict[str, Any]:
    entry: dict[str, Any] = json.loads(path.read_text())[member][name]
    return entry


def key_of(entry: dict[str, Any]) -> str:
    return str(entry["headers"]["Authorization"]).removeprefix("Bearer ")


def states(home: Home) -> dict[str, bool]:
    """The keys of the hub, and whether they work."""
    with closing(sqlite3.connect(home.database)) as database:
        return dict(database.execute("SELECT name, revoked_at IS NULL FROM tools_app_apikey"))


def test_a_client_is_connected_over_stdio_and_its_other_servers_stay(home: Home, user: Path) -> None:
    path = user / ".claude.json"
    path.write_text('{"numStartups": 7, "mcpServers": {"other": {"command": "x"}}}')
    said = connect(home, user, "claude-code", "--read-only")
    assert f"as 'toolhub' in {path}" in said
    assert f"Connection tested: the agent sees {len(shipped.listed())} tools" in said
    whole = json.loads(path.read_text())
    assert (whole["numStartups"], whole["mcpServers"]["other"]) == (7, {"command": "x"})
    assert entry_in(path) == {
        "type": "stdio",
        "command": sys.executable,
        "args": ["-m", "toolhub", "runmcp", "--read-only"],
        "env": {"TOOLHUB_HOME": str(home.path), "TOOLHUB_ENV_FILE": os.devnull},
    }
    assert json.loads(path.with_name(".claude.json.before-toolhub").read_text())["numStartups"] == 7
    path.write_text(path.read_text().replace('"type": "stdio"', '"type": "stdio", "timeout": 9000'))
    connect(home, user, "claude-code")
    assert (entry_in(path)["args"][-1], entry_in(path)["timeout"]) == ("runmcp", 9000)
    connect(home, user, "claude-code", "--remove")
    assert json.loads(path.read_text())["mcpServers"] == {"other": {"command": "x"}}
    assert "there is no 'toolhub'" in refused(home, user, "claude-code", "--remove")


def test_an_agent_can_be_shown_tools_by_searching(home: Home, user: Path) -> None:
    connect(home, user, "claude-code", "--mode", "search")
    assert entry_in(user / ".claude.json")["args"] == ["-m", "toolhub", "runmcp", "--mode", "search"]


def test_the_entry_leads_to_this_hub_from_anywhere(tmp_path: Path, user: Path) -> None:
    """Everything is named as seen from the directory in which the command runs."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "near.py").write_text(TOOL)
    near = tmp_path.relative_to(tmp_path.anchor)
    relative = {
        "TOOLHUB_HOME": str(near / "home"),
        "TOOLHUB_TOOLS_DIR": str(near / "tools"),
        "DATABASE_URL": f"sqlite:///{near / 'elsewhere.sqlite3'}",
    }
    project = tmp_path / "project"
    project.mkdir()
    said = connect(Home(tmp_path / "home"), user, "vscode", "--project", str(project), **relative)
    assert f"the agent sees {len(shipped.listed()) + 1} tools" in said
    assert "variables with their current values: DATABASE_URL, TOOLHUB_ENV_FILE, TOOLHUB_TOOLS_DIR" in said
    entry = entry_in(project / ".vscode" / "mcp.json", member="servers")
    assert entry["env"]["DATABASE_URL"] == f"sqlite:///{tmp_path / 'elsewhere.sqlite3'}"
    started = subprocess.run(
        [entry["command"], *entry["args"][:-1], "calltool", "near"],
        env={"PATH": os.environ["PATH"], **entry["env"]},
        cwd=user,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert started.stdout.strip() == "near", started.stderr
    assert not (tmp_path / "home" / "toolhub.sqlite3").exists()


def test_the_settings_file_is_not_copied(tmp_path: Path, user: Path) -> None:
    dotenv = tmp_path / "hub.env"
    dotenv.write_text("TOOLHUB_RATE_CALLS=5\nTOOLHUB_ENCRYPTION_KEY=from-the-file-0123456789-abcdefghij\n")
    home = Home(tmp_path / "home", {"TOOLHUB_ENV_FILE": str(dotenv), "TOOLHUB_PAYLOADS": "none", "HOST": "::1"})
    connect(home, user, "cursor", "--no-check")
    assert entry_in(user / ".cursor" / "mcp.json")["env"] == {
        "TOOLHUB_ENV_FILE": str(dotenv),
        "TOOLHUB_HOME": str(home.path),
        "TOOLHUB_PAYLOADS": "none",
    }


def test_secrets_in_the_environment_make_the_file_private_and_are_not_printed(home: Home, user: Path) -> None:
    secret = {"TOOLHUB_ENCRYPTION_KEY": "not for all eyes and long enough"}
    printed = connect(home, user, "cursor", "--print", **secret)
    assert "not for all eyes and long enough" not in printed
    assert json.loads(printed)["mcpServers"]["toolhub"]["env"]["TOOLHUB_ENCRYPTION_KEY"] == "***"
    assert not (user / ".cursor").exists()
    connect(home, user, "cursor", "--no-check", **secret)
    path = user / ".cursor" / "mcp.json"
    assert entry_in(path)["env"]["TOOLHUB_ENCRYPTION_KEY"] == "not for all eyes and long enough"
    assert path.stat().st_mode & 0o777 == 0o600


def test_over_http_a_client_gets_a_key_of_its_own(home: Home, server: Server, user: Path) -> None:
    at = {"PORT": str(server.port)}
    path = user / ".cursor" / "mcp.json"
    said = connect(home, user, "cursor", "--http", "--read-only", **at)
    assert f"Connection tested: the agent sees {len(shipped.listed())} tools" in said
    first = key_of(entry_in(path))
    assert entry_in(path)["url"] == f"{server.url}/mcp"
    assert first not in said
    assert path.stat().st_mode & 0o777 == 0o600
    with closing(sqlite3.connect(home.database)) as database:
        assert database.execute("SELECT may_write FROM tools_app_apikey WHERE name = 'cursor'").fetchall() == [(0,)]

    said = connect(home, user, "cursor", "--http", **at)
    assert "The previous key, cursor, is revoked." in said
    second = key_of(entry_in(path))
    assert (states(home)["cursor"], states(home)["cursor-2"]) == (False, True)
    with HttpAgent(server.url, first) as before, HttpAgent(server.url, second) as after:
        assert before.send(before.message("server/discover")).status_code == 401
        assert after.names() == shipped.listed()

    assert "The previous key, cursor-2, is revoked." in connect(home, user, "cursor", "--remove")
    assert not states(home)["cursor-2"]


def test_generic_prints_what_can_be_piped(home: Home, server: Server, user: Path) -> None:
    own = json.loads(connect(home, user, "generic", "--name", "hub"))["mcpServers"]["hub"]
    assert own["args"] == ["-m", "toolhub", "runmcp"]
    at = ("--url", server.url)
    known = states(home)
    hidden = json.loads(connect(home, user, "generic", *at))["mcpServers"]["toolhub"]
    assert hidden["headers"] == {"Authorization": "***"}
    assert states(home) == known
    shown = json.loads(connect(home, user, "generic", *at, "--show-key"))["mcpServers"]["toolhub"]
    assert shown["url"] == f"{server.url}/mcp"
    with HttpAgent(server.url, key_of(shown)) as agent:
        assert agent.names() == shipped.listed()
    assert list(user.iterdir()) == []


def test_what_does_not_work_is_not_written(home: Home, server: Server, user: Path) -> None:
    known = states(home)
    nowhere = f"http://127.0.0.1:{free_port()}"
    told = refused(home, user, "vscode", "--url", nowhere)
    assert f"the connection test failed: no answer from {nowhere}/mcp. Start the hub" in told
    assert "answers 404" in refused(home, user, "vscode", "--url", f"{server.url}/v1/nothing")
    told = refused(home, user, "vscode", "--toolset", "nope")
    assert "the connection test failed: there is no toolset 'nope'; there are: none. Nothing was changed" in told
    assert states(home) == known
    told = refused(home, user, "vscode", "--url", f"{server.url}/mcp/nope")
    assert "answers 404: there is no MCP server at this address, or no such toolset" in told
    assert states(home) == {**known, "vscode": False}
    assert list(user.iterdir()) == []


def test_a_key_of_another_hub_is_distinguished(home: Home, server: Server, user: Path, tmp_path: Path) -> None:
    other = Home(tmp_path / "other")
    other.run("synctools")
    SQLiteStore(other.database).query("UPDATE tools_app_toolrecord SET enabled = 0")
    assert "the agent sees no tools (run `toolhub doctor`)" in connect(other, user, "vscode")
    assert "answers 401: it rejects the new API key" in refused(other, user, "cursor", "--url", server.url)
    connect(home, user, "cursor")
    path = user / ".cursor" / "mcp.json"
    before = path.read_text()
    for arguments in (["cursor"], ["cursor", "--remove"]):
        assert "'toolhub' in" in (told := refused(other, user, *arguments))
        assert "is not this hub's. Choose another --name, or use --force" in told
    assert path.read_text() == before
    connect(other, user, "cursor", "--force", "--no-check")
    assert entry_in(path)["env"]["TOOLHUB_HOME"] == str(other.path)


def test_an_unreadable_file_is_left_alone_and_creates_no_key(home: Home, server: Server, user: Path) -> None:
    known = states(home)
    path = user / ".claude.json"
    path.write_text("{broken")
    told = refused(home, user, "claude-code", "--url", server.url)
    assert f"{path} is not changed: it is not JSON" in told
    assert "--print shows the entry to add" in told
    assert path.read_text() == "{broken"
    assert states(home) == known


@pytest.mark.usefixtures("server")
def test_the_anthropic_api_is_given_a_toolset_that_names_each_tool(home: Home, user: Path) -> None:
    known = states(home)
    printed = json.loads(connect(home, user, "anthropic-api", "--url", "https://hub.example.org", "--print"))
    (server,), (search, toolset) = printed["mcp_servers"], printed["tools"]
    assert server == {
        "type": "url", "name": "toolhub", "url": "https://hub.example.org/mcp", "authorization_token": "***",
    }  # fmt: skip
    assert search["type"].startswith("tool_search_tool_")
    assert (toolset["type"], toolset["mcp_server_name"]) == ("mcp_toolset", "toolhub")
    assert toolset["default_config"] == {"defer_loading": True}
    assert sorted(toolset["configs"]) == shipped.listed()
    listed = [name for name, config in toolset["configs"].items() if not config["defer_loading"]]
    assert listed == ["read_result"]
    assert states(home) == known, "no key is created"
