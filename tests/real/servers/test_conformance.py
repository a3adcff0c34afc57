"""The protocol's conformance suite against a hub with another MCP server behind it: nothing of it is different.

`make setup-node` fetches the suite, `make setup-sources` the server.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from scripts import mcp_servers
from tests.clients import conformance
from tests.clients.conftest import MODULES
from tests.support.processes import Home, Server, key_in

pytestmark = pytest.mark.real_sources

SUITE = MODULES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
TOOLS = Path(conformance.__file__).parent / "tools"
NAME = "everything"


@pytest.fixture(scope="module")
def fixtures(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A hub with the tools that the suite looks for, and with all of the server's."""
    for missing in [MODULES / "installed.json", mcp_servers.program(NAME)]:
        if not missing.exists():
            pytest.fail(f"{missing} is missing; run `make setup-node setup-sources`")
    home = Home(
        tmp_path_factory.mktemp("conformance") / "home", {"TOOLHUB_TOOLS_DIR": str(TOOLS), "LOG_LEVEL": "fatal"}
    )

    def ran(*arguments: str) -> str:
        done = home.run(*arguments)
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    ran("synctools")
    ran("source", "add", NAME, "--command", str(mcp_servers.program(NAME)), *mcp_servers.SERVERS[NAME]["run"][1:])
    ran("source", "on", NAME)
    ran("source", "approve", NAME, "--enable")
    # Keys that manage tools have those of sources outside without a toolset.
    scopes = [word for scope in ("list", "read", "execute", "manage") for word in ("--scope", f"tools:{scope}")]
    key = key_in(ran("addkey", "conformance", *scopes))
    settings = "tests.clients.conformance.settings"
    with home.serving(DJANGO_SETTINGS_MODULE=settings, TOOLHUB_KEY_RATE_CALLS="0", CONFORMANCE_KEY=key) as server:
        # The key is added to each request.
        for name in (f"{NAME}_echo", "test_simple_text"):
            shown = httpx.get(f"{server.url}/v1/tools/{name}", trust_env=False, timeout=60)
            assert shown.status_code == 200, shown.text
        yield server


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_every_scenario_passes(fixtures: Server, revision: str, tmp_path: Path) -> None:
    node = str(MODULES / "node" / "bin" / "node")
    done = subprocess.run(
        [node, str(SUITE), "server", "--url", f"{fixtures.url}/mcp", "--requirements", revision, "-o", str(tmp_path)],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    _, _, summary = done.stdout.partition("=== SUMMARY ===")
    print(summary)
    assert done.returncode == 0, summary or done.stdout + done.stderr
