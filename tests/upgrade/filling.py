"""A hub that the earlier version has filled: weeks of calls, decisions of operators, and what callers have begun."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from tests.support import stores
from tests.support.processes import CHECKOUT, Home, Server, key_in
from tests.support.stores import Store
from tests.upgrade.base import Version

# With an upgrade of many rows.
START_SECONDS: Final = 300
# Calls of its busiest hour for each thousand calls of the demo's two weeks.
BUSIEST_HOUR: Final = 9.6
# Run by the earlier version: everything is written by its own code.
_FILL: Final = """
import django, sys
django.setup()
from toolhub.demo import filling, history, upstreams
history.BUSIEST_HOUR = float(sys.argv[1])
with upstreams.running() as (n8n, redmine):
    filling.fill(n8n, redmine, "password of the administrator")
"""
# Counts its calls in a file.
_PAYING: Final = '''
import os
from toolhub import Hints, tool

@tool(category="test", hints=Hints(read_only=False, idempotent=False, open_world=False))
def pay(amount: int) -> dict[str, int]:
    """Pay."""
    with open(os.environ["PAYMENTS"], "a") as file:
        file.write(f"{amount}\\n")
    return {"paid": amount}
'''
_COUNTING: Final = '''
from toolhub import Hints, tool

@tool(category="test", hints=Hints(read_only=True))
def count(text: str) -> int:
    """Count the letters."""
    return len(text)
'''
# Another definition of that tool, and a new tool: both wait for an operator.
_HELD: Final = (
    _COUNTING.replace("the letters", "the characters")
    + '''
@tool(category="test", hints=Hints(read_only=True))
def reverse(text: str) -> str:
    """Write it backwards."""
    return text[::-1]
'''
)
HOLD: Final = {"TOOLHUB_SOURCES_TO_APPROVE": "file"}
# Runs on both versions.
_SECRETS: Final = """
import django, json
django.setup()
from tools_app.base import secrets
from tools_app.models import Approval, Connection

def plain(value):
    return value and (secrets.decrypted(bytes(value)) or b"UNREADABLE").hex()

found = {f"connection {one.name}": plain(one.sealed) for one in Connection.objects.all()}
found |= {f"approval {one.pk}": plain(one.arguments) for one in Approval.objects.all()}
print(json.dumps(found))
"""


@dataclass(frozen=True)
class Begun:
    """What callers have of the earlier version, and use with this one."""

    boss: str
    agent: str
    # A key that is limited to a toolset, and which tools it reaches.
    narrow: str
    reached: list[str]
    revoked: str
    # Of calls that are approved, and that wait for an operator.
    approved: str
    pending: str
    replies: dict[str, dict[str, Any]]


@dataclass(frozen=True)
class OldHub:
    """A hub that no process uses: as the earlier version sees it, and as this one does."""

    old: Home
    new: Home
    store: Store
    begun: Begun
    payments: Path

    @contextlib.contextmanager
    def copied(self, folder: Path) -> Iterator[OldHub]:
        """The same with a home and a database of its own."""
        path = folder / "home"
        shutil.copytree(self.old.path, path)
        payments = folder / "payments"
        shutil.copy(self.payments, payments)
        with stores.copied(self.store, path) as store:
            own = {**store.environment, "PAYMENTS": str(payments)}
            old, new = (Home(path, {**home.extra, **own}, patience=START_SECONDS) for home in (self.old, self.new))
            yield OldHub(old, new, store, self.begun, payments)

    def paid(self) -> list[str]:
        return self.payments.read_text().split()


@contextlib.contextmanager
def filled(folder: Path, version: Version, calls: int) -> Iterator[OldHub]:
    """A hub with about that many calls."""
    path, tools, payments = folder / "home", folder / "tools", folder / "payments"
    path.mkdir()
    shutil.copytree(version.checkout / "toolhub" / "demo" / "tools", tools)
    (tools / "paying.py").write_text(_PAYING)
    (tools / "counting.py").write_text(_COUNTING)
    with stores.fresh(path) as store:
        environment = {
            **store.environment,
            "TOOLHUB_TOOLS_DIR": str(tools),
            "PAYMENTS": str(payments),
            "LOG_LEVEL": "error",
            # What is due by then is no loss.
            "TOOLHUB_APPROVAL_SECONDS": "86400",
            "TOOLHUB_KEEP_PAYLOADS_DAYS": "60",
        }
        old = Home(path, {**environment, "PYTHONPATH": version.python_path})
        new = Home(path, {**environment, "PYTHONPATH": str(CHECKOUT)})
        _fill(old, calls)
        begun = _begin(old, tools)
        for home in (old, new):
            home.extra |= HOLD
        yield OldHub(old, new, store, begun, payments)


def _fill(home: Home, calls: int) -> None:
    command = [sys.executable, "-c", _FILL, str(BUSIEST_HOUR * calls / 1_000)]
    environment = {**home.environment, "DJANGO_SETTINGS_MODULE": "toolhub.settings"}
    done = subprocess.run(command, env=environment, cwd=CHECKOUT.anchor, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _begin(home: Home, tools: Path) -> Begun:
    scopes = ("--scope", "tools:list", "--scope", "tools:execute")
    boss, agent, narrow, revoked = (
        key_in(home.run("addkey", f"upgraded {name}", *options).stdout)
        for name, options in (
            ("boss", ("--scope", "admin:*")),
            ("agent", scopes),
            ("narrow", (*scopes, "--toolset", "support")),
            ("revoked", scopes),
        )
    )
    with home.serving() as hub:
        replies = {f"order {number}": pay(hub, agent, number, key=f"order {number}") for number in range(5)}
        assert all(reply["success"] for reply in replies.values()), replies
        ask(hub, boss, "PATCH", "/v1/tools/pay", {"ask": True})
        approved, pending = (pay(hub, agent, amount)["context"]["approvalId"] for amount in (100, 200))
        ask(hub, boss, "POST", f"/v1/approvals/{approved}/approve", {"reason": "before the upgrade"})
        reached = listed(hub, narrow)
        assert home.run("revokekey", "upgraded revoked").returncode == 0
    (tools / "counting.py").write_text(_HELD)
    done = home.run("synctools", **HOLD)
    assert done.returncode == 0, done.stderr
    return Begun(boss, agent, narrow, reached, revoked, approved, pending, replies)


# ---- what callers do, on both versions


def ask(hub: Server, key: str, method: str, path: str, body: object = None) -> dict[str, Any]:
    """A request of the REST API that succeeds."""
    response = _request(hub, key, method, path, body)
    assert response.is_success, response.text
    answer: dict[str, Any] = response.json()
    return answer


def call(hub: Server, key: str, name: str, headers: dict[str, str] | None = None, **arguments: Any) -> dict[str, Any]:
    """Call a tool; returns the response, also that of a refusal."""
    body = {"name": name, "parameters": arguments}
    answer: dict[str, Any] = _request(hub, key, "POST", "/v1/tools/call", body, headers).json()
    return answer


def pay(hub: Server, caller: str, amount: int, *, key: str = "", approval: str = "") -> dict[str, Any]:
    headers = {"Idempotency-Key": key, "Toolhub-Approval": approval}
    return call(hub, caller, "pay", {name: value for name, value in headers.items() if value}, amount=amount)


def listed(hub: Server, key: str) -> list[str]:
    tools = ask(hub, key, "GET", "/v1/tools?limit=100")["tools"]
    return sorted(tool["name"] for tool in tools)


def plain_secrets(home: Home) -> dict[str, Any]:
    """Everything that is encrypted, decrypted by the code of that home."""
    done = home.python(_SECRETS)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _request(
    hub: Server, key: str, method: str, path: str, body: object, headers: dict[str, str] | None = None
) -> httpx.Response:
    with httpx.Client(base_url=hub.url, trust_env=False, timeout=30) as client:
        return client.request(method, path, json=body, headers={"X-API-Key": key, **(headers or {})})
