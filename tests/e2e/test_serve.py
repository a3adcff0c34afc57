"""`toolhub serve` as an operator meets it: real processes, real sockets, a real home."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import stat
import subprocess
import time
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from tests.support import shipped
from tests.support.processes import Home, free_port, key_in
from tools_app.management.commands.serve import listen


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home that is set up already, for tests that leave it as it is."""
    made = Home(tmp_path_factory.mktemp("ready") / "home")
    assert made.run("synctools").returncode == 0
    return made


def call(url: str, key: str, name: str = "echo", **parameters: object) -> httpx.Response:
    body = {"name": name, "parameters": parameters}
    return httpx.post(f"{url}/v1/tools/call", json=body, headers={"Authorization": f"Bearer {key}"}, timeout=10)


def test_brings_up_a_working_hub_from_nothing_and_changes_nothing_the_second_time(home: Home) -> None:
    with home.serving() as server:
        login = home.path / "first-login.txt"
        assert stat.S_IMODE(login.stat().st_mode) == 0o600
        key = key_in(login.read_text())
        answer = call(server.url, key, message="hello")
        assert answer.status_code == 200
        assert answer.json()["result"] == {"message": "hello"}
        assert httpx.get(f"{server.url}/admin/login/").status_code == 200
        assert server.end() == 0
        assert "".join(server.errors).count("Traceback") == 0
        shown, own = "".join(server.output), len(shipped.of_pack("builtin"))
        assert f"http://localhost:{server.port}/admin/" in shown
        assert "connect claude-code" in shown
        assert f"builtin: {own} of {own} tools can be called" in shown
        assert key not in shown, "the output may end up in a log"
    assert stat.S_IMODE(home.path.stat().st_mode) == 0o700
    for private in ("secret_key", "encryption_key"):
        assert stat.S_IMODE((home.path / private).stat().st_mode) == 0o600
    with closing(sqlite3.connect(home.database, isolation_level=None)) as database:
        before = database.execute("SELECT (SELECT value FROM tools_app_revision), COUNT(*) FROM tools_app_auditentry")
        first = before.fetchone()
    with home.serving() as again:
        assert call(again.url, key, message="again").status_code == 200
        with closing(sqlite3.connect(home.database, isolation_level=None)) as database:
            after = database.execute(
                "SELECT (SELECT value FROM tools_app_revision), COUNT(*) FROM tools_app_auditentry"
            )
            assert after.fetchone() == first


def test_what_an_operator_switches_off_is_refused_by_the_next_call(ready: Home) -> None:
    key = key_in(ready.run("addkey", "toggler").stdout)
    with ready.serving() as server:
        assert call(server.url, key, message="hi").status_code == 200
        database = sqlite3.connect(ready.database, timeout=5, isolation_level=None)
        database.execute("UPDATE tools_app_toolrecord SET enabled = 0 WHERE name = 'echo'")
        refused = call(server.url, key, message="hi")
        database.execute("UPDATE tools_app_toolrecord SET enabled = 1 WHERE name = 'echo'")
        database.close()
        assert (refused.status_code, refused.json()["code"]) == (403, "TOOL_DISABLED")
        assert refused.json()["error"] == "Tool is disabled: echo"
        assert call(server.url, key, message="hi").status_code == 200


def test_two_workers_serve_and_both_see_a_switch(ready: Home) -> None:
    key = key_in(ready.run("addkey", "workers").stdout)
    with ready.serving("--workers", "2") as server:
        with httpx.Client() as _:
            codes = {call(server.url, key, message="hi").status_code for _ in range(6)}
        assert codes == {200}
        off = ready.run("calltool", "echo", '{"message": "from the shell"}')
        assert off.returncode == 0
        assert server.end() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ends_quickly_and_cleanly_on_request(ready: Home, number: int) -> None:
    with ready.serving() as server:
        begun = time.monotonic()
        assert server.end(number) == 0
        assert time.monotonic() - begun < 5
        assert "Traceback" not in "".join(server.errors)


def test_lets_a_running_call_finish_and_a_second_ctrl_c_end_it_at_once(home: Home, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "slow.py").write_text(
        "import asyncio\nfrom toolhub import Hints, tool\n\n"
        "@tool(hints=Hints(read_only=True))\n"
        "async def slow(seconds: float) -> str:\n"
        '    """Take a while."""\n    await asyncio.sleep(seconds)\n    return "done"\n'
    )
    home.extra["TOOLHUB_TOOLS_DIR"] = str(tools)
    with home.serving() as server:
        key = key_in((home.path / "first-login.txt").read_text())
        body = '{"name": "slow", "parameters": {"seconds": 1.0}}'

        def send() -> socket.socket:
            connection = socket.create_connection(("127.0.0.1", server.port))
            connection.sendall(
                f"POST /v1/tools/call HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {key}\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
            )
            return connection

        with send() as connection:
            time.sleep(0.3)
            server.process.send_signal(signal.SIGINT)
            connection.settimeout(10)
            received = b""
            while chunk := connection.recv(65536):
                received += chunk
            assert b'"done"' in received
        assert server.process.wait(10) == 0
    body = '{"name": "slow", "parameters": {"seconds": 9.0}}'
    with home.serving() as server, send():
        time.sleep(0.3)
        server.process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        begun = time.monotonic()
        server.process.send_signal(signal.SIGINT)
        server.process.wait(10)
        assert time.monotonic() - begun < 3


@pytest.mark.parametrize(
    ("environment", "arguments", "expected"),
    [
        ({"PORT": "abc"}, (), "PORT: expected a whole number from 1 to 65535, found 'abc'"),
        ({"PORT": "70000"}, (), "PORT: expected a whole number"),
        ({"LOG_LEVEL": "loud"}, (), "LOG_LEVEL: expected one of fatal, error, warn, info, debug, trace"),
        ({"DATABASE_URL": "mysql://root@localhost/x"}, (), "DATABASE_URL: expected sqlite:///PATH or postgres://"),
        ({"TOOLHUB_TIMEOUT_MS": "5"}, (), "TOOLHUB_TIMEOUT_MS: expected a whole number from 100 to 120000"),
        ({"DEBUG": "maybe"}, (), "DEBUG: expected true or false"),
        ({"DEBUG": "1"}, ("--host", "0.0.0.0"), "DEBUG exposes secrets"),
        ({"SECRET_KEY": "short"}, ("--host", "0.0.0.0"), "SECRET_KEY is weak"),
        ({"TOOLHUB_ADMIN_PASSWORD": "admin"}, (), "TOOLHUB_ADMIN_PASSWORD: The password for 'admin' is refused"),
        ({}, ("--host", "192.0.2.1"), "cannot listen on 192.0.2.1"),
        ({"DATABASE_URL": "postgres://u:secretpw@127.0.0.1:1/none"}, (), "cannot use the database none at 127.0.0.1:1"),
        ({"DATABASE_URL": "sqlite:////proc/nowhere/x.sqlite3"}, (), "cannot use the database /proc/nowhere"),
    ],
)
def test_says_in_one_line_what_is_wrong_and_ends(
    home: Home, environment: dict[str, str], arguments: tuple[str, ...], expected: str
) -> None:
    done = home.run("serve", "--port", str(free_port()), *arguments, **environment)
    assert done.returncode != 0
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
    assert "secretpw" not in done.stderr
    assert len([line for line in done.stderr.splitlines() if line.startswith("toolhub:")]) == 1


def test_names_the_port_that_is_taken(ready: Home) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = ready.run("serve", "--port", str(port))
    assert done.returncode == 2
    assert done.stderr.strip() == (
        f"toolhub: port {port} on 127.0.0.1 is in use; "
        f"stop the process that uses it, or choose another port: PORT={port + 1}"
    )


def test_sends_answers_without_delay() -> None:
    with listen("127.0.0.1", 0) as listener:
        assert listener.proto == socket.IPPROTO_TCP, "else asyncio leaves Nagle's algorithm on: 40 ms a request"


@pytest.mark.skipif(not Path("/proc/self/limits").exists(), reason="there is no /proc to read it from")
def test_can_open_as_many_files_as_the_system_permits(ready: Home) -> None:
    with ready.serving() as server:
        limits = Path(f"/proc/{server.process.pid}/limits").read_text()
    [files] = [line.split() for line in limits.splitlines() if line.startswith("Max open files")]
    assert files[3] == files[4]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_names_a_home_that_cannot_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    done = Home(tmp_path / "home").run("serve")
    tmp_path.chmod(0o700)
    assert "TOOLHUB_HOME: cannot use" in done.stderr


def test_names_a_home_that_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = Home(tmp_path / "file" / "home", {}).run("doctor")
    assert done.returncode == 2
    assert "TOOLHUB_HOME: cannot use" in done.stderr
    assert "Traceback" not in done.stderr


def test_copies_the_database_before_it_updates_it_and_others_refuse_until_then(home: Home) -> None:
    assert home.run("synctools").returncode == 0
    with closing(sqlite3.connect(home.database, isolation_level=None)) as database:
        database.execute("DELETE FROM django_migrations WHERE app = 'auth' AND name LIKE '0012%'")
    for command in (("addkey", "x"), ("calltool", "echo", "{}"), ("runmcp",)):
        refused = home.run(*command)
        assert refused.returncode == 2, command
        assert "older than this program; run `toolhub migrate`" in refused.stderr
    with home.serving():
        assert len(list((home.path / "backups").glob("*.sqlite3"))) == 1
    with closing(sqlite3.connect(home.database, isolation_level=None)) as database:
        database.execute(
            "INSERT INTO django_migrations (app, name, applied) VALUES ('tools_app', '9999_later', '2030-01-01')"
        )
    for command in (("addkey", "x"), ("serve", "--port", str(free_port()))):
        refused = home.run(*command)
        assert refused.returncode == 2
        assert "created by a later version" in refused.stderr


def test_several_first_starts_at_once_make_one_hub(home: Home) -> None:
    started = [home.start("synctools") for _ in range(3)]
    for process in started:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
    with closing(sqlite3.connect(home.database, isolation_level=None)) as database:
        (tools,) = database.execute("SELECT COUNT(*) FROM tools_app_toolrecord WHERE kind = 'tool'").fetchone()
        entries = database.execute("SELECT changes FROM tools_app_auditentry WHERE action = 'source.sync'")
        assert sum(json.loads(changes)["registered"][1] for (changes,) in entries) == tools
        assert tools > 0


def test_the_same_works_through_manage_py(ready: Home) -> None:
    import sys

    from tests.support.processes import CHECKOUT

    done = subprocess.run(
        [sys.executable, str(CHECKOUT / "manage.py"), "calltool", "echo", '{"message": "hi"}'],
        env=ready.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == '{"message":"hi"}'
