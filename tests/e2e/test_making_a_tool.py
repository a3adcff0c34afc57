"""docs/add-a-tool.md, followed to the letter: from nothing to an agent that calls a tool of one's own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.agents import LEGACY, Agent
from tests.support.processes import CHECKOUT, Home

DOC = (CHECKOUT / "docs/add-a-tool.md").read_text()


SECTION = DOC.partition("## In ten minutes")[2].partition("\n## ")[0]


def commands() -> list[str]:
    """Every command of the first section, verbatim."""
    blocks = re.findall(r"```console\n(.*?)```", SECTION, re.DOTALL)
    return [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """The environment of a user in a checkout, after the first command."""
    installed = tmp_path / ".venv/bin"
    installed.mkdir(parents=True)
    for name, module in (("toolhub", "-m toolhub"), ("python", "")):
        script = installed / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
        script.chmod(0o755)
    return Home(tmp_path / "home", {"HOME": str(tmp_path), "TOOLHUB_TOOLS_DIR": str(tmp_path / "my-tools")})


def test_the_way_from_nothing_to_an_agent_that_calls_it(home: Home, tmp_path: Path) -> None:
    installs, *said = commands()
    # Installing is what CI begins with; here it is enough that there is such a target.
    assert subprocess.run([*installs.split(), "-n"], cwd=CHECKOUT, capture_output=True, check=False).returncode == 0
    assert len(said) >= 8
    (program,) = re.findall(r"Put this into `agent\.py`:\n\n```python\n(.*?)```", SECTION, re.DOTALL)
    (tmp_path / "agent.py").write_text(program)
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
    assert "ok count_words: 1 example\n" in done.stdout
    assert "3 passed" in done.stdout
    assert re.search(r"^tools: .*\bcount_words\b", done.stdout, re.MULTILINE)
    assert "answer: {'words': 2, 'longest': 'words'}" in done.stdout
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
