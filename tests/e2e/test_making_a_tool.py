"""docs/add-a-tool.md, followed to the letter: from nothing to an agent that calls a tool of one's own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.agents import LEGACY, Agent
from tests.support.processes import CHECKOUT, Home

DOC = (CHECKOUT / "docs/add-a-tool.md").read_text()


def commands() -> list[str]:
    """Every command of the first section, as it stands there."""
    section = DOC.partition("## In ten minutes")[2].partition("\n## ")[0]
    blocks = re.findall(r"```console\n(.*?)```", section, re.DOTALL)
    return [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    tools = str(tmp_path / "my-tools")
    (tmp_path / "bin").mkdir()
    for name, module in (("toolhub", "-m toolhub"), ("python", "")):
        script = tmp_path / "bin" / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
        script.chmod(0o755)
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return Home(tmp_path / "home", {"HOME": str(tmp_path), "PATH": path, "TOOLHUB_TOOLS_DIR": tools})


def test_the_way_from_nothing_to_an_agent_that_calls_it(home: Home, tmp_path: Path) -> None:
    said = commands()
    assert len(said) >= 6
    environment = {name: value for name, value in home.environment.items() if name != "TOOLHUB_TOOLS_DIR"}
    done = subprocess.run(
        ["sh", "-e", "-x", "-c", "\n".join(said)],
        env={**environment, "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Wrote {tmp_path}/my-tools/count_words.py" in done.stdout
    assert '"words":5' in done.stdout.replace(" ", "")
    assert "ok count_words: 1 examples" in done.stdout
    assert "3 passed" in done.stdout
    with Agent(home, LEGACY) as agent:
        agent.connect()
        assert "count_words" in {tool["name"] for tool in agent.tools()}
        assert agent.call("count_words", text="two words")["structuredContent"] == {"words": 2, "longest": "words"}


def test_the_file_that_is_shown_is_a_tool_that_keeps_its_promises(tmp_path: Path) -> None:
    shown = re.search(r"```python\n(\"\"\"The weather.*?)```", DOC, re.DOTALL)
    assert shown is not None
    (tmp_path / "weather.py").write_text(shown[1])
    code = "from toolhub import testing; from weather import forecast; testing.assert_contract(forecast)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": f"{CHECKOUT}:{tmp_path}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
