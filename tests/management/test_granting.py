"""Toolsets, connections and the keys of a file, at the shell."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from tests.management.test_source import run
from tools_app import governance
from tools_app.models import ApiKey, AuditEntry, Connection, Toolset

pytestmark = pytest.mark.usefixtures("hub")

SHELL = governance.trusted("test")
HEAD = "name,toolset,rate,read-only,expires\n"


@pytest.fixture
def toolsets() -> None:
    for name in ("one", "two"):
        assert run("toolset", "add", name, "--tag", name, "--reason", "for the team")[0] == 0


def keys(folder: Path, text: str) -> tuple[int, str, str]:
    file = folder / "keys.csv"
    file.write_bytes(text.encode("utf-8-sig"))
    return run("addkey", "--from", str(file))


def test_adds_and_lists_toolsets() -> None:
    code, out, _ = run(
        "toolset", "add", "readers", "--source", "builtin", "--tool", "echo", "--read-only", "--description", "Reads"
    )
    assert code == 0
    assert "toolhub addkey KEY --toolset readers" in out
    row = Toolset.objects.get()
    assert (row.packs, row.names, row.tags) == (["builtin"], ["echo"], [])
    assert (row.read_only, row.description) == (True, "Reads")
    assert AuditEntry.objects.get(action="toolset.create").actor.startswith("command:")
    head, line = run("toolset", "list")[1].splitlines()
    assert head.split() == ["NAME", "SOURCE", "CATEGORY", "TAG", "TOOL", "ONLY", "BUDGET", "KEYS"]
    assert line.split() == ["readers", "builtin", "-", "-", "echo", "read", "-", "0"]
    code, _, err = run("toolset", "add", "readers", "--tag", "a")
    assert (code, err) == (1, "toolhub: A toolset named 'readers' exists already.\n")


@pytest.mark.usefixtures("toolsets")
def test_creates_the_keys_of_a_file(tmp_path: Path) -> None:
    code, out, err = keys(tmp_path, HEAD + 'ann,one two,100/60,,\n"bob, the bot",two,5/10,yes,30d\n')
    assert code == 0, err
    made = {row["name"]: row["key"] for row in csv.DictReader(out.splitlines())}
    assert list(made) == ["ann", "bob, the bot"]
    ann, bob = (ApiKey.objects.get(name=name) for name in made)
    assert sorted(toolset.name for toolset in ann.toolsets.all()) == ["one", "two"]
    assert (ann.rate_calls, ann.rate_seconds, ann.may_write, ann.expires_at) == (100, 60, True, None)
    assert (bob.rate_calls, bob.rate_seconds, bob.may_write, bob.expires_at is None) == (5, 10, False, False)
    assert AuditEntry.objects.filter(action="key.create").count() == 2
    for key in made.values():
        assert key not in str(list(AuditEntry.objects.values_list("changes", flat=True)))


@pytest.mark.usefixtures("toolsets")
@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            HEAD + "ann,one,,,\nbob,three,,,\n",
            "line 3 of {file}: There is no toolset 'three'; there are: one, two. No key is",
        ),
        (HEAD + "ann,one,,,\nann,one,,,\n", "line 3 of {file}: A key named 'ann' exists already"),
        (HEAD + "ann,one,fast,,\n", "line 2 of {file}: argument --rate: must be like 100/60"),
        (HEAD + "ann,one,,perhaps,\n", "line 2 of {file}: read-only must be yes or no"),
        (HEAD + "ann,one\n", "line 2 of {file}: it must have as many values as the first line"),
        (HEAD + ",one,,,\n", "line 2 of {file}"),
        ("name,toolsets\nann,one\n", "{file} has an unknown column 'toolsets'; there are name, toolset, "),
        ("toolset\none\n", "{file} has no column 'name' in its first line"),
        (HEAD, "{file} must have 1 to 1,000 keys"),
        ("", "{file} has no column 'name'"),
        (HEAD + '"ann,one', "{file} is not CSV in UTF-8"),
    ],
)
def test_creates_no_key_of_a_file_with_a_mistake(tmp_path: Path, text: str, why: str) -> None:
    code, out, err = keys(tmp_path, text)
    assert why.format(file=tmp_path / "keys.csv") in err
    assert (code != 0, out, ApiKey.objects.count()) == (True, "", 0)


def test_a_value_of_a_file_is_no_option(tmp_path: Path) -> None:
    assert keys(tmp_path, "name,scope\n--read-only,admin:*\n")[0] == 0
    assert (ApiKey.objects.get().name, ApiKey.objects.get().may_write) == ("--read-only", True)
    code, _, err = keys(tmp_path, "name,toolset\nann,--scope=admin:*\n")
    assert (code, ApiKey.objects.count()) == (1, 1), err


@pytest.mark.parametrize(
    "arguments", [(), ("ann", "--from", "keys.csv"), ("--from", "keys.csv", "--read-only"), ("--from", "nowhere.csv")]
)
def test_says_what_addkey_needs(arguments: tuple[str, ...]) -> None:
    assert run("addkey", *arguments)[0] == 2
    assert not ApiKey.objects.exists()


def test_stores_a_secret_from_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    governance.add_source("shop", kind="mcp_http", location="https://shop.example.org/mcp", actor=SHELL)
    monkeypatch.setattr("sys.stdin", io.StringIO("a-secret\nanother\n"))
    parts = ("--source", "shop", "--form", "header", "--secret", "X-Api-Key", "--secret", "X-Account")
    code, out, _ = run("connection", "add", "shop-main", *parts, "--reason", "for the agents")
    assert code == 0
    row = Connection.objects.get()
    assert (row.pack, row.form, sorted(row.names)) == ("shop", "header", ["X-Account", "X-Api-Key"])
    entry = AuditEntry.objects.get(action="connection.create")
    assert entry.reason == "for the agents"
    assert "secret" not in out
    assert "a-secret" not in str(entry.changes)
    assert run("connection", "add", "shop-main", *parts)[0] == 1
    assert run("connection", "add", "other")[0] == 2


def test_asks_for_a_secret_at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    governance.add_source("shop", kind="mcp_http", location="https://shop.example.org/mcp", actor=SHELL)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("getpass.getpass", lambda prompt: prompt.replace(": ", "-typed"))
    parts = ("--source", "shop", "--form", "bearer", "--secret", "token")
    assert run("connection", "add", "shop-main", *parts)[0] == 0
    assert Connection.objects.get().names == ["token"]
