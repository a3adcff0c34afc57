"""Keyset pagination, newest first: a page begins after a row, not at an offset."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet


def after(rows: QuerySet[Any], key: Any, column: str | None = None, moment: datetime | None = None) -> QuerySet[Any]:
    """The rows after the one with this key, ordered by `-column` and then `-pk`, or by `-pk` alone.

    Newer rows come before it, so no page repeats a row. The timestamps in `column` must be written by Python: those of
    SQLite's own clock cannot be compared exactly.
    """
    if column is None or moment is None:
        return rows.filter(pk__lt=key)
    # Not `earlier OR (equal AND …)`: databases would not use the index for that.
    return rows.filter(Q((f"{column}__lte", moment))).exclude(Q((column, moment), ("pk__gte", key)))
