"""docs/rest.md, as a reader would follow it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes import CHECKOUT, Home, key_in

PAGE = (CHECKOUT / "docs" / "rest.md").read_text()


def blocks(language: str) -> str:
    """The code of that language, in the order of the document."""
    found = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert found
    return "\n".join(found)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    home = Home(tmp_path_factory.mktemp("walk") / "home")
    key = key_in(home.run("addkey", "reader", "--scope", "admin:*").stdout)
    with home.serving() as server:
        yield {**home.environment, "HUB": server.url, "KEY": key}


def run(command: list[str], environment: dict[str, str], directory: Path) -> str:
    done = subprocess.run(
        command, env=environment, cwd=directory, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine")
def test_the_walk_with_curl(environment: dict[str, str], tmp_path: Path) -> None:
    printed = run(["/bin/sh", "-eu", "-c", blocks("sh").replace("\nask ", "\necho; ask ")], environment, tmp_path)

    listed, detail, found, meant, within, called, named, outlook = map(json.loads, printed.strip().splitlines())
    assert len(listed["tools"]) == 2
    assert detail["name"] == "calculate"
    assert found["results"][0]["name"] == "echo"
    assert meant["results"][0]["name"] == "calculate"
    assert "create_issue" in [tool["name"] for tool in within["results"]]
    assert called["result"] == named["result"] == {"result": 5}
    assert (outlook["dryRun"], outlook["result"]["tool"]) == (True, "calculate")


def test_the_walk_with_python(environment: dict[str, str], tmp_path: Path) -> None:
    script = tmp_path / "walk.py"
    script.write_text(blocks("python"))

    run([sys.executable, "-W", "error::SyntaxWarning", str(script)], environment, tmp_path)
