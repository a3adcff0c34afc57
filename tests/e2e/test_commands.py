"""The commands, as processes: what they print, and how they end."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.processes import Home, last_line


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return Home(tmp_path_factory.mktemp("commands") / "home")


@pytest.mark.parametrize("command", [("addkey", "first"), ("calltool", "echo", '{"message": "x"}'), ("synctools",)])
def test_works_on_an_empty_home(tmp_path: Path, command: tuple[str, ...]) -> None:
    done = Home(tmp_path / "home").run(*command)
    assert done.returncode == 0, done.stderr
    assert "Preparing the database" in done.stderr


def test_addkey_prints_the_key_alone_on_the_last_line(home: Home) -> None:
    done = home.run("addkey", "agent", "--scope", "tools:list")
    assert done.returncode == 0
    assert last_line(done.stdout).startswith("thub_")
    assert " " not in last_line(done.stdout)
    again = home.run("addkey", "agent")
    assert again.returncode == 1
    assert again.stderr.strip() == ("toolhub: A key named 'agent' exists already; revoke it, or choose another name.")
    unknown = home.run("addkey", "other", "--scope", "everything")
    assert "Unknown scope 'everything'" in unknown.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("nope",), 3, "Tool not found: nope"),
        (("echo", "{}"), 2, "Required parameter missing: message"),
        (("echo", "{nonsense"), 2, "the arguments are not JSON"),
        (("echo", "[1]"), 2, "must be a JSON object"),
        (("calculate", '{"operation": "divide", "a": 1, "b": 0}'), 2, "Division by zero is not allowed"),
        (("echo", '{"message": "x"}', "--timeout", "1"), 2, "options.timeout must be between"),
    ],
)
def test_calltool_says_why_and_ends_accordingly(home: Home, arguments: tuple[str, ...], code: int, said: str) -> None:
    done = home.run("calltool", *arguments)
    assert done.returncode == code
    assert said in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_calltool_reads_arguments_from_stdin_and_prints_the_answer_alone(home: Home) -> None:
    done = home.run("calltool", "echo", "-", stdin=json.dumps({"message": "日本語"}))
    assert done.returncode == 0
    assert json.loads(done.stdout) == {"message": "日本語"}


def test_calltool_is_journaled_like_every_call(home: Home) -> None:
    home.run("calltool", "echo", '{"message": "journaled"}')
    with closing(sqlite3.connect(home.database, isolation_level=None)) as database:
        query = "SELECT door, caller_kind, status FROM tools_app_call WHERE arguments LIKE '%journaled%'"
        assert database.execute(query).fetchall() == [("command", "local", "succeeded")]


def test_calltool_tells_what_it_would_do(home: Home) -> None:
    done = home.run("calltool", "echo", '{"message": "x"}', "--dry-run", "--timeout", "500")
    assert done.returncode == 0
    told = json.loads(done.stdout)
    assert (told["tool"], told["arguments"], told["timeoutMs"]) == ("echo", {"message": "x"}, 500)
    assert home.run("calltool", "nope", "--dry-run").returncode == 3


def test_doctor_finds_a_healthy_hub_healthy(home: Home) -> None:
    home.run("synctools")
    done = home.run("doctor")
    assert done.returncode == 0, done.stdout
    assert "All is well." in done.stdout
    assert "its schema is current" in done.stdout


def test_doctor_names_what_is_wrong_and_the_cure(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "broken.py").write_text("x = 1\nraise RuntimeError('no token')\n")
    home = Home(tmp_path / "home", {"TOOLHUB_TOOLS_DIR": str(tools)})
    empty = home.run("doctor")
    assert empty.returncode == 1
    assert "run `toolhub serve`" in empty.stdout
    home.run("synctools")
    home.path.chmod(0o755)
    with closing(sqlite3.connect(home.database, isolation_level=None)) as database:
        database.execute("DROP TRIGGER tools_app_toolrecord_update_bump")
    done = home.run("doctor")
    assert done.returncode == 1
    assert f"{tools}/broken.py:2: RuntimeError: no token" in done.stdout
    assert "1 database triggers are missing" in done.stdout
    assert f"chmod 700 {home.path}" in done.stdout


def test_a_broken_file_disables_only_itself(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "broken.py").write_text("def (:\n")
    (tools / "good.py").write_text(
        "from toolhub import Hints, tool\n\n@tool(hints=Hints(read_only=True))\ndef good() -> str:\n"
        '    """Be good."""\n    return "good"\n'
    )
    home = Home(tmp_path / "home", {"TOOLHUB_TOOLS_DIR": str(tools)})
    synced = home.run("synctools")
    assert synced.returncode == 0
    assert "broken.py:1: SyntaxError" in synced.stderr
    assert home.run("calltool", "good").stdout.strip() == "good"


def test_synctools_tells_what_changed(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    home = Home(tmp_path / "home", {"TOOLHUB_TOOLS_DIR": str(tools)})
    assert home.run("synctools").stdout.strip() == "2 new (calculate, echo)"
    assert home.run("synctools").stdout.strip() == "2 unchanged"
    (tools / "one.py").write_text(
        'from toolhub import tool\n\n@tool\ndef one() -> str:\n    """One."""\n    return "1"\n'
    )
    assert home.run("synctools").stdout.strip() == "1 new (one), 2 unchanged"
    (tools / "one.py").unlink()
    assert home.run("synctools").stdout.strip() == "1 gone (one), 2 unchanged"
