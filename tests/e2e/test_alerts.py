"""Alerts of running hubs: one of several processes sends them, in time, and at least once if it is killed."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.conf import settings

from tests.alerts.conftest import alert, rule
from tests.support.processes import Home, Server, key_in
from tests.support.receivers import Receiver
from tests.support.tools import database_url, eventually
from tools_app.models import Alert, AlertDelivery, Chore

pytestmark = pytest.mark.e2e

SENDER = """
import django, sys
django.setup()
from tools_app.alerts.sender import Sender
Sender(look_seconds=0.1, first_seconds=0).start()
print("ready", flush=True)
sys.stdin.readline()
"""
# What the issue demands of every kind, from the cause to the request.
MOST_SECONDS = 60


@contextmanager
def sender(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that sends alerts of the database of the tests."""
    extra = {
        "DJANGO_SETTINGS_MODULE": "toolhub.settings",
        "DATABASE_URL": database_url(),
        "SECRET_KEY": settings.SECRET_KEY,
        "TOOLHUB_ENCRYPTION_KEY": settings.TOOLHUB_ENCRYPTION_KEY,
    }
    process = subprocess.Popen(
        [sys.executable, "-c", SENDER],
        env=Home(folder, extra).environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


@pytest.mark.django_db(transaction=True)
def test_a_message_whose_process_is_killed_before_it_notes_the_answer_is_sent_again_with_its_id(
    tmp_path: Path, receiver: Receiver
) -> None:
    rule(receiver)
    receiver.open.clear()
    with sender(tmp_path) as first:
        assert eventually(lambda: Chore.objects.filter(name="alerts").exclude(holder="").exists(), 20)
        with sender(tmp_path):
            cause = alert()
            assert eventually(lambda: len(receiver.seen) == 1, 20)
            first.kill()
            first.wait()
            receiver.open.set()
            assert AlertDelivery.objects.get().state == "queued", "it was sent, and that is not on record"
            assert eventually(lambda: AlertDelivery.objects.filter(state="sent").exists(), MOST_SECONDS)
    once, again = receiver.seen
    assert once.id == again.id == AlertDelivery.objects.get().pk
    assert once.json["alerts"] == again.json["alerts"]
    assert again.at - cause.at.timestamp() < MOST_SECONDS
    assert AlertDelivery.objects.get().attempts == 2


@pytest.mark.django_db(transaction=True)
def test_of_several_processes_one_sends_and_each_message_once(tmp_path: Path, receiver: Receiver) -> None:
    rule(receiver, per_minute=60)
    with sender(tmp_path), sender(tmp_path), sender(tmp_path):
        for _ in range(50):
            alert()
        assert eventually(lambda: AlertDelivery.objects.filter(state="sent").count() == 50, 40)
        assert len(set(Chore.objects.filter(name="alerts").values_list("holder", flat=True))) == 1
    ids = [request.id for request in receiver.seen]
    assert len(ids) == len(set(ids)) == 50


@pytest.mark.django_db(transaction=True)
def test_a_receiver_that_hangs_delays_no_other(tmp_path: Path, receiver: Receiver) -> None:
    with Receiver() as hanging, sender(tmp_path):
        hanging.open.clear()
        rule(hanging, "hangs", per_minute=60)
        rule(receiver, per_minute=60)
        for _ in range(20):
            alert()
        assert eventually(lambda: len(receiver.seen) == 20, 15)
        assert len(hanging.seen) == 1
        assert receiver.seen[-1].at - Alert.objects.order_by("at").last().at.timestamp() < 15  # type: ignore[union-attr]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "fails.py").write_text(
        'from toolhub import tool\n\n\n@tool\ndef breaks() -> str:\n    """Fail."""\n    raise RuntimeError("no")\n'
    )
    extra = {
        "TOOLHUB_TOOLS_DIR": str(tools),
        "TOOLHUB_APPROVAL_SECONDS": "15",
        "TOOLHUB_BACKUP_DIR": str(tmp_path / "none" / "there"),
        "TOOLHUB_PUBLIC_URL": "https://hub.example.org",
        "LOG_LEVEL": "error",
    }
    return Home(tmp_path / "home", extra)


def ask(server: Server, key: str, method: str, path: str, **body: Any) -> Any:
    response = httpx.request(
        method, f"{server.url}/v1/{path}", json=body or None, headers={"X-API-Key": key}, timeout=30, trust_env=False
    )
    return response.json() if response.content else None


def test_every_kind_of_cause_reaches_its_receiver_within_a_minute(home: Home, receiver: Receiver) -> None:
    """Measured: what happens now, and what the time brings."""
    key = key_in(home.run("addkey", "chief", "--scope", "admin:*", "--scope", "tools:manage", "--scope",
                          "tools:execute", "--scope", "sources:manage").stdout)  # fmt: skip
    causes: dict[str, float] = {}
    with home.serving() as server:
        made = ask(server, key, "POST", "alert-rules", name="all", url=receiver.url, internal=True, perMinute=60)
        assert made["secret"].startswith("whsec_"), made
        causes["backup.overdue"] = time.time()
        causes["issue.new"] = time.time()
        ask(server, key, "POST", "tools/call", name="breaks", parameters={})
        ask(server, key, "PATCH", "tools/echo", ask=True)
        causes["approval.requested"] = time.time()
        refused = ask(server, key, "POST", "tools/call", name="echo", parameters={"message": "hi"})
        causes["approval.expiring"], causes["approval.expired"] = time.time() + 10, time.time() + 15
        assert refused["code"] == "APPROVAL_REQUIRED", refused
        causes["stop.set"] = time.time()
        ask(server, key, "POST", "stops", kind="pack", name="builtin", reason="A test")
        causes["stop.lifted"] = time.time()
        ask(server, key, "POST", "stops/resume", kind="pack", name="builtin")
        causes["source.failing"] = time.time() + 5
        source = ask(server, key, "POST", "sources", name="tracker", kind="mcp_http", location="http://127.0.0.1:9/mcp",
                     internal=True)  # fmt: skip
        assert "code" not in source, source
        ask(server, key, "PATCH", "sources/tracker", enabled=True)
        causes["file.broken"] = time.time()
        (Path(home.extra["TOOLHUB_TOOLS_DIR"]) / "broken.py").write_text("def f(:\n")
        causes["key.expiring"] = time.time()
        with sqlite3.connect(home.database, timeout=30) as database:
            database.execute(
                "UPDATE tools_app_apikey SET expires_at = datetime('now', '+2 days'), created_at = "
                "datetime('now', '-30 days')"
            )
        seen: dict[str, float] = {}

        def all_arrived() -> bool:
            for request in list(receiver.seen):
                for item in request.json["alerts"]:
                    seen.setdefault(item["event"], request.at)
            return causes.keys() <= seen.keys()

        assert eventually(all_arrived, MOST_SECONDS + 20), (causes.keys() - seen.keys(), sorted(seen))
    latencies = {event: round(seen[event] - at, 1) for event, at in causes.items()}
    print(json.dumps(latencies))  # for docs/alerts.md
    assert max(latencies.values()) < MOST_SECONDS, latencies
    assert {request.json["hub"] for request in receiver.seen} == {"hub.example.org"}


def test_agents_processes_send_if_no_server_does(home: Home, receiver: Receiver) -> None:
    home.run("addkey", "first")
    program = (
        "import django; django.setup()\n"
        "from tools_app import governance\n"
        f"governance.create_alert_rule('all', url={receiver.url!r}, internal=True, actor=governance.of_command())\n"
    )
    done = home.python(program)
    assert done.returncode == 0, done.stderr
    agent = home.start("runmcp")
    try:
        begun = time.time()
        assert home.run("stop", "hub", "--reason", "a test").returncode == 0
        assert eventually(
            lambda: any(request.json["alerts"][0]["event"] == "stop.set" for request in receiver.seen), 60
        )
        assert receiver.seen[-1].at - begun < MOST_SECONDS
        assert receiver.seen[-1].json["alerts"][0]["link"].startswith("https://hub.example.org/admin/tools_app/")
    finally:
        agent.kill()
        agent.communicate()
