"""A hub in which everything has been decided that a configuration file can say, and an empty one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings
from django.contrib.auth.models import User

from tests.support.packs.desk import pack
from tests.support.shop import Shop
from tests.support.tools import Hub
from tests.support.upstreams import record_tool
from tools_app import governance
from tools_app.models import (
    AlertRule,
    ApiKey,
    Connection,
    Definition,
    ManagedRecord,
    Source,
    Tag,
    ToolRecord,
    Toolset,
)
from tools_app.models.tools import POLICY
from tools_app.sdk.budgets import Budget
from tools_app.setup import configuration

ACTOR = governance.trusted("command:ann")
# The references that stand for what only the hub has.
SECRETS = {
    "TOOLHUB_SECRET_MAIN": "key-of-main-1",
    "TOOLHUB_SECRET_ALERT_OPS_URL": "https://hooks.example.org/T123/very-secret",
    "TOOLHUB_SECRET_ALERT_OPS_SECRET": "a secret of sixteen",
}


@pytest.fixture
def shop() -> Iterator[Shop]:
    made = Shop()
    made.start()
    yield made
    made.stop()


@pytest.fixture
def notes(hub: Hub) -> Hub:
    hub.add(*pack.tools)
    return hub


@pytest.fixture
def full(notes: Hub, shop: Shop, settings: LazySettings) -> Hub:
    settings.EMAIL_HOST = "mail.example.org"
    act: dict[str, Any] = {"actor": ACTOR}
    governance.add_user("olga", role="operator", **act)
    root = governance.add_user("root", role="superuser", **act)
    governance.add_source(
        "wiki", kind="mcp_http", location="https://wiki.example.org/mcp", per_session=True, declares=["roots"], **act
    )
    governance.add_source(
        "files", kind="mcp_stdio", command=["npx", "-y", "files@1.0.0", "no", "1e5"], start="always",
        failure_pattern="^E: no", **act,
    )  # fmt: skip
    governance.import_document("shop", address=shop.document_url, internal=True, select=["GET *"], **act)
    governance.create_connection("main", "desk", url="https://desk.example.org", secret="key-of-main-1", **act)
    governance.change_connection("main", options={"greeting": "on", "pages": 7}, timeout_ms=5000, **act)
    governance.create_connection("wiki", "wiki", form="bearer", secret="Bearer-literal-of-the-hub", **act)
    headers = {"Authorization": "Token ${TOOLHUB_SECRET_SHOP}", "X-Tenant": "${file:tenant}"}
    governance.create_connection("shop-api", "shop", form="header", secret=headers, read_only=True, **act)
    governance.create_connection("signed", "shop", form="oauth", secret={}, options={"scopes": "read"}, **act)
    governance.create_connection(
        "env", "files", form="environment", secret={"FILES_TOKEN": "${file:files-token}"}, **act
    )
    governance.change_origin("wiki", connection="wiki", pin_defaults=False, **act)
    governance.change_source("wiki", enabled=True, trust="hold_changes", policy={"timeout_ms": 9000}, **act)
    governance.change_source("shop", enabled=True, policy={"rate_calls": 5, "rate_seconds": 60}, **act)
    wiki = Source.objects.get(name="wiki")
    record_tool(wiki, "find", enabled=True, readOnlyHint=True)
    governance.set_hints("wiki_find", read_only=True, open_world=False, **act)
    governance.create_toolset(
        "mine", description="Notes: no, 1e5, 0o17, ~", packs=["desk"], names=["echo", "wiki_find"],
        overrides={"echo": {"name": "say", "description": "Line one\nline two – „quoted“ # not a comment"}}, **act,
    )  # fmt: skip
    governance.create_toolset("everything", mode="search", calls_a_day=500, **act)
    governance.set_enabled(["calculate"], False, **act)
    governance.set_ask("add_note", True, **act)
    governance.set_policy("list_notes", {"retries": 2, "cache_seconds": 60}, **act)
    governance.add_tag("night", ["echo", "list_notes"], **act)
    governance.create_key("ci", scopes=["tools:list"], toolsets=["mine"], connections=["main"], may_write=False, **act)
    governance.create_key(
        "boss", scopes=["admin:*"], asks="destroys", rate=(100, 60), addresses=["10.0.0.0/8", "::1"], owner=root,
        budget=Budget(tokens_a_month=10**6), expires_at=datetime(2099, 1, 31, tzinfo=UTC), **act,
    )  # fmt: skip
    revoked, _ = governance.create_key("gone", **act)
    governance.revoke_key(revoked, **act)
    governance.create_alert_rule(
        "ops", url=SECRETS["TOOLHUB_SECRET_ALERT_OPS_URL"], secret=SECRETS["TOOLHUB_SECRET_ALERT_OPS_SECRET"],
        events=["errors.rate"], severity="warning", owner="olga", error_rate=20, template='{"text": "{text}"}', **act,
    )  # fmt: skip
    governance.create_alert_rule(
        "by mail", channel="mail", recipients=["ops@example.org"], tools=["echo"], enabled=False, **act
    )
    return notes


@pytest.fixture
def secrets_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)


def empty_hub() -> None:
    """Take away everything that was decided: what remains is a hub after its first start, with the same code."""
    Source.objects.update(connection=None)
    for model in (ManagedRecord, ApiKey, Toolset, AlertRule, Connection, Tag):
        model.objects.all().delete()
    outside = ToolRecord.everything.filter(source__kind__in=Source.OUTSIDE)
    outside.update(definition=None)
    Definition.objects.filter(tool__source__kind__in=Source.OUTSIDE).delete()
    outside.delete()
    Source.objects.filter(kind__in=Source.OUTSIDE).delete()
    Source.objects.update(enabled=True, trust="", **dict.fromkeys(POLICY))
    hints = {f"hint_{part}": None for part in ("read_only", "destructive", "idempotent", "open_world")}
    ToolRecord.everything.update(enabled=True, ask=False, **dict.fromkeys(POLICY), **hints)
    User.objects.all().delete()


def applied(content: bytes | str, name: str = "hub.yaml", **options: Any) -> configuration.Plan:
    """Plan a file and apply it."""
    wanted = configuration.read(content.encode() if isinstance(content, str) else content)
    how = configuration.Options(name, **options)
    plan = configuration.plan(wanted, how, actor=ACTOR)
    return configuration.apply(wanted, how, expected=plan, actor=ACTOR, reason="as the file says")


def planned(content: bytes | str, name: str = "hub.yaml", **options: Any) -> configuration.Plan:
    wanted = configuration.read(content.encode() if isinstance(content, str) else content)
    return configuration.plan(wanted, configuration.Options(name, **options), actor=ACTOR)


def written(directory: Path, content: str) -> Path:
    path = directory / "hub.yaml"
    path.write_text(content, encoding="utf-8")
    return path
