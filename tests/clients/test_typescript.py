"""The SDK in TypeScript: the one of 2026 in both eras, and the one before it, which most clients still have."""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

import pytest

from tests.clients.conftest import TOOLS, Site
from tests.support.agents import LEGACY, MODERN
from tests.support.processes import CHECKOUT

SCRIPT = CHECKOUT / "tests" / "node" / "client.mjs"
CHECKS = re.findall(r'await check\("([^"]+)"', SCRIPT.read_text())

CLIENTS = [
    pytest.param((library, era, version, transport), id=f"{library}-{era}-{transport}")
    for library, era, version in (
        ("client", "legacy", LEGACY),
        ("client", "auto", MODERN),
        ("client", MODERN, MODERN),
        ("sdk", "legacy", LEGACY),
    )
    for transport in ("stdio", "http")
]


@pytest.fixture(scope="module", params=CLIENTS)
def checked(request: pytest.FixtureRequest, node: str, site: Site) -> dict[str, str | None]:
    """What was wrong with each check, for one of the clients."""
    library, era, version, transport = request.param
    given: dict[str, Any] = {
        "library": library,
        "era": era,
        "version": version,
        "tools": TOOLS,
        "operator": {"url": site.operators.url, "key": site.operator_key},
    }
    if transport == "stdio":
        # A client that insists on a version keeps the hub's words to itself.
        why = "Version negotiation failed" if era == MODERN else "created by a later version of ToolHub"
        given |= {"hub": {"command": site.command()}, "broken": {"command": site.command(broken=True)}, "why": why}
    else:
        why = "401|The key is unknown"
        given |= {"hub": {"url": site.url, "key": site.key}, "broken": {"url": site.url, "key": "wrong"}, "why": why}
    done = subprocess.run(
        [node, str(SCRIPT)], input=json.dumps(given), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return {check["check"]: check["wrong"] for check in found}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: re.sub(r"\W+", "-", check))
def test_the_client(checked: dict[str, str | None], check: str) -> None:
    assert checked[check] is None, checked[check]
