"""docs/runbook.md: its commands, run on real hubs in the trouble that each section is about."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import httpx
import pytest

from tests.support import mcp_upstream
from tests.support.agents import LEGACY, MODERN
from tests.support.http_agents import HttpAgent
from tests.support.processes import CHECKOUT, Home, Server, key_in, last_line
from tests.support.tools import eventually
from tests.support.troubles import filled

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine"),
]

PAGE: Final = (CHECKOUT / "docs" / "runbook.md").read_text()
PASSWORD: Final = "a-password-for-the-runbook"
# What the page says about commands that fail.
EXITS: Final = re.compile(r"^(.*?) +# exits with (\d+):.*$", re.MULTILINE)


def blocks(section: str) -> list[str]:
    """The commands of a section, block by block."""
    (text,) = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    found: list[str] = re.findall(r"^```sh\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return found


class Shell:
    """The shell of an operator."""

    def __init__(self, home: Home, directory: Path, **variables: str) -> None:
        paths = f"{Path(sys.executable).parent}:{home.environment['PATH']}"
        self.environment = {**home.environment, "PATH": paths, **variables}
        self.directory = directory

    def run(self, block: str) -> str:
        """What the commands print. Those that fail must be those of which the page says so, with that exit code."""
        script = EXITS.sub(r"if \1; then exit 99; else test $? = \2; fi", block)
        done = subprocess.run(
            ["/bin/sh", "-eu", "-c", script],
            env=self.environment,
            cwd=self.directory,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr


def answers(printed: str) -> list[dict[str, object]]:
    """The answers of the hub among what was printed."""
    decoder, found = json.JSONDecoder(), []
    while (start := printed.find("{")) >= 0:
        value, end = decoder.raw_decode(printed[start:])
        found.append(value)
        printed = printed[start + end :]
    return found


@pytest.fixture
def home(tmp_path: Path) -> Home:
    # Few, so that a slow machine reaches the limit, too.
    return Home(tmp_path / "home", {"TOOLHUB_ADMIN_PASSWORD": PASSWORD, "TOOLHUB_ANONYMOUS_RATE_CALLS": "20"})


@pytest.fixture
def key(home: Home) -> str:
    return key_in(home.run("addkey", "root", "--scope", "admin:*").stdout)


@pytest.fixture
def server(home: Home, key: str) -> Iterator[Server]:
    with home.serving() as running:
        yield running


@pytest.fixture
def shell(home: Home, server: Server, key: str, tmp_path: Path) -> Shell:
    return Shell(home, tmp_path, HUB=server.url, KEY=key)


def status(server: Server, key: str) -> int:
    body = {"message": "hi"}
    return httpx.post(f"{server.url}/v1/tools/echo/call", json=body, headers={"X-API-Key": key}).status_code


def test_the_overview_and_the_key_for_an_incident(shell: Shell, server: Server) -> None:
    (making,) = re.findall(r"`KEY=\$\((.*)\)`", PAGE)
    assert status(server, shell.run(making).strip()) == 200
    (overview,) = re.findall(r"^Three commands.*?^```sh\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    printed = shell.run(overview)
    assert "No problems." in printed
    assert '"status":"healthy"' in printed
    assert "Nothing is stopped." in printed


def test_a_key_has_leaked(home: Home, shell: Shell, server: Server) -> None:
    agent = key_in(home.run("addkey", "agent").stdout)
    assert status(server, agent) == 200
    for era in (LEGACY, MODERN):
        with HttpAgent(server.url, agent, era) as client:
            client.connect()
            client.call("calculate", operation="add", a=1, b=2)
    stop, who, changes, export, rotate, revoke = blocks("A key has leaked")
    shell.run(stop)
    assert status(server, agent) == 403
    printed = shell.run(who)
    assert re.search(r"^agent +key:2 ", printed, re.MULTILINE)
    (page,) = answers(printed)
    calls = [(call["tool"], call["door"], call["address"]) for call in page["calls"] if call["status"] == "succeeded"]  # type: ignore[attr-defined]
    assert sorted(calls) == [("calculate", "mcp", "127.0.0.1")] * 2 + [("echo", "rest", "127.0.0.1")]
    assert answers(shell.run(changes)) == [{"entries": [], "nextCursor": None}]
    with httpx.Client(base_url=server.url) as browser:
        form = browser.get("/admin/login/").text
        token = re.findall(r'name="csrfmiddlewaretoken" value="([^"]+)"', form)[0]
        person = {"username": "admin", "password": PASSWORD, "csrfmiddlewaretoken": token}
        browser.post("/admin/login/", data=person, headers={"Referer": f"{server.url}/admin/login/"})
        exported = browser.get("/admin/tools_app/call/export/", params={"caller": "key:2", "format": "json"}).json()
    assert {row["address"] for row in exported["rows"]} == {"127.0.0.1"}
    assert [row["tool"] for row in exported["rows"] if row["status"] == "succeeded"].count("calculate") == 2
    shell.run(export)
    head, *rows, last = (json.loads(line) for line in (shell.directory / "leaked-agent.jsonl").read_text().splitlines())
    assert {one["tool_name"] for one in head["export"]["tools"]} >= {"calculate", "echo"}
    assert [row["address"] for row in rows if row["kind"] == "calls" and row["status"] == "succeeded"] == [
        "127.0.0.1"
    ] * 3
    assert last["complete"] is True
    shell.run(rotate)
    replaced = (shell.directory / "new-key").read_text().strip()
    assert (status(server, agent), status(server, replaced)) == (401, 200)
    shell.run(revoke)
    assert status(server, replaced) == 401


def test_the_hub_is_under_attack(shell: Shell, server: Server, key: str) -> None:
    assert {status(server, f"thub_Guess{number:03}_of_a_stranger") for number in range(70)} == {401, 429}
    seen, everything = blocks("The hub is under attack")

    def recorded() -> bool:
        guesses, limited, locks = answers(shell.run(seen))
        addresses = {call["address"] for page in (guesses, limited) for call in page["calls"]}  # type: ignore[attr-defined]
        return bool(guesses["calls"]) and addresses == {"127.0.0.1"} and locks["entries"] == []

    assert eventually(recorded, 20)
    stop, resume = everything.splitlines()
    shell.run(stop)
    assert status(server, key) == 403
    assert httpx.get(f"{server.url}/health").json()["stopped"] is True
    shell.run(resume)
    assert status(server, key) == 200


def test_an_upstream_is_down(home: Home, shell: Shell, server: Server) -> None:
    look, again, off = blocks("An upstream is down")
    with mcp_upstream.running([mcp_upstream.tool("read")]) as wiki:
        for words in (
            ("add", "wiki", "--url", wiki.url, "--internal"),
            ("on", "wiki"),
            ("approve", "wiki", "--enable"),
        ):
            assert home.run("source", *words).returncode == 0
        assert home.run("calltool", "wiki_read", '{"text": "a"}').returncode == 0
        shell.run(again)
        assert home.run("calltool", "wiki_read", '{"text": "a"}').returncode == 0
        switch_off, switch_on = off.splitlines()
        shell.run(switch_off)
        assert home.run("calltool", "wiki_read", '{"text": "a"}').returncode == 3
        shell.run(switch_on)
        assert home.run("calltool", "wiki_read", '{"text": "a"}').returncode == 0
    printed = shell.run(look)
    assert "wiki" in printed
    assert "11 wiki_read" in printed


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("mount") is None, reason="only root can mount a small disk")
def test_the_disk_is_full(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m,mode=700", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("this machine lets nobody mount a disk")
    try:
        home = Home(disk)
        key = key_in(home.run("addkey", "root", "--scope", "admin:*").stdout)
        shell = Shell(home, tmp_path)
        look, prune, shrink = blocks("The disk is full")
        (disk / "backups").mkdir(exist_ok=True)
        with home.serving() as server:
            assert status(server, key) == 200
            (disk / "backups" / "replaced-1.sqlite3").write_bytes(bytes(4_000_000))
            with filled(disk):
                assert eventually(lambda: status(server, key) == 503, 20)
                assert httpx.get(f"{server.url}/health").status_code == 503
                assert "replaced-1.sqlite3" in shell.run(look)
                assert "Deleted:" in shell.run(prune)
                assert not (disk / "backups" / "replaced-1.sqlite3").exists()
                assert eventually(lambda: status(server, key) == 200, 20), "it recovers without a restart"
                assert httpx.get(f"{server.url}/health").status_code == 200
            assert server.end() == 0
        assert "read back and found good" in shell.run(shrink)
        assert home.run("calltool", "echo", '{"message": "hi"}').returncode == 0
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_the_encryption_key_is_lost(home: Home, key: str, tmp_path: Path) -> None:
    with home.serving() as server:
        body = {"name": "work", "pack": "n8n", "url": "https://n8n.test", "secret": "a-secret-of-n8n"}
        made = httpx.post(f"{server.url}/v1/connections", json=body, headers={"X-API-Key": key}, timeout=30)
        assert made.status_code == 201, made.text
    kept = home.path / "encryption_key"
    old = kept.read_text().strip()
    kept.unlink()
    look, back = blocks("The encryption key is lost")
    shell = Shell(home, tmp_path, OLD_KEY=old)
    printed = shell.run(look)
    assert "connection work: " in printed
    assert "cannot be decrypted with any key: connection work" in printed
    assert kept.read_text().strip() != old
    assert "1 re-encrypted" in shell.run(back)
    assert "connection work" not in home.run("doctor").stdout
    assert home.run("rotatesecrets").stdout == "0 re-encrypted, 1 already current.\n"


def test_an_update_went_wrong(home: Home, key: str, tmp_path: Path) -> None:
    backup = tmp_path / "hub.backup"
    assert home.run("backup", str(backup)).returncode == 0
    with closing(sqlite3.connect(home.database, isolation_level=None)) as database:
        database.execute(
            "INSERT INTO django_migrations (app, name, applied) VALUES ('tools_app', '9999_later', '2030-01-01')"
        )
    look, back = blocks("An update went wrong")
    shell = Shell(home, tmp_path, BACKUP=str(backup))
    assert "its schema is" in shell.run(look)
    assert home.run("addkey", "other").returncode == 2, "the earlier version refuses the database"
    assert "No problems." in shell.run(back)
    with home.serving() as server:
        assert status(server, key) == 200
    assert last_line(home.run("listkeys").stdout).startswith("root")
