"""A hub with its shipped tools, and people who may do more or less in its admin."""

from __future__ import annotations

import json
import secrets
import zlib
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils import timezone

from tools_app.base.secrets import encrypted
from tools_app.catalog import catalog
from tools_app.engine.approvals import digest_of
from tools_app.journal import rows
from tools_app.models import Agent, Approval, BrowserSession, Call, ErrorGroup, ErrorLog, Process, StandingApproval
from tools_app.models.approvals import sealed
from tools_app.sources import sync

VIEWS = (
    "view_approval",
    "view_definition",
    "view_standingapproval",
    "view_stop",
    "view_toolrecord",
    "view_call",
    "view_callhour",
    "view_errorgroup",
    "view_errorlog",
    "view_apikey",
    "view_auditentry",
    "view_process",
    "view_agent",
    "view_source",
)


@pytest.fixture
def tools(db: None) -> None:
    """The shipped tools, on record."""
    sync.sync()


@pytest.fixture
def chief(db: None) -> Client:
    """The browser of somebody who may do everything."""
    return browser("chief", is_superuser=True)


@pytest.fixture
def operator(db: None) -> Client:
    """The browser of somebody who sees everything, may switch tools and call errors resolved."""
    changes = (
        "change_toolrecord",
        "change_errorgroup",
        "change_approval",
        "change_definition",
        "change_stop",
        "change_source",
    )
    return browser("operator", *VIEWS, *changes)


@pytest.fixture
def viewer(db: None) -> Client:
    """The browser of somebody who sees everything and may change nothing."""
    return browser("viewer", *VIEWS)


def browser(name: str, *permissions: str, **attributes: Any) -> Client:
    user = User.objects.create_user(name, is_staff=True, **attributes)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(user)
    return client


def call(tool: str = "echo", started_at: datetime | None = None, **given: Any) -> Call:
    """A call in the journal, counted in its hour."""
    moment = started_at or timezone.now()
    values = {
        "id": secrets.token_hex(16),
        "tool_name": tool,
        "door": "mcp",
        "caller_kind": "key",
        "caller_id": "key:1",
        "caller_name": "agent",
        "status": "succeeded",
        "started_at": moment,
        "finished_at": moment,
        "duration_ms": 3,
    }
    made = Call.objects.create(**values | given)
    if made.status != Call.Status.STARTED:
        count(made)
    return made


def count(made: Call) -> None:
    """Add a call to the figures, as the journal would."""
    rows.insert_counts([(made, made.count)])
    rows.fold()


def failed_call(tool: str = "echo", started_at: datetime | None = None, **given: Any) -> tuple[Call, ErrorLog]:
    """A call that failed, with its entry in the error log."""
    moment = started_at or timezone.now()
    code, message = given.pop("code", "API_ERROR"), given.pop("message", "The tracker said no")
    detail, group = given.pop("detail", "Traceback: no route to host"), given.pop("group", None)
    failed = call(tool, moment, status="failed", code=code, error=message, error_id=secrets.token_hex(16), **given)
    error = ErrorLog.objects.create(
        id=failed.error_id,
        group=group,
        call_id=failed.id,
        tool_name=tool,
        door="mcp",
        caller_name=failed.caller_name,
        code=code,
        message=message,
        detail=detail,
        created_at=moment,
    )
    return failed, error


def error_group(tool: str = "echo", last_seen_at: datetime | None = None, **given: Any) -> ErrorGroup:
    """A kind of failure."""
    moment = last_seen_at or timezone.now()
    values = {
        "fingerprint": secrets.token_hex(16),
        "tool_name": tool,
        "code": "API_ERROR",
        "place": "ConnectError in tracker.py send",
        "message": "The tracker said no",
        "count": 1,
        "first_seen_at": moment,
        "last_seen_at": moment,
        "last_call_id": secrets.token_hex(16),
    }
    return ErrorGroup.objects.create(**values | given)


def approval(tool: str = "echo", **given: Any) -> Approval:
    """A call that waits for an operator."""
    now = timezone.now()
    values = {
        "id": secrets.token_hex(16),
        "tool_name": tool,
        "definition_hash": "d" * 64,
        "request_hash": "r" * 64,
        "arguments": encrypted(zlib.compress(json.dumps(given.pop("gives", {"message": "hi"})).encode())),
        "door": "mcp",
        "caller_kind": "key",
        "caller_id": "key:1",
        "caller_name": "agent",
        "asked_at": now,
        "expires_at": now + timedelta(minutes=15),
    }
    return Approval.objects.create(**values | given)


def current_approval(tool: str = "echo", **given: Any) -> Approval:
    """The same of the tool as it is now, so that calls like it can be approved in advance."""
    entry = catalog.current().find(tool)
    assert entry is not None
    made = approval(tool, definition_hash=entry.definition_hash, **given)
    made.request_hash = digest_of(made, made.call_arguments(), entry.identity)
    made.save()
    return made


def browser_session(user: User, **values: Any) -> BrowserSession:
    """Recorded as if a browser had used it just now."""
    now = timezone.now()
    fields = {"session_key": secrets.token_hex(16), "caller_id": f"user:{user.pk}", "started_at": now, "seen_at": now}
    return BrowserSession.objects.create(user=user, **fields | values)


def standing_approval(tool: str = "echo", schema: dict[str, Any] | None = None, **given: Any) -> StandingApproval:
    now = timezone.now()
    schema = schema or {"type": "object", "properties": {"message": {"const": "hi"}}}
    values = {
        "id": secrets.token_hex(16),
        "tool_name": tool,
        "definition_hash": "d" * 64,
        "caller_kind": "key",
        "caller_id": "key:1",
        "caller_name": "agent",
        "constraint": sealed(json.dumps(schema).encode()),
        "uses": 3,
        "created_at": now,
        "created_by": "user:operator",
        "expires_at": now + timedelta(hours=1),
    }
    return StandingApproval.objects.create(**values | given)


def process(**given: Any) -> Process:
    """A process that is alive."""
    now = timezone.now()
    values = {
        "id": secrets.token_hex(16),
        "kind": "serve",
        "host": "hub-1",
        "pid": 4321,
        "started_at": now - timedelta(hours=2),
        "lease_until": now + timedelta(minutes=5),
    }
    return Process.objects.create(**values | given)


def agent(at: Process | None = None, **given: Any) -> Agent:
    """A client of MCP that is connected."""
    now = timezone.now()
    values = {
        "id": secrets.token_hex(16),
        "process": at or process(),
        "door": "stdio",
        "era": "handshake",
        "protocol": "2025-11-25",
        "client": "claude-code",
        "version": "2.0",
        "caller_kind": "key",
        "caller_id": "key:1",
        "caller_name": "agent",
        "since": now,
        "seen_at": now,
    }
    return Agent.objects.create(**values | given)


def days_ago(days: float) -> datetime:
    return timezone.now() - timedelta(days=days)
