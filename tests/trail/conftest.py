"""An audit trail, and what someone with access to the database can do to it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from tools_app.journal import trail
from tools_app.models import AuditEntry
from tools_app.models.audit import note_all


def entries(count: int, actor: str = "user:alice", subject: str = "echo", at: datetime | None = None) -> list[int]:
    """New entries; returns their ids."""
    with transaction.atomic():
        note_all(
            [("tool.disable", subject, {"enabled": [True, False], "number": n}) for n in range(count)], actor=actor
        )
    ids = sorted(AuditEntry.objects.order_by("-pk").values_list("pk", flat=True)[:count])
    if at is not None:
        AuditEntry.objects.filter(pk__in=ids).update(at=at)
    return ids


def sealed(count: int, **about: Any) -> list[int]:
    ids = entries(count, **about)
    trail.seal()
    return ids


def sql(statement: str, *values: Any, **names: str) -> int:
    """What an attacker does: past the hub."""
    tables = {name: f"tools_app_audit{name}" for name in ("entry", "seal", "checkpoint", "key")}
    with connection.cursor() as cursor:
        cursor.execute(statement.format(**tables, **names), values)
        return int(cursor.rowcount)


def fault() -> str:
    """What a verification finds first; empty: nothing."""
    report = trail.verify()
    assert bool(report.faults) == (report.first is not None)
    return str(report.first or "")


def now() -> datetime:
    return timezone.now()
