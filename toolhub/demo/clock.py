"""Doing something some days ago."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Final

import time_machine
from django.db import connection
from django.db.models import Max, Model

from tools_app.models import ApiKey, AuditEntry, Connection, Definition, ToolRecord, Toolset

# The database has a clock of its own, which cannot be set back.
_STAMPED: Final[dict[type[Model], str]] = {
    AuditEntry: "at", ApiKey: "created_at", Connection: "created_at", Definition: "first_seen_at",
    ToolRecord: "registered_at", Toolset: "created_at",
}  # fmt: skip


@contextmanager
def days_ago(now: datetime, days: float) -> Iterator[datetime]:
    """What is done meanwhile was done so many days ago, as far as its records say."""
    moment = now - timedelta(days=days)
    there = connection.introspection.table_names()
    newest = {model: _newest(model) if model._meta.db_table in there else 0 for model in _STAMPED}
    with time_machine.travel(moment, tick=False):
        yield moment
    for model, column in _STAMPED.items():
        made: Any = model._default_manager.filter(pk__gt=newest[model])
        made.update(**{column: moment})


def _newest(model: type[Model]) -> int:
    return model._default_manager.aggregate(newest=Max("pk"))["newest"] or 0
