"""A real n8n: installed from npm into a directory of its own, started on loopback, with an owner and a key.

Only what is pinned here is installed, without the packages' install scripts, some of which download programs or report
that they were run; the native modules that n8n needs are built. Nothing that it does at work leaves the machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx

NODE: Final = "24.21.0"
# Where installations stay: one of them has two gigabytes.
HOME: Final = Path(os.environ.get("TOOLHUB_TEST_N8N_HOME") or Path.home() / ".cache" / "toolhub" / "n8n")
OWNER: Final = {"email": "owner@example.test", "password": "Owner-12345", "firstName": "Tool", "lastName": "Hub"}
_START_SECONDS: Final = 300

# Without these, versions are asked for that do not exist, or that do not come from the registry.
_OVERRIDES: Final = {"linkedom": "0.18.12", "xlsx": "0.18.5"}
# What would talk to the world. `mcp-registry` does so whatever else is switched off.
_SILENT: Final = {
    **dict.fromkeys(
        (
            *("N8N_DIAGNOSTICS_ENABLED", "N8N_VERSION_NOTIFICATIONS_ENABLED", "N8N_TEMPLATES_ENABLED"),
            *("N8N_VERSION_NOTIFICATIONS_WHATS_NEW_ENABLED", "N8N_DYNAMIC_BANNERS_ENABLED", "N8N_PYTHON_ENABLED"),
            *("N8N_HIRING_BANNER_ENABLED", "N8N_PERSONALIZATION_ENABLED", "N8N_COMMUNITY_PACKAGES_ENABLED"),
            *("N8N_UNVERIFIED_PACKAGES_ENABLED", "N8N_VERIFIED_PACKAGES_ENABLED", "N8N_LICENSE_AUTO_RENEW_ENABLED"),
            *("N8N_AI_ENABLED", "N8N_MCP_ACCESS_ENABLED", "N8N_SECURE_COOKIE", "EXECUTIONS_DATA_PRUNE"),
        ),
        "false",
    ),
    "N8N_DIAGNOSTICS_CONFIG_FRONTEND": "",
    "N8N_DIAGNOSTICS_CONFIG_BACKEND": "",
    "N8N_SENTRY_DSN": "",
    "EXTERNAL_FRONTEND_HOOKS_URLS": "",
    "DO_NOT_TRACK": "1",
}


@dataclass(frozen=True)
class Line:
    """A major version of n8n: which release stands for it, and what that needs."""

    version: str
    node: str | None
    native: tuple[str, ...]
    overrides: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


LINES: Final[Mapping[str, Line]] = {
    "2": Line(
        "2.41.1",
        NODE,
        ("sqlite3", "isolated-vm"),
        {"@langchain/langgraph-checkpoint@^1.2.2": "1.1.5", "@langchain/protocol@^0.0.21": "0.0.19"},
        # Not more modules than these: without some others, executions fail.
        {"N8N_DISABLED_MODULES": "mcp-registry,community-packages"},
    ),
    "1": Line(
        "1.123.81",
        None,  # the one of this machine
        ("sqlite3",),
        {"@langchain/langgraph-checkpoint": "1.0.0"},
        {"N8N_DISABLED_MODULES": "community-packages", "N8N_EXPRESSION_ENGINE": "legacy"},
    ),
}


def _run(command: list[str], folder: Path, environment: Mapping[str, str]) -> None:
    done = subprocess.run(command, cwd=folder, env=dict(environment), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[:3])} failed in {folder}:\n{(done.stdout + done.stderr)[-3000:]}")


def _environment(line: Line) -> dict[str, str]:
    """With the Node.js that this n8n needs at the front, which is fetched from npm as well."""
    environment = dict(os.environ) | {"PUPPETEER_SKIP_DOWNLOAD": "1", "PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD": "1"}
    if line.node is None:
        return environment
    machine = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}[platform.machine().lower()]
    package = f"node-{'darwin' if sys.platform == 'darwin' else 'linux'}-{machine}"
    folder = HOME / f"node-{line.node}"
    node = folder / "node_modules" / package
    if not (node / "bin" / "node").exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text('{"private": true}')
        install = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", f"{package}@{line.node}"]
        _run(install, folder, environment)
    path = os.pathsep.join([str(node / "bin"), environment["PATH"]])
    # Its headers come with it: nothing is downloaded to build native modules.
    return environment | {"PATH": path, "npm_config_nodedir": str(node)}


def installed(line: Line) -> tuple[Path, dict[str, str]]:
    """The program, after it has been installed where it was not, and the environment to run it in."""
    environment = _environment(line)
    folder = HOME / f"n8n-{line.version}"
    mark = folder / ".installed"
    if not mark.exists():
        shutil.rmtree(folder / "node_modules", ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        package = {
            "private": True,
            "dependencies": {"n8n": line.version},
            "overrides": {**_OVERRIDES, **line.overrides},
        }
        (folder / "package.json").write_text(json.dumps(package))
        options = ["--ignore-scripts", "--legacy-peer-deps", "--no-audit", "--no-fund", "--no-package-lock"]
        _run(["npm", "install", *options], folder, environment)
        _run(["npm", "rebuild", *line.native], folder, environment)
        mark.touch()
    return folder / "node_modules" / "n8n" / "bin" / "n8n", environment


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        found = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in found:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in found]


@dataclass
class Server:
    """A running one. `web` is its editor's own interface, with the owner logged in."""

    url: str
    key: str
    version: str
    web: httpx.Client
    # Kills it, without a chance to end anything, and starts it again.
    crash: Callable[[], None]
    # Runs a command of its command line.
    command: Callable[..., None]

    def pause(self) -> None:
        """Between two looks at something that takes its time."""
        time.sleep(0.2)

    def key_of_member(self) -> str:
        """The key of a new user who is no administrator, with all scopes that such a user may have."""
        email = f"{secrets.token_hex(4)}@example.test"
        invited = self.web.post("/rest/invitations", json=[{"email": email, "role": "global:member"}])
        user = invited.raise_for_status().json()["data"][0]["user"]
        asked = dict(httpx.URL(user["inviteAcceptUrl"]).params)
        accept = {"firstName": "A", "lastName": "Member", "password": OWNER["password"]}
        with httpx.Client(base_url=self.url, timeout=60) as web:
            if "token" in asked:
                accepted = web.post("/rest/invitations/accept", json={**accept, "token": asked["token"]})
            else:
                inviter = {"inviterId": asked["inviterId"]}
                accepted = web.post(f"/rest/invitations/{user['id']}/accept", json={**accept, **inviter})
            accepted.raise_for_status()
            return key_of(web)

    def key_that_reads(self) -> str:
        """Of the owner, with the scopes that read: n8n 1 without a license does not enforce them."""
        return key_of(self.web, lambda scope: scope.endswith((":read", ":list")))

    def rest(self) -> None:
        """Until what goes on behind an answer is over."""
        for _ in range(15):
            self.pause()

    def waiting(self, workflow_id: str) -> list[dict[str, Any]]:
        """Executions that wait: before n8n 2, only the editor's own list has them."""
        asked = {"filter": json.dumps({"workflowId": workflow_id}), "limit": "5"}
        found = self.web.get("/rest/executions", params=asked).json()["data"].get("results") or []
        return [each for each in found if each["status"] == "waiting"]

    @property
    def api(self) -> httpx.Client:
        return httpx.Client(base_url=f"{self.url}/api/v1", headers={"X-N8N-API-KEY": self.key}, timeout=60)


@contextlib.contextmanager
def running(line: Line, folder: Path) -> Iterator[Server]:
    """A fresh one, whose data lies in `folder`, until the end of the block."""
    program, environment = installed(line)
    port, broker = _free_ports(2)
    environment |= _SILENT | dict(line.environment)
    environment |= {
        "N8N_USER_FOLDER": str(folder),
        "N8N_ENCRYPTION_KEY": secrets.token_hex(16),
        "N8N_HOST": "127.0.0.1",
        "N8N_LISTEN_ADDRESS": "127.0.0.1",
        "N8N_PORT": str(port),
        "N8N_RUNNERS_ENABLED": "true",
        "N8N_RUNNERS_BROKER_PORT": str(broker),
        "EXECUTIONS_DATA_SAVE_MANUAL_EXECUTIONS": "true",
        "GENERIC_TIMEZONE": "UTC",
    }
    url = f"http://127.0.0.1:{port}"
    log = folder / "n8n.log"
    processes: list[subprocess.Popen[bytes]] = []

    def start() -> None:
        with log.open("ab") as output:
            process = subprocess.Popen(
                ["node", str(program), "start"],
                cwd=folder,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                # The program is looked up in the PATH of this process otherwise, where another Node.js may stand.
                executable=shutil.which("node", path=environment["PATH"]),
            )
        processes.append(process)
        _wait_until_ready(web, process, log)

    def crash() -> None:
        processes[-1].kill()
        processes[-1].wait()
        start()

    def command(*words: str) -> None:
        # Beside a server, which has the port of the broker.
        with_port = {"N8N_RUNNERS_BROKER_PORT": str(_free_ports(1)[0])}
        _run(
            [str(shutil.which("node", path=environment["PATH"])), str(program), *words], folder, environment | with_port
        )

    with httpx.Client(base_url=url, timeout=60) as web:
        try:
            start()
            web.post("/rest/owner/setup", json=OWNER).raise_for_status()
            yield Server(url, key_of(web), line.version, web, crash, command)
        finally:
            processes[-1].terminate()
            try:
                processes[-1].wait(20)
            except subprocess.TimeoutExpired:
                processes[-1].kill()
                processes[-1].wait()


def _wait_until_ready(web: httpx.Client, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        # While it starts, it answers 200 to every path, with a text that says so.
        with contextlib.suppress(httpx.HTTPError, ValueError):
            if "data" in web.get("/rest/settings").json():
                return
        time.sleep(0.2)
    raise RuntimeError(f"n8n does not start:\n{log.read_text(errors='replace')[-3000:]}")


def key_of(web: httpx.Client, wanted: Callable[[str], bool] = lambda scope: True) -> str:
    """A new key of who is logged in, with all scopes of that user that are wanted."""
    scopes = web.get("/rest/api-keys/scopes").raise_for_status().json()["data"]
    # n8n 1 gives two keys that are made within a second the same text, and then refuses the second.
    time.sleep(1.1)
    label = f"toolhub {secrets.token_hex(4)}"
    body = {"label": label, "expiresAt": None, "scopes": [scope for scope in scopes if wanted(scope)]}
    made: dict[str, Any] = web.post("/rest/api-keys", json=body).raise_for_status().json()["data"]
    return str(made["rawApiKey"])
