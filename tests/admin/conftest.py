"""A hub with its shipped tools, and people who may do more or less in its admin."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db.models import F
from django.test import Client
from django.utils import timezone

from tools_app import sources, sync
from tools_app.models import Call, CallHour, ErrorGroup, ErrorLog, Process
from tools_app.models.figures import DURATIONS

VIEWS = (
    "view_toolrecord",
    "view_call",
    "view_errorgroup",
    "view_errorlog",
    "view_apikey",
    "view_auditentry",
    "view_process",
)


@pytest.fixture
def tools(db: None) -> None:
    """The shipped tools, on record."""
    sync.sync(sources.registry())


@pytest.fixture
def chief(db: None) -> Client:
    """The browser of somebody who may do everything."""
    return browser("chief", is_superuser=True)


@pytest.fixture
def operator(db: None) -> Client:
    """The browser of somebody who sees everything, may switch tools and call errors resolved."""
    return browser("operator", *VIEWS, "change_toolrecord", "change_errorgroup")


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
    """Add a call to its hour."""
    hour, _ = CallHour.objects.get_or_create(
        hour=(made.finished_at or made.started_at).astimezone(UTC).replace(minute=0, second=0, microsecond=0),
        tool_name=made.tool_name,
        caller_id=made.caller_id,
        status=made.status,
        code=made.code,
        defaults={"caller_name": made.caller_name},
    )
    took = made.duration_ms or 0
    column = next((f"within_{bound}" for bound in DURATIONS if took <= bound), "slower")
    rows = CallHour.objects.filter(pk=hour.pk)
    rows.update(**{"calls": F("calls") + made.count, column: F(column) + made.count})


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


def days_ago(days: float) -> datetime:
    return timezone.now() - timedelta(days=days)
