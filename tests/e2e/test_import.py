"""A client with twenty servers: imported, approved, moved behind the hub, called through it, and put back."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.support import mcp_upstream
from tests.support.agents import LEGACY, Agent
from tests.support.processes import Home

pytestmark = pytest.mark.e2e

SERVERS = 20
TOKEN = "a-token-of-the-weather-service"


def ran(home: Home, *arguments: str, code: int = 0, **extra: str) -> str:
    done = home.run(*arguments, **extra)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def desktop(folder: Path) -> Path:
    """A file as people leave it: a comment, some settings, twenty servers of which one needs a token."""
    lines = []
    for number in range(SERVERS):
        name = f"weather-{chr(ord('a') + number)}-mcp"
        word, *arguments = mcp_upstream.command(tools=[mcp_upstream.tool("read", f"Reads {number}.")])
        entry: dict[str, object] = {"command": word, "args": [*arguments, f"--number={number}"]}
        if number == 0:
            entry["env"] = {"WEATHER_TOKEN": "${WEATHER_TOKEN}", "UNITS": "${UNITS:-metric}"}
        lines.append(f"    {json.dumps(name)}: {json.dumps(entry)}")
    path = folder / "claude_desktop_config.json"
    path.write_text('{\n  // ours\n  "theme": "dark",\n  "mcpServers": {\n' + ",\n".join(lines) + "\n  }\n}\n")
    return path


def test_twenty_servers_move_behind_the_hub_and_back(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    ran(home, "synctools")
    path = desktop(tmp_path)
    before = path.read_bytes()
    place = ("import", "claude-desktop", "--file", str(path))

    shown = ran(home, *place, "--dry-run", WEATHER_TOKEN=TOKEN)
    assert f"Would be imported: {SERVERS} added, 0 exists" in shown
    assert "connection (environment): UNITS, WEATHER_TOKEN (secret)" in shown
    assert "values are missing: WEATHER_TOKEN" in ran(home, *place, "--dry-run", code=1)
    imported = ran(home, *place, WEATHER_TOKEN=TOKEN)
    assert f"Imported: {SERVERS} added, 0 exists, 0 own, 0 incomplete, 0 refused." in imported
    assert f"Imported: 0 added, {SERVERS} exists" in ran(home, *place)
    sources = [item for item in json.loads(ran(home, "source", "list", "--json")) if item["kind"] == "mcp_stdio"]
    assert len(sources) == SERVERS
    assert {item["state"] for item in sources} == {"off"}
    assert path.read_bytes() == before

    for name in ("weathera", "weatherb"):
        ran(home, "source", "on", name)
        ran(home, "source", "approve", name, "--enable")

    moved = ran(home, *place, "--move")
    # One more: the tool that reads large answers.
    assert "Connection tested: the agent sees 3 tools" in moved
    assert "Without tools until you switch them on and approve their tools: weatherc, " in moved
    (name, entry), *others = json.loads(path.read_text().replace("// ours", ""))["mcpServers"].items()
    assert (name, others) == ("toolhub", [])
    assert '  // ours\n  "theme": "dark",\n' in path.read_text()
    assert TOKEN not in path.read_text()

    assert entry["args"][:3] == ["-m", "toolhub", "runmcp"]
    with Agent(home, LEGACY, arguments=entry["args"][3:]) as agent:
        agent.connect()
        assert [tool["name"] for tool in agent.tools()] == ["read_result", "weathera_read", "weatherb_read"]
        assert "hello" in str(agent.call("weathera_read", text="hello"))

    undone = ran(home, *place, "--undo")
    assert "is as it was before the move" in undone
    assert path.read_bytes() == before
    assert sorted(one.name for one in tmp_path.iterdir()) == ["claude_desktop_config.json", "home"]
    assert subprocess.run(["grep", "-rlF", TOKEN, str(home.path)], capture_output=True, check=False).stdout == b""
