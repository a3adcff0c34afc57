"""The protocol's own conformance suite, with everything that a revision requires."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.conftest import MODULES
from tests.support.processes import Home, Server, key_in

HUB = Path(__file__).with_name("conformance")
SUITE = MODULES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"


@pytest.fixture(scope="module")
def fixtures(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A hub with the tools that the suite looks for."""
    tools = {"TOOLHUB_TOOLS_DIR": str(HUB / "tools"), "LOG_LEVEL": "fatal"}
    home = Home(tmp_path_factory.mktemp("conformance") / "home", tools)
    home.run("synctools")
    key = key_in(home.run("addkey", "conformance").stdout)
    settings = "tests.clients.conformance.settings"
    with home.serving(DJANGO_SETTINGS_MODULE=settings, TOOLHUB_KEY_RATE_CALLS="0", CONFORMANCE_KEY=key) as server:
        yield server


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_every_scenario_passes(node: str, fixtures: Server, revision: str, tmp_path: Path) -> None:
    command = [node, str(SUITE), "server", "--url", f"{fixtures.url}/mcp", "--requirements", revision]
    done = subprocess.run(
        [*command, "-o", str(tmp_path)],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    _, _, summary = done.stdout.partition("=== SUMMARY ===")
    print(summary)
    assert done.returncode == 0, summary or done.stdout + done.stderr
