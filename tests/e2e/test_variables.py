"""Variables of packs that cannot be read stop every command before anything is done with them, and say which."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.processes import Home, free_port

ACCOUNT = {"N8N_URL": "http://127.0.0.1:1", "N8N_API_KEY": "key-of-nobody-1"}


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Home:
    made = Home(tmp_path_factory.mktemp("ready") / "home")
    assert made.run("synctools").returncode == 0
    return made


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({**ACCOUNT, "N8N_READ_ONLY": "ture"}, "N8N_READ_ONLY: expected true or false, found 'ture'"),
        ({"REDMINE_READ_ONLY": "enabled"}, "REDMINE_READ_ONLY: expected true or false, found 'enabled'"),
        ({"N8N_ALLOW_HTTP": "y"}, "N8N_ALLOW_HTTP: expected true or false, found 'y'"),
        (
            {"REDMINE_USER_ADMINISTRATION": "main"},
            "REDMINE_USER_ADMINISTRATION: expected true or false, found 'main'",
        ),
        ({"N8N_URL": "https://me:hunter2@n8n.test"}, "N8N_URL: The base URL must not contain a user name or password"),
        ({"N8N_API_KEY": "two\nlines"}, "N8N_API_KEY contains characters not allowed in a header"),
        ({"REDMINE_API_KEY_FILE": "/nowhere/key"}, "REDMINE_API_KEY_FILE: cannot read /nowhere/key (No such file"),
        ({"WEBSEARCH_SAFE_SEARCH": "on"}, "WEBSEARCH_SAFE_SEARCH: expected one of off, moderate, strict, found 'on'"),
    ],
    ids=lambda given: next(iter(reversed(given))) if isinstance(given, dict) else "",
)
def test_a_hub_does_not_start_with_a_variable_that_cannot_be_read(
    tmp_path: Path, variables: dict[str, str], told: str
) -> None:
    done = Home(tmp_path / "home").run("serve", "--port", str(free_port()), **variables)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"toolhub: {told}")
    assert "hunter2" not in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "command",
    ["runmcp", "calltool list_workflows", "synctools", "listkeys", "addkey bob", "checktools", "connect generic"],
)
def test_every_command_tells_all_that_cannot_be_read(ready: Home, command: str) -> None:
    done = ready.run(*command.split(), **ACCOUNT, N8N_READ_ONLY="ture", REDMINE_ALLOW_HTTP="2")
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "toolhub: N8N_READ_ONLY: expected true or false, found 'ture'",
        "toolhub: REDMINE_ALLOW_HTTP: expected true or false, found '2'",
    ]


def test_doctor_starts_and_tells_it(ready: Home) -> None:
    done = ready.run("doctor", **ACCOUNT, N8N_READ_ONLY="ture")
    assert done.returncode == 1
    assert "!!  N8N_READ_ONLY: expected true or false, found 'ture'\n" in done.stdout


def test_a_readable_value_is_taken_in_any_form_that_settings_have(ready: Home) -> None:
    for value in ("on", "TRUE", " yes "):
        done = ready.run("calltool", "delete_workflow", '{"id": "1"}', **ACCOUNT, N8N_READ_ONLY=value)
        assert "the connection environment is read-only" in done.stderr, value
