"""The units of docs/operate.md. Where tests run, systemd is not the first process: it judges units, and starts none."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.recipes import confined
from tests.recipes.proxies import RECIPES, missing, recipe
from tests.support import mcp_upstream
from tests.support.processes import CHECKOUT, Home, Server, free_port, key_in
from tools_app.upstream.children.supervisor import landlock

PROGRAM = "/opt/toolhub/bin/toolhub"
# systemd rates from 0 to 100 here, which is 0 to 10.0 in its table. Lower is better.
MOST_EXPOSURE = 15


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """The units in a directory, with a program that exists, and the drop-in."""
    if reason := missing("systemd-analyze"):
        pytest.skip(reason)
    (tmp_path / "toolhub.service").write_text(recipe("toolhub.service", **{PROGRAM: sys.executable}))
    shutil.copy(RECIPES / "toolhub.socket", tmp_path)
    added = tmp_path / "toolhub.service.d"
    added.mkdir()
    shutil.copy(RECIPES / "credentials.conf", added)
    return tmp_path


def analyzed(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", "--no-pager", *map(str, arguments)], capture_output=True, text=True, check=False
    )


def test_systemd_understands_every_line(units: Path) -> None:
    done = analyzed("verify", units / "toolhub.service", units / "toolhub.socket")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_systemd_rates_the_service_as_little_exposed(units: Path) -> None:
    done = analyzed("security", "--offline=true", f"--threshold={MOST_EXPOSURE}", units / "toolhub.service")
    assert done.returncode == 0, done.stdout


def test_credentials_reach_the_hub_as_files(tmp_path: Path) -> None:
    """The variables of the drop-in, with the directory in which systemd puts credentials."""
    text = recipe("credentials.conf")
    names = re.findall(r"^LoadCredential=(\w+):", text, re.MULTILINE)
    variables = dict(re.findall(r"^Environment=(\w+)=%d/(\w+)$", text, re.MULTILINE))
    assert sorted(variables.values()) == sorted(names)
    database = tmp_path / "other.sqlite3"
    contents = {"database_url": f"sqlite:///{database}\n", "backup_passphrase": "correct horse battery staple\n"}
    for name in names:
        (tmp_path / name).write_text(contents[name])
    home = Home(tmp_path / "home", {name: str(tmp_path / file) for name, file in variables.items()})
    assert home.run("synctools").returncode == 0
    assert database.exists()
    shown = json.loads(home.run("settings", "--changed", "--json").stdout)
    assert "correct horse" not in json.dumps(shown)
    assert "keys encrypted" in home.run("backup", str(tmp_path / "hub.backup")).stdout


# ---- under the restrictions


needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or missing("systemd-analyze", "unshare", "setpriv") != "",
    reason="only root can apply the restrictions, with systemd-analyze, unshare and setpriv",
)


@pytest.fixture
def state() -> Iterator[Path]:
    # Not below /tmp, which stays writable.
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="toolhub-recipe-") as made:
        yield Path(made)


class Confined:
    """A hub that lives under the restrictions of a unit."""

    def __init__(self, unit: Path, state: Path) -> None:
        self.unit, self.state = unit, state
        self.home = Home(state / "hub", {"HOME": str(state)})

    def command(self, *arguments: str) -> list[str]:
        return confined.command(self.unit, self.state, [sys.executable, *arguments])

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command("-m", "toolhub", *arguments),
            env=self.home.environment,
            cwd=CHECKOUT.anchor,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def python(self, program: str) -> str:
        done = subprocess.run(
            self.command("-c", program), env=self.home.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@needs_root
def test_the_hub_its_supervisor_and_its_programs_work_under_the_restrictions(state: Path) -> None:
    hub = Confined(RECIPES / "toolhub.service", state)
    refused = hub.python(
        "import os, pathlib, socket\n"
        "def attempt(action, *given):\n"
        "    try: action(*given)\n"
        "    except OSError as error: print(error.errno)\n"
        "attempt(pathlib.Path('/var/lib/outside').touch)\n"
        "attempt(socket.socket, socket.AF_PACKET, socket.SOCK_RAW)\n"
        "attempt(os.chroot, '/')\n"
    )
    assert refused.split() == ["30", "1", "1"], "what the unit forbids, such as a file beside the state"
    key = key_in(hub.run("addkey", "root", "--scope", "admin:*").stdout)
    command = mcp_upstream.command(tools=[mcp_upstream.tool("read")])
    for words in (("add", "files", "--command", *command), ("on", "files"), ("approve", "files", "--enable")):
        done = hub.run("source", *words)
        assert done.returncode == 0, done.stderr
    port = free_port()
    with notifications(state) as told:
        process = subprocess.Popen(
            hub.command("-m", "toolhub", "serve", "--port", str(port)),
            env={**hub.home.environment, "NOTIFY_SOCKET": str(state / "notify")},
            cwd=CHECKOUT.anchor,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        server = Server(process, port)
        try:
            assert told.recv(100) == b"READY=1"
            server.wait()
            with httpx.Client(base_url=server.url, headers={"X-API-Key": key}, trust_env=False, timeout=60) as rest:
                called = rest.post("/v1/tools/files_read/call", json={"text": "hello"})
                assert called.status_code == 200, called.text
                assert "hello" in called.text
            checks = json.loads(hub.run("doctor", "--json").stdout)["checks"]
            (isolation,) = (check["message"] for check in checks if check["id"] == "isolation")
            expected = "cannot read this hub's files (landlock)" if landlock.version() else "can read this hub's files"
            assert expected in isolation
        finally:
            assert server.end() == 0, "".join(server.errors)


@needs_root
@pytest.mark.skipif(not landlock.version(), reason="this kernel has no Landlock")
def test_without_its_line_about_landlock_the_unit_would_open_the_files_of_the_hub(state: Path, tmp_path: Path) -> None:
    text, number = re.subn(r"^SystemCallFilter=landlock_.*\n", "", recipe("toolhub.service"), flags=re.MULTILINE)
    assert number == 1
    (tmp_path / "toolhub.service").write_text(text)
    program = (
        f"import sys; sys.path.insert(0, {str(CHECKOUT / 'tools_app/upstream/children')!r})\n"
        "from supervisor import landlock; print(landlock.version())"
    )
    assert int(Confined(RECIPES / "toolhub.service", state).python(program)) > 0
    if "landlock_create_ruleset" not in confined.permitted(text):  # Later versions of systemd have them in a group.
        assert Confined(tmp_path / "toolhub.service", state).python(program) == "0"


class notifications:  # noqa: N801 - a context manager
    """The socket on which systemd is notified."""

    def __init__(self, directory: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(directory / "notify"))
        self._socket.settimeout(60)

    def __enter__(self) -> socket.socket:
        return self._socket

    def __exit__(self, *error: object) -> None:
        self._socket.close()
