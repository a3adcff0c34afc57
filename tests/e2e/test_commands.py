"""The commands, as processes: what they print, and how they end."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
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


def test_addkey_limits_a_key(home: Home) -> None:
    made = ("--read-only", "--rate", "100/60", "--expires", "30d")
    done = home.run("addkey", "reader", *made)
    assert done.returncode == 0, done.stderr
    assert "read-only, until 20" in done.stdout
    careful = home.run("addkey", "careful", "--no-destructive", "--expires", "2999-12-31")
    assert "not destructive, until 3000-01-01 00:00 UTC" in careful.stdout
    listed = {key["name"]: key for key in json.loads(home.run("listkeys", "--json").stdout)}
    reader = listed["reader"]
    assert (reader["mayWrite"], reader["mayDestroy"], reader["rateLimit"]) == (
        False,
        False,
        {"max": 100, "seconds": 60},
    )
    assert (listed["careful"]["mayWrite"], listed["careful"]["mayDestroy"]) == (True, False)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--expires", "soon"), 2, "must be like 30d, or a day like 2027-01-31"),
        (("--expires", "99999d", "--expires", "9999-12-31"), 2, "must be like 30d"),
        (("--expires", "2020-01-01"), 2, "that day is in the past"),
        (("--rate", "fast"), 2, "must be like 100/60"),
        (("--rate", "0/60"), 1, "A rate limit is 1 to 1000000 requests in 1 to 86400 seconds"),
        (("--toolset", "none"), 1, "There is no toolset 'none'; there are: none"),
    ],
)
def test_addkey_refuses_what_makes_no_sense(home: Home, arguments: tuple[str, ...], code: int, said: str) -> None:
    done = home.run("addkey", "senseless", *arguments)
    assert done.returncode == code
    assert said in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_listkeys_tells_everything_but_the_key(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    assert "No keys." in home.run("listkeys").stdout
    assert json.loads(home.run("listkeys", "--json").stdout) == []
    secret = last_line(home.run("addkey", "agent\x1b[31m", "--scope", "tools:list", "--no-destructive").stdout)
    head, row = home.run("listkeys").stdout.splitlines()
    columns = ["NAME", "CALLER", "PREFIX", "STATE", "OWNER", "SCOPES", "TOOLSETS", "CONNECTIONS", "ACCESS"]
    assert re.split("  +", head) == [*columns, "BUDGET", "EXPIRES", "LAST USED"]
    prefix = secret[5:13]
    shown = ["agent\N{REPLACEMENT CHARACTER}[31m", "key:1", prefix, "works", "-", "tools:list", "all", "environment"]
    assert re.split("  +", row) == [*shown, "read, write", "-", "never", "never"]
    assert "\x1b" not in row, "a name does not write to the terminal"
    (key,) = json.loads(home.run("listkeys", "--json").stdout)
    assert key["prefix"] == prefix
    assert secret[14:] not in json.dumps(key) + row


def test_revokekey_ends_a_key_by_its_name_its_start_or_itself(home: Home) -> None:
    for name, given in (
        ("by-name", lambda _: "by-name"),
        ("by-start", lambda key: key[5:13]),
        ("by-key", lambda key: key),
    ):
        secret = last_line(home.run("addkey", name).stdout)
        done = home.run("revokekey", given(secret), "--reason", "it leaked")
        assert done.stdout == f"{name} is revoked. Requests with it are refused from now on.\n"
        assert home.run("revokekey", name).stdout == f"{name} is already revoked.\n"
    states = {key["name"]: key["state"] for key in json.loads(home.run("listkeys", "--json").stdout)}
    assert {states["by-name"], states["by-start"], states["by-key"]} == {"revoked"}
    with closing(sqlite3.connect(home.database)) as database:
        reasons = database.execute("SELECT reason FROM tools_app_auditentry WHERE action = 'key.revoke'").fetchall()
    assert set(reasons) == {("it leaked",)}


def test_revokekey_ends_no_key_by_guess(home: Home) -> None:
    unknown = home.run("revokekey", "nobody")
    assert unknown.returncode == 1
    assert "there is no key 'nobody'" in unknown.stderr
    prefix = last_line(home.run("addkey", "first-of-two").stdout)[5:13]
    home.run("addkey", prefix)
    double = home.run("revokekey", prefix)
    assert double.returncode == 1
    assert "is the name of one key and the prefix of another" in double.stderr


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
    assert "No problems." in done.stdout
    assert "its schema is current" in done.stdout


def test_doctor_reports_a_pack_only_after_its_setup_has_begun(home: Home, tmp_path: Path) -> None:
    home.run("synctools")
    assert "ok  30 tools of n8n: not configured: N8N_URL, N8N_API_KEY" in home.run("doctor").stdout
    begun = Home(tmp_path / "home", {"N8N_URL": "https://n8n.test"})
    begun.run("synctools")
    done = begun.run("doctor")
    assert done.returncode == 1
    assert "!!  30 tools of n8n: not configured: N8N_API_KEY" in done.stdout


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
        [[trigger]] = database.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'tools_app_toolrecord_update_%'"
        ).fetchall()
        database.execute(f"DROP TRIGGER {trigger}")
    done = home.run("doctor")
    assert done.returncode == 1
    assert f"{tools}/broken.py:2: RuntimeError: no token" in done.stdout
    assert "1 database triggers are missing" in done.stdout
    assert f"chmod 700 {home.path}" in done.stdout


def test_doctor_tells_operators_what_to_do_and_not_to_ask_one(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    file = tools / "near.py"
    file.write_text("from toolhub import tool\n\n@tool\ndef near() -> str:\n    \"Be near.\"\n    return 'near'\n")
    home = Home(tmp_path / "home", {"TOOLHUB_TOOLS_DIR": str(tools), "N8N_URL": "https://n8n.test"})
    home.run("synctools")
    file.write_text("def (:\n")
    done = home.run("doctor")
    assert "near: it could not be loaded\n    Fix the load error: " in done.stdout
    assert f"{file}:1: SyntaxError" in done.stdout
    assert "not configured: N8N_API_KEY\n    Set N8N_API_KEY, or add a connection to n8n in the admin." in done.stdout
    assert "Ask an operator" not in done.stdout
    assert "toolhub doctor" not in done.stdout
    refused = home.run("calltool", "near")
    assert "Ask an operator to run `toolhub doctor`" in refused.stderr, "a caller is no operator"


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
    first = home.run("synctools").stdout
    shipped = int(first.partition(" new (")[0])
    assert "calculate" in first
    assert home.run("synctools").stdout.strip() == f"{shipped} unchanged"
    (tools / "one.py").write_text(
        'from toolhub import tool\n\n@tool\ndef one() -> str:\n    """One."""\n    return "1"\n'
    )
    assert home.run("synctools").stdout.strip() == f"1 new (one), {shipped} unchanged"
    (tools / "one.py").unlink()
    assert home.run("synctools").stdout.strip() == f"1 gone (one), {shipped} unchanged"


def test_what_is_stopped_is_refused_until_it_is_resumed(home: Home) -> None:
    assert home.run("stop").stdout == "Nothing is stopped.\n"
    done = home.run("stop", "pack", "builtin", "--reason", "moving house")
    assert done.stdout == ("pack builtin is stopped. Calls are refused until you run `toolhub resume pack builtin`.\n")
    assert home.run("stop", "pack", "builtin").stdout == "pack builtin is already stopped.\n"
    assert re.fullmatch(r"pack builtin: since .* UTC by command:\w+\. moving house\n", home.run("stop").stdout)
    refused = home.run("calltool", "echo", '{"message": "x"}')
    assert refused.returncode == 3
    assert "The pack builtin has been stopped" in refused.stderr
    assert "moving house" in refused.stderr
    assert home.run("resume", "pack", "builtin").stdout == "pack builtin is resumed. Calls are accepted from now on.\n"
    assert home.run("resume", "pack", "builtin").stdout == "pack builtin was not stopped.\n"
    assert home.run("calltool", "echo", '{"message": "x"}').returncode == 0
    assert "There is no pack 'nothing'" in home.run("stop", "pack", "nothing").stderr


def test_calltool_takes_an_approval(home: Home) -> None:
    refused = home.run("calltool", "echo", '{"message": "x"}', "--approval", "0" * 32)
    assert refused.returncode == 0, "where nothing asks, an id is of no use and does no harm"
    wrong = home.run("calltool", "echo", '{"message": "x"}', "--approval", "nonsense")
    assert wrong.returncode == 1
    assert "The approval is not valid" in wrong.stderr


def test_a_reader_that_has_seen_enough_gets_no_traceback(home: Home) -> None:
    # It prints more than a pipe holds.
    line = f"'{sys.executable}' -m toolhub showopenapi | head -c 10"
    done = subprocess.run(
        ["sh", "-c", line], env=home.environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert (len(done.stdout), done.stderr) == (10, "")


def test_doctor_says_the_same_as_text_and_as_json(tmp_path: Path) -> None:
    home = Home(tmp_path / "home", {"N8N_URL": "https://n8n.test"})
    home.run("synctools")
    text, structured = home.run("doctor"), home.run("doctor", "--json")
    assert (text.returncode, structured.returncode) == (1, 1)
    report = json.loads(structured.stdout)
    lines = []
    for check in report["checks"]:
        assert list(check) == ["id", "subject", "status", "message", "nextStep"]
        lines.append(f"{'ok ' if check['status'] == 'ok' else '!! '} {check['message']}")
        lines += [f"    {check['nextStep']}"] if check["nextStep"] else []
    problems = [check for check in report["checks"] if check["status"] == "problem"]
    assert text.stdout == "\n".join([*lines, "", f"Problems: {report['problems']}."]) + "\n"
    assert [(check["id"], check["subject"]) for check in problems] == [("tools-callable", "n8n")]
    assert report["problems"] == 1
