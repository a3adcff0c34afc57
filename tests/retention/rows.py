"""Rows of the journal, as old as a test wants them."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from typing import Any

from django.contrib.auth import get_user_model
from django.db import connection

from tools_app.models import (
    Alert,
    Approval,
    BrowserSession,
    Call,
    CallHour,
    Definition,
    ErrorGroup,
    ErrorLog,
    IdempotencyKey,
    PasswordLink,
    StandingApproval,
    StoredAnswer,
    ToolRecord,
)
from tools_app.models.figures import EVERY

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)

_numbers = itertools.count(1)


def call(at: datetime = NOW, **changes: Any) -> Call:
    values: dict[str, Any] = {
        "tool_name": "echo",
        "door": "rest",
        "caller_kind": "key",
        "caller_id": "key:1",
        "caller_name": "alice",
        "status": Call.Status.SUCCEEDED,
        "arguments": '{"message": "hi"}',
        "result": '{"message": "hi"}',
        "result_hash": "a" * 64,
        "result_bytes": 17,
    }
    return Call.objects.create(id=f"{next(_numbers):032x}", started_at=at, **values | changes)


def alert(at: datetime = NOW, **changes: Any) -> Alert:
    number = f"{next(_numbers):032x}"
    values: dict[str, Any] = {
        "event": "approval.requested",
        "cause": number,
        "severity": "warning",
        "caller_id": "key:1",
        "caller_name": "alice",
    }
    return Alert.objects.create(id=number, at=at, **values | changes)


def error(at: datetime = NOW, **changes: Any) -> ErrorLog:
    values: dict[str, Any] = {
        "tool_name": "echo",
        "door": "rest",
        "caller_name": "alice",
        "code": "INTERNAL_ERROR",
        "message": "alice did it",
        "detail": "Traceback: alice",
    }
    return ErrorLog.objects.create(id=f"{next(_numbers):032x}", created_at=at, **values | changes)


def group(at: datetime = NOW, **changes: Any) -> ErrorGroup:
    values: dict[str, Any] = {"code": "INTERNAL_ERROR", "message": "alice did it", "first_seen_at": at}
    return ErrorGroup.objects.create(fingerprint=f"{next(_numbers):032x}", last_seen_at=at, **values | changes)


def hour(at: datetime = NOW, **changes: Any) -> CallHour:
    values: dict[str, Any] = {
        "tool_name": "echo",
        "caller_id": "key:1",
        "caller_name": "alice",
        "status": Call.Status.SUCCEEDED,
        "calls": 1,
    }
    return CallHour.objects.create(hour=at, **values | changes)


def day_of_calls(at: datetime = NOW) -> CallHour:
    return hour(at, span=CallHour.Span.DAY, caller_id=EVERY)


def idempotency_key(at: datetime = NOW, **changes: Any) -> IdempotencyKey:
    values: dict[str, Any] = {"caller_id": "key:1", "request_hash": "b" * 64, "call_id": "c" * 32}
    return IdempotencyKey.objects.create(key_hash=f"{next(_numbers):064x}", created_at=at, **values | changes)


def stored_answer(at: datetime = NOW, **changes: Any) -> StoredAnswer:
    """One that is kept until then."""
    values: dict[str, Any] = {"caller_id": "key:1", "tool_name": "echo", "digest": "d" * 64, "is_text": False}
    values["content"] = b"hidden"
    return StoredAnswer.objects.create(
        id=f"{next(_numbers):032x}", size=6, created_at=at, expires_at=at, **values | changes
    )


def approval(at: datetime = NOW, **changes: Any) -> Approval:
    """One that held until then."""
    values: dict[str, Any] = {"caller_kind": "key", "caller_id": "key:1", "caller_name": "alice", "tool_name": "echo"}
    values["arguments"] = b"hidden"
    return Approval.objects.create(
        id=f"{next(_numbers):032x}", door="rest", asked_at=at, expires_at=at, **values | changes
    )


def standing_approval(at: datetime = NOW, **changes: Any) -> StandingApproval:
    """One that was valid until then."""
    values: dict[str, Any] = {"caller_kind": "key", "caller_id": "key:1", "caller_name": "alice", "tool_name": "echo"}
    values |= {"constraint": b"hidden", "uses": 3, "created_by": "user:olivia"}
    return StandingApproval.objects.create(
        id=f"{next(_numbers):032x}", created_at=at, expires_at=at, **values | changes
    )


def browser_session(at: datetime = NOW, **changes: Any) -> BrowserSession:
    """One that was last used then."""
    user = get_user_model()._default_manager.create(username=f"user {next(_numbers)}")
    values: dict[str, Any] = {"caller_id": "user:1", "session_key": f"{next(_numbers):032x}", "user_id": user.pk}
    return BrowserSession.objects.create(started_at=at, seen_at=at, **values | changes)


def password_link(at: datetime = NOW) -> PasswordLink:
    """One that was valid until then."""
    user = get_user_model()._default_manager.create(username=f"user {next(_numbers)}")
    return PasswordLink.objects.create(user_id=user.pk, hash=f"{next(_numbers):064x}", expires_at=at)


def definition(at: datetime = NOW, **changes: Any) -> Definition:
    """A version that its tool no longer has."""
    number = next(_numbers)
    tool = ToolRecord.objects.create(name=f"tool_{number}", source_kind="code")
    values: dict[str, Any] = {"hash": f"{number:064x}", "version": "1.0.0", "body": {}, "approved_at": at}
    return Definition.objects.create(tool=tool, first_seen_at=at, **values | changes)


def many_calls(number: int, at: datetime, **changes: Any) -> None:
    """Insert calls of one kind in bulk; the database generates them."""
    template = call(at, **changes)
    columns = ", ".join(field.attname for field in Call._meta.concrete_fields[1:])
    with connection.cursor() as cursor:
        cursor.execute(
            f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %s) "  # noqa: S608 – our own
            f"INSERT INTO tools_app_call (id, {columns}) "
            f"SELECT 'many ' || CAST(i AS varchar(20)), {columns} FROM tools_app_call, n WHERE id = %s",
            [number - 1, template.pk],
        )
