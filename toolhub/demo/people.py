"""Who uses the demo's hub, and what its operators have decided in two weeks. Each decision with its audit entry."""

from __future__ import annotations

import json
import secrets
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.contrib.auth.models import Group, User
from django.db import transaction

from toolhub.demo.clock import days_ago
from tools_app import governance
from tools_app.base.secrets import encrypted
from tools_app.catalog.entry import Entry
from tools_app.models import Agent, Approval, Definition, ErrorGroup, Process, ToolRecord
from tools_app.models.audit import note

CLARA, OMAR = governance.trusted("user:clara"), governance.trusted("user:omar")
# The demo's upstreams take any key; the fakes of the tests take these.
N8N_KEY: Final = "key-of-the-fake-n8n"
REDMINE_KEY: Final = "key-of-manager"
# Since when, in days before now, things are as they are.
ASKED_ABOUT: Final = 2.2
VOUCHERS_OFF: Final = 1.1
LONGER_REPORTS: Final = 7.3
SEARCH_RESOLVED: Final = 3.0
EXPIRY: Final = timedelta(minutes=15)


@dataclass(frozen=True)
class Person:
    """A caller of tools: how they are known, by which door they come, how much they do, and what they reach."""

    name: str
    share: int
    door: str = "mcp"
    kind: str = "key"
    id: str = ""
    reaches: Callable[[Entry], bool] = lambda entry: True


def appear(now: datetime, n8n: str, redmine: str) -> list[Person]:
    """Everything that was set up; returns who calls tools."""
    with days_ago(now, 14):
        users = {name: _user(name, role) for name, role in (("clara", "admin"), ("omar", "operator"))}
        _user("vera", "viewer")
    with days_ago(now, 13.9):
        for name, pack, url, secret in (("n8n", "n8n", n8n, N8N_KEY), ("redmine", "redmine", redmine, REDMINE_KEY)):
            governance.create_connection(name, pack, secret=secret, url=url, actor=CLARA, reason="Setting up")
        governance.create_toolset("support", tags=["shop"], names=["list_issues", "create_issue"], actor=CLARA)
        governance.create_toolset("automation", packs=["n8n"], actor=CLARA)
        governance.set_enabled(["read_page"], enabled=True, actor=CLARA, reason="Pages of carriers are read with it")
    with days_ago(now, 9.2):
        archive = {"url": f"{redmine}/archive", "read_only": True}
        governance.create_connection("archive", "redmine", secret="x" * 20, actor=OMAR, reason="Old tickets", **archive)
    with days_ago(now, 0.02):
        for name in ("n8n", "redmine"):
            governance.note_health(name, healthy=True, words="")
        words = "Wrong address: what answers there is not the interface of Redmine. Set the one that people open."
        governance.note_health("archive", healthy=False, words=words)
    people = [
        Person("dana", 9, kind="local", id="local:dana"),
        Person("omar", 2, door="admin", kind="user", id=f"user:{users['omar'].pk}"),
    ]
    support, automation = ("list_issues", "create_issue"), ("n8n",)
    for name, share, days, given, reaches in (
        (
            "support assistant", 30, 13.8, {"toolsets": ["support"], "asks": "destroys"},
            lambda entry: entry.pack == "shop" or entry.name in support,
        ),
        ("night watch (n8n)", 16, 13.5, {"toolsets": ["automation"]}, lambda entry: entry.pack in automation),
        (
            "ci", 8, 12.0, {"scopes": ["tools:list", "tools:execute"], "rate": (60, 60)},
            lambda entry: entry.pack in ("builtin", "shop", "websearch"),
        ),
        ("reporting", 9, 11.0, {"may_write": False, "may_destroy": False}, lambda entry: entry.hints.read_only),
    ):  # fmt: skip
        connections = [] if name == "ci" else ["n8n", "redmine"]
        with days_ago(now, days):
            key, _ = governance.create_key(name, connections=connections, owner=users["clara"], actor=CLARA, **given)
        door = "rest" if name in ("ci", "reporting") else "mcp"
        people.append(Person(name, share, door=door, id=f"key:{key.pk}", reaches=reaches))
    with days_ago(now, 6):
        ends = now + timedelta(days=5)
        trial, _ = governance.create_key("trial", actor=OMAR, owner=users["omar"], expires_at=ends)
    with days_ago(now, 4):
        governance.revoke_key(trial, actor=OMAR, reason="The trial is over")
    return people


def decide(now: datetime) -> None:
    """What operators switched, limited and resolved."""
    for days, actor, reason, names in (
        (
            12.1,
            CLARA,
            "Workflows must not be deleted from a chat",
            ["delete_workflow", "delete_project", "delete_issue"],
        ),
        (VOUCHERS_OFF, OMAR, "Vouchers wait for the new terms", ["send_voucher"]),
    ):
        with days_ago(now, days):
            governance.set_enabled(names, enabled=False, actor=actor, reason=reason)
    with days_ago(now, LONGER_REPORTS):
        governance.set_policy("sales_report", {"timeout_ms": 60_000}, actor=OMAR, reason="The month of May takes long")
    with days_ago(now, ASKED_ABOUT):
        governance.set_ask("cancel_order", ask=True, actor=CLARA, reason="After the mishap with O-1998")
    for searching in ErrorGroup.objects.filter(tool_name="web_search", code="API_ERROR"):
        with days_ago(now, SEARCH_RESOLVED) as then:
            governance.resolve_errors([searching.pk], actor=OMAR, reason="Fewer searches at once now")
        after = searching.errors.filter(created_at__gt=then).order_by("created_at").first()
        if after is not None:
            # It happened again, which opens it by itself.
            ErrorGroup.objects.filter(pk=searching.pk).update(
                resolved_at=None, resolved_by="", reopened_at=after.created_at
            )
    outage = ErrorGroup.objects.filter(code="UPSTREAM_UNAVAILABLE", place__contains="client.py")
    with days_ago(now, 2.9):
        governance.resolve_errors(list(outage.values_list("pk", flat=True)), actor=OMAR, reason="n8n is back")
    for broken in ErrorGroup.objects.filter(tool_name="stock_level"):
        with days_ago(now, 0.2):
            said = "Articles of the new price list have no southern warehouse. SHOP-311 has it."
            governance.add_error_note(broken.pk, said, actor=OMAR)
    _used_to_be(now)


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
    for days, number, reason in ((1.2, "O-2003", "changed his mind"), (0, "O-2041", "ordered twice"),
                                 (0, "O-2055", "wrong address")):  # fmt: skip
        waiting = Approval.objects.create(
            id=secrets.token_hex(16), tool_name="cancel_order", definition_hash="d" * 64,
            request_hash=secrets.token_hex(32), door="mcp", caller_kind="key", caller_id=ids["support assistant"],
            caller_name="support assistant", asked_at=now - timedelta(days=days), expires_at=now + EXPIRY,
            arguments=encrypted(zlib.compress(json.dumps({"number": number, "reason": reason}).encode())),
        )  # fmt: skip
        if days:
            with days_ago(now, days - 0.002):
                governance.refuse_call(waiting.pk, actor=OMAR, reason="It has left the house already")
            Approval.objects.filter(pk=waiting.pk).update(expires_at=waiting.asked_at + EXPIRY)


def _user(name: str, role: str) -> User:
    """A colleague who cannot sign in: the demo has one password, and says it."""
    user = User.objects.create_user(name, f"{name}@shop.example", is_staff=True)
    user.groups.add(Group.objects.get(name=role))
    return user


def _used_to_be(now: datetime) -> None:
    """What `stock_level` was until six days ago: without a warehouse, and with fewer words."""
    record = ToolRecord.objects.get(name="stock_level")
    current = record.definition
    assert current is not None  # noqa: S101 – it was registered when the hub was set up
    body = json.loads(json.dumps(current.body))
    body["inputSchema"]["properties"].pop("warehouse")
    body |= {"version": "1.3.0", "description": "Tell the stock of an article."}
    seen = now - timedelta(days=14)
    Definition.objects.create(
        tool=record, hash=secrets.token_hex(32), version="1.3.0", body=body, first_seen_at=seen, approved_at=seen,
        approved_by=current.approved_by,
    )  # fmt: skip
    with days_ago(now, 6) as then, transaction.atomic():
        Definition.objects.filter(pk=current.pk).update(first_seen_at=then)
        note("tool.redefine", record.name, actor="sync", changes={"version": ["1.3.0", current.version]})
