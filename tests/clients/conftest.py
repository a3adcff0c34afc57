"""The hub that all these clients meet: one served over HTTP, one beside it for its operator, and one for each agent
that starts its own."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.agents import copy_of
from tests.support.processes import CHECKOUT, Home, Server, key_in

MODULES = CHECKOUT / "tests" / "node" / "node_modules"
# `read_result` is offered to everybody.
TOOLS = ("climb", "echo", "measure", "order", "read_result", "rest")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of these need what the default run has no time for."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.mcp)


@pytest.fixture(scope="session")
def node() -> str:
    """The Node.js that runs the foreign clients."""
    if not (MODULES / "installed.json").exists():
        missing = "not run: `make setup-node` fetches what this needs"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    return str(MODULES / "node" / "bin" / "node")


@dataclass
class Site:
    """A hub at work. Agents have a key, or a process, that is limited to a toolset."""

    home: Home
    broken: Home
    server: Server
    operators: Server
    key: str
    operator_key: str

    @property
    def url(self) -> str:
        return f"{self.server.url}/mcp"

    def command(self, *, broken: bool = False) -> dict[str, Any]:
        """How an agent starts a hub of its own."""
        home = self.broken if broken else self.home
        arguments = ["-m", "toolhub", "runmcp", "--toolset", "everyday"]
        return {"command": sys.executable, "args": arguments, "env": home.environment, "cwd": CHECKOUT.anchor}

    def operate(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Do something as the operator, with a process of its own."""
        headers = {"X-API-Key": self.operator_key}
        url = f"{self.operators.url}/v1/{path}"
        response = httpx.request(method, url, json=body, headers=headers, trust_env=False)
        assert response.is_success, response.text
        return response.json()


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    tools = Path(__file__).with_name("tools")
    home = Home(folder / "home", {"TOOLHUB_TOOLS_DIR": str(tools), "LOG_LEVEL": "error"})
    synced = home.run("synctools")
    assert synced.returncode == 0, synced.stderr
    broken = copy_of(home, folder / "broken")
    with closing(sqlite3.connect(broken.database)) as database, database:
        database.execute("INSERT INTO django_migrations (app, name, applied) VALUES ('tools_app', '9999_later', '')")
    operator_key = key_in(home.run("addkey", "operator", "--scope", "admin:*").stdout)
    with home.serving() as server, home.serving() as operators:
        site = Site(home, broken, server, operators, "", operator_key)
        site.operate("POST", "toolsets", {"name": "everyday", "names": list(TOOLS)})
        site.key = key_in(home.run("addkey", "agents", "--toolset", "everyday", "--rate", "100000/60").stdout)
        yield site
