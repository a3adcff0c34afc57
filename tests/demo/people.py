"""Who uses the demo's hub, and what its operators have decided in two weeks. Each decision with its audit entry."""

from __future__ import annotations

import json
import secrets
import zlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import time_machine

from tests.packs.n8n.fake import KEY
from tools_app import governance
from tools_app.models import Agent, Approval, ErrorGroup, Process
from tools_app.secrets import encrypted

CLARA, OMAR = "user:clara", "user:omar"
# What the fake Redmine takes.
REDMINE_KEY: Final = "key-of-manager"


@dataclass(frozen=True)
class Person:
    """Somebody who calls tools: how they are known, by which door they come, and how much they do."""

    name: str
    share: int
    door: str = "mcp"
    kind: str = "key"
    id: str = ""


def appear(now: datetime, n8n: str, redmine: str) -> list[Person]:
    """Everything that was set up; returns who calls tools."""
    with _at(now, 13.9):
        for name, pack, url, secret in (("n8n", "n8n", n8n, KEY), ("redmine", "redmine", redmine, REDMINE_KEY)):
            governance.create_connection(name, pack, secret=secret, url=url, actor=CLARA, reason="Setting up")
            governance.note_health(name, healthy=True, words="It took the secret and answered in 21 ms.")
        governance.create_toolset("support", tags=["shop"], names=["list_issues", "create_issue"], actor=CLARA)
        governance.create_toolset("automation", packs=["n8n"], actor=CLARA)
    with _at(now, 9.2):
        archive = {"url": f"{redmine}/archive", "read_only": True}
        governance.create_connection("archive", "redmine", secret="x" * 20, actor=OMAR, reason="Old tickets", **archive)
    with _at(now, 0.02):
        words = "Wrong address: what answers there is not the interface of Redmine. Set the one that people open."
        governance.note_health("archive", healthy=False, words=words)
    people = [
        Person("dana", 9, kind="local", id="local:dana"),
        Person("omar", 2, door="admin", kind="user", id="user:2"),
    ]
    for name, share, days, given in (
        ("support assistant", 30, 13.8, {"toolsets": ["support"], "asks": "destroys"}),
        ("night watch (n8n)", 16, 13.5, {"toolsets": ["automation"]}),
        ("ci", 8, 12.0, {"scopes": ["tools:list", "tools:execute"], "rate": (60, 60)}),
        ("reporting", 5, 11.0, {"may_write": False}),
    ):
        connections = [] if name == "ci" else ["n8n", "redmine"]
        with _at(now, days):
            key, _ = governance.create_key(name, connections=connections, actor=CLARA, **given)
        door = "rest" if name in ("ci", "reporting") else "mcp"
        people.append(Person(name, share, door=door, id=f"key:{key.pk}"))
    with _at(now, 6):
        trial, _ = governance.create_key("trial", actor=OMAR, expires_at=now + timedelta(days=5))
    with _at(now, 4):
        governance.revoke_key(trial, actor=OMAR, reason="The trial is over")
    return people


def decide(now: datetime) -> None:
    """What operators switched, limited and resolved."""
    for days, actor, reason, names in (
        (12.1, CLARA, "Nobody may delete workflows from a chat", ["delete_workflow", "delete_project", "delete_issue"]),
        (1.1, OMAR, "Vouchers wait for the new terms", ["send_voucher"]),
    ):
        with _at(now, days):
            governance.set_enabled(names, enabled=False, actor=actor, reason=reason)
    with _at(now, 7.3):
        governance.set_policy("sales_report", {"timeout_ms": 60_000}, actor=OMAR, reason="The month of May takes long")
    with _at(now, 2.2):
        governance.set_ask("cancel_order", ask=True, actor=CLARA, reason="After the mishap with O-1998")
    old = ErrorGroup.objects.filter(last_seen_at__lt=now - timedelta(days=2)).values_list("pk", flat=True)[:3]
    with _at(now, 1.9):
        governance.resolve_errors(list(old), actor=OMAR, reason="n8n is back")


def come_in(now: datetime, people: list[Person]) -> None:
    """The agents that are connected, and the calls of theirs that wait for an operator."""
    ids = {person.name: person.id for person in people}
    process = Process.objects.create(
        id=secrets.token_hex(16), kind="serve", host="hub", pid=1, started_at=now - timedelta(days=3),
        lease_until=now + timedelta(days=1),
    )  # fmt: skip
    for client, version, protocol, era, caller, door, hours, calls in (
        ("claude-code", "2.1.4", "2026-07-28", "modern", "dana", "stdio", 3, 41),
        ("cursor", "1.9.0", "2025-11-25", "handshake", "dana", "stdio", 1, 7),
        ("support-desk", "0.8", "2025-11-25", "handshake", "support assistant", "http", 52, 1_204),
        ("n8n-mcp-client", "2.41.1", "2026-07-28", "modern", "night watch (n8n)", "http", 71, 388),
    ):
        Agent.objects.create(
            id=secrets.token_hex(16), process=process, door=door, client=client, version=version, protocol=protocol,
            era=era, caller_kind="local" if door == "stdio" else "key", caller_id=ids[caller], caller_name=caller,
            since=now - timedelta(hours=hours), seen_at=now - timedelta(seconds=40),
            called_at=now - timedelta(minutes=2), calls=calls,
        )  # fmt: skip
    for number, reason in (("O-2041", "ordered twice"), ("O-2055", "wrong address")):
        Approval.objects.create(
            id=secrets.token_hex(16), tool_name="cancel_order", definition_hash="d" * 64,
            request_hash=secrets.token_hex(32), door="mcp", caller_kind="key", caller_id=ids["support assistant"],
            caller_name="support assistant", asked_at=now, expires_at=now + timedelta(minutes=15),
            arguments=encrypted(zlib.compress(json.dumps({"number": number, "reason": reason}).encode())),
        )  # fmt: skip


def _at(now: datetime, days_ago: float) -> Any:
    return time_machine.travel(now - timedelta(days=days_ago), tick=False)
