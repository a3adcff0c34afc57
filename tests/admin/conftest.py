"""A hub with its shipped tools, and people who may do more or less in its admin."""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils import timezone

from tools_app import sources, sync
from tools_app.models import Call, ErrorLog

VIEWS = ("view_toolrecord", "view_call", "view_errorlog", "view_apikey", "view_auditentry")


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
    """The browser of somebody who sees everything and may switch tools."""
    return browser("operator", *VIEWS, "change_toolrecord")


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
    """A call in the journal."""
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
    return Call.objects.create(**values | given)


def failed_call(tool: str = "echo", started_at: datetime | None = None, **given: Any) -> tuple[Call, ErrorLog]:
    """A call that failed, with its entry in the error log."""
    moment = started_at or timezone.now()
    code, message = given.pop("code", "API_ERROR"), given.pop("message", "The tracker said no")
    detail = given.pop("detail", "Traceback: no route to host")
    failed = call(tool, moment, status="failed", code=code, error=message, error_id=secrets.token_hex(16), **given)
    error = ErrorLog.objects.create(
        id=failed.error_id,
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


def days_ago(days: float) -> datetime:
    return timezone.now() - timedelta(days=days)
