"""The Inspector's command line, over both transports in every era it can speak."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.clients.conftest import MODULES, TOOLS, Site

INSPECTOR = MODULES / "@modelcontextprotocol" / "inspector" / "clients" / "launcher" / "build" / "index.js"
# The exit code for a tool that answered with an error.
TOOL_FAILED = 5

Inspect: TypeAlias = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(params=["stdio", "http"])
def inspect(request: pytest.FixtureRequest, node: str, site: Site, tmp_path: Path) -> Inspect:
    """Run the Inspector to its end."""
    if request.param == "http":
        target = ["--server-url", site.url, "--header", f"Authorization: Bearer {site.key}"]
    else:
        command = site.command()
        given = [part for name, value in command["env"].items() for part in ("-e", f"{name}={value}")]
        target = [*given, "--", command["command"], *command["args"]]

    def run(era: str, method: str, *options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [node, str(INSPECTOR), "--cli", "--protocol-era", era, "--method", method, *options, *target],
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


@pytest.mark.parametrize("era", ["legacy", "auto", "modern"])
class TestInspector:
    def test_finds_nothing_to_object_to_in_the_list(self, inspect: Inspect, era: str) -> None:
        done = inspect(era, "tools/list", "--strict")
        assert done.returncode == 0, done.stderr
        assert [tool["name"] for tool in json.loads(done.stdout)["tools"]] == list(TOOLS)

    def test_calls_a_tool(self, inspect: Inspect, era: str) -> None:
        done = inspect(era, "tools/call", "--tool-name", "measure", "--tool-arg", "text=12 345")
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        assert answer["structuredContent"] == {"text": "12 345", "length": 6, "longest": "345"}

    def test_ends_accordingly_when_a_tool_fails(self, inspect: Inspect, era: str) -> None:
        done = inspect(era, "tools/call", "--tool-name", "measure", "--tool-arg", "text= ")
        assert done.returncode == TOOL_FAILED, done.stderr
        assert "There is nothing to measure" in done.stdout
