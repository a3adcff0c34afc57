"""MCP servers that others wrote, behind a hub: added, tested, approved, listed, called, killed, and after a restart.
The admission test reports what each does.

`make setup-sources` installs them, outside the checkout; `make test-sources` runs this.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from scripts import mcp_servers
from tests.support.agents import LEGACY, MODERN
from tests.support.http_agents import HttpAgent
from tests.support.processes import Home, Server, key_in

pytestmark = pytest.mark.real_sources

SERVERS = mcp_servers.SERVERS
CALLED = [name for name, server in SERVERS.items() if "call" in server]


@dataclass
class Hub:
    home: Home
    folder: Path
    admin_key: str
    server: Server | None = None
    agent_key: str = ""
    # The names of the tools of each source, in the hub's words.
    tools: dict[str, list[str]] = field(default_factory=dict)

    def run(self, *arguments: str) -> Any:
        done = self.home.run(*arguments)
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return json.loads(done.stdout) if "--json" in arguments else done.stdout

    def ask(self, method: str, path: str, **body: Any) -> Any:
        assert self.server is not None
        headers = {"Authorization": f"Bearer {self.admin_key}"}
        response = httpx.request(method, f"{self.server.url}{path}", json=body or None, headers=headers, timeout=90)
        assert response.status_code < 300, response.text
        return response.json()

    @contextlib.contextmanager
    def agent(self, era: str = MODERN) -> Iterator[HttpAgent]:
        assert self.server is not None
        with HttpAgent(self.server.url, self.agent_key, era) as agent:
            agent.http.timeout = 60
            agent.connect()
            yield agent


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub with every server as a source, each listed and approved."""
    if missing := [name for name in SERVERS if not mcp_servers.is_installed(name)]:
        pytest.fail(f"not installed: {', '.join(missing)}; run `make setup-sources`")
    folder = tmp_path_factory.mktemp("real")
    home = Home(folder / "home")
    with home.serving():
        pass  # The first start prepares the database.
    made = home.run("addkey", "admin", "--scope", "admin:*", "--scope", "tools:list", "--scope", "tools:execute")
    hub = Hub(home, folder, key_in(made.stdout))
    connections: list[str] = []
    with home.serving() as hub.server:
        for name, server in SERVERS.items():
            directory = folder / name
            directory.mkdir()
            words = [word.format(directory=directory) for word in server["run"][1:]]
            hub.run("source", "add", name, "--command", str(mcp_servers.program(name)), *words)
            if "variables" in server:
                values = {key: value.format(directory=directory) for key, value in server["variables"].items()}
                hub.ask("POST", "/v1/connections", name=name, pack=name, form="environment", secrets=values)
                hub.ask("PATCH", f"/v1/sources/{name}", connection=name)
                connections.append(name)
        hub.ask("POST", "/v1/toolsets", name="all", packs=list(SERVERS))
        access = [word for name in connections for word in ("--connection", name)]
        hub.agent_key = key_in(hub.run("addkey", "agent", "--toolset", "all", *access))
        yield hub


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_is_tested_listed_and_approved(hub: Hub, name: str) -> None:
    tested = hub.ask("POST", f"/v1/sources/{name}/test")
    assert tested["tools"]
    hub.run("source", "on", name)
    shown = hub.ask("GET", f"/v1/sources/{name}")
    assert shown["state"] in ("available", "incomplete")
    assert shown["tools"] == len(tested["tools"]), shown["problems"]
    hub.run("source", "approve", name, "--enable")
    with hub.agent() as agent:
        hub.tools[name] = [tool for tool in agent.names() if tool.startswith(f"{name}_")]
    # A tool that cannot be called is recorded with a problem, and not listed.
    assert len(hub.tools[name]) + len(shown["problems"]) == len(tested["tools"])


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_has_an_admission_report(hub: Hub, name: str) -> None:
    warm = set(_processes(name))
    report = hub.run("source", "admit", name, "--json", "--call-read-only")
    checks = {check["check"]: check for check in report["checks"]}
    assert checks["start"]["state"] == "passed", checks["start"]
    assert checks["children"]["state"] == "passed", checks["children"]
    assert report["tools"]
    assert set(_processes(name)) == warm


@pytest.mark.parametrize("name", CALLED)
@pytest.mark.parametrize("era", [LEGACY, MODERN])
def test_a_tool_is_called(hub: Hub, name: str, era: str) -> None:
    with hub.agent(era) as agent:
        assert _says(hub, agent, name) in _text(_called(agent, name))


@pytest.mark.parametrize("name", CALLED)
def test_a_killed_server_comes_back(hub: Hub, name: str) -> None:
    with hub.agent() as agent:
        _called(agent, name)
        processes = _processes(name)
        assert processes
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        deadline = time.monotonic() + 30
        while True:
            result = _called(agent, name)
            if not result.get("isError"):
                break
            # Until the hub has seen its end, or while it waits before it starts it again.
            assert time.monotonic() < deadline, result
            assert "UPSTREAM" in json.dumps(result) or "OUTCOME" in json.dumps(result), result
        assert _says(hub, agent, name) in _text(result)


def test_after_a_restart_all_tools_are_listed_before_any_server_runs(hub: Hub) -> None:
    assert hub.server is not None
    with hub.agent() as agent:
        before = agent.ask("tools/list")
    hub.server.end()
    with hub.home.serving() as hub.server:
        with hub.agent() as agent:
            assert json.dumps(agent.ask("tools/list")) == json.dumps(before)
        for name in CALLED:
            with hub.agent() as agent:
                assert _says(hub, agent, name) in _text(_called(agent, name))


def _called(agent: HttpAgent, name: str) -> dict[str, Any]:
    tool, arguments = SERVERS[name]["call"]
    return agent.call(f"{name}_{tool}".replace("__", "_"), **arguments)


def _text(result: dict[str, Any]) -> str:
    assert not result.get("isError"), result
    return json.dumps(result, ensure_ascii=False)


def _says(hub: Hub, agent: HttpAgent, name: str) -> str:
    return str(SERVERS[name]["says"]).format(directory=hub.folder / name)


def _processes(name: str) -> list[int]:
    """The processes of a server, by their command line."""
    program = str(mcp_servers.program(name))
    found = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdigit() and program in (folder / "cmdline").read_bytes().decode(errors="replace"):
                found.append(int(folder.name))
    return found
