"""`prunelogs` and `forget`, as processes."""

from __future__ import annotations

import os
import pty
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import CHECKOUT, Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    assert home.run("calltool", "echo", '{"message": "very personal"}').returncode == 0
    return home


def query(home: Home, sql: str, *values: object) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(home.database, isolation_level=None)) as database:
        return database.execute(sql, values).fetchall()


def caller(home: Home) -> str:
    return str(query(home, "SELECT caller_id FROM tools_app_call")[0][0])


def on_a_terminal(home: Home, answer: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    ours, theirs = pty.openpty()
    try:
        os.write(ours, f"{answer}\n".encode())
        return subprocess.run(
            [sys.executable, "-m", "toolhub", *arguments],
            env=home.environment,
            cwd=CHECKOUT.anchor,
            stdin=theirs,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(ours)
        os.close(theirs)


def test_prunelogs_deletes_nothing_if_the_clock_has_possibly_jumped(home: Home) -> None:
    query(home, "UPDATE tools_app_call SET started_at = '2024-01-01 00:00:00'")
    query(home, "INSERT INTO tools_app_chore (name, done_at) VALUES ('clock', '2024-01-02 00:00:00')")
    query(home, "DELETE FROM tools_app_callhour")
    for arguments in ([], ["--dry-run"]):
        refused = home.run("prunelogs", *arguments)
        assert refused.returncode == 2
        assert "there are no records between 2024-01-02 00:00 UTC and " in refused.stderr
        assert "toolhub prunelogs --trust-clock" in refused.stderr
    assert "the clock may have jumped" in home.run("doctor").stdout
    assert len(query(home, "SELECT id FROM tools_app_call")) == 1
    assert home.run("prunelogs", "--trust-clock").returncode == 0
    assert query(home, "SELECT id FROM tools_app_call") == []
    assert home.run("prunelogs").returncode == 0
    assert "jumped" not in home.run("doctor").stdout


def test_prunelogs_says_what_it_would_do_and_does_it(home: Home) -> None:
    assert home.run("prunelogs").stdout.splitlines()[0] == "Deleted:"
    assert len(query(home, "SELECT id FROM tools_app_call")) == 1
    old = (datetime.now(UTC) - timedelta(days=91)).strftime("%Y-%m-%d %H:%M:%S")
    query(home, "UPDATE tools_app_call SET started_at = ?", old)
    tried = home.run("prunelogs", "--dry-run")
    assert tried.returncode == 0, tried.stderr
    assert tried.stdout.startswith("Would be deleted:\n")
    assert len(query(home, "SELECT id FROM tools_app_call")) == 1
    done = home.run("prunelogs")
    assert done.returncode == 0, done.stderr
    counts = dict(line.rsplit(maxsplit=1) for line in done.stdout.splitlines()[1:])
    assert counts["  calls"] == "1"
    assert counts["  audit entries"] == "0"
    assert query(home, "SELECT id FROM tools_app_call") == []


def test_prunelogs_takes_its_limits_from_the_settings(home: Home) -> None:
    query(home, "UPDATE tools_app_call SET started_at = datetime('now', '-3 days')")
    home.run("prunelogs", TOOLHUB_KEEP_CALLS_DAYS="5")
    assert len(query(home, "SELECT id FROM tools_app_call")) == 1
    home.run("prunelogs", TOOLHUB_KEEP_CALLS_DAYS="2")
    assert query(home, "SELECT id FROM tools_app_call") == []


def test_forget_needs_the_yes_option_without_a_terminal(home: Home) -> None:
    done = home.run("forget", caller(home))
    assert done.returncode == 2
    assert f"Records of {caller(home)}:" in done.stdout
    assert "add --yes" in done.stderr
    assert query(home, "SELECT arguments FROM tools_app_call") != [("",)]


def test_forget_does_it_with_a_yes_and_says_why_in_the_audit_trail(home: Home) -> None:
    who = caller(home)
    done = home.run("forget", who, "--yes", "--reason", "asked to")
    assert done.returncode == 0, done.stderr
    assert "Forgotten:" in done.stdout
    assert query(home, "SELECT caller_id, caller_name, arguments FROM tools_app_call") == [
        ("forgotten", "forgotten", "")
    ]
    entries = query(home, "SELECT subject, reason FROM tools_app_auditentry WHERE action = 'caller.forget'")
    assert entries == [(who, "asked to")]
    for file in home.path.glob("toolhub.sqlite3*"):
        assert b"very personal" not in file.read_bytes(), file.name


@pytest.mark.parametrize(
    ("answer", "code", "kept"), [("y", 0, False), ("n", 1, True), ("", 1, True), ("\x04", 1, True)]
)
def test_forget_asks_on_a_terminal(home: Home, answer: str, code: int, kept: bool) -> None:
    done = on_a_terminal(home, answer, "forget", caller(home))
    assert done.returncode == code, done.stderr
    assert "cannot be undone. [y/N]" in done.stdout
    assert bool(query(home, "SELECT id FROM tools_app_call WHERE caller_id <> 'forgotten'")) == kept


def test_forget_names_an_unknown_caller(home: Home) -> None:
    done = home.run("forget", "nobody", "--yes")
    assert done.returncode == 1
    assert done.stderr.strip() == (
        "toolhub: There is no caller 'nobody'. Give the caller's id as a call shows it: key:3, local:alice."
    )
