"""Where the next page of a list begins, newest first: after a row, never at a number of rows."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet


def after(rows: QuerySet[Any], key: Any, column: str | None = None, moment: datetime | None = None) -> QuerySet[Any]:
    """The rows behind the one with this key, ordered by `-column` and then `-pk`, or by `-pk` alone.

    What is new since then stands before it: no page shows a row again. The times in `column` must be written by
    Python: SQLite's own clock writes moments that are not found again.
    """
    if column is None or moment is None:
        return rows.filter(pk__lt=key)
    # Not `earlier, or as early and …`: for that a database would not use its index.
    return rows.filter(Q((f"{column}__lte", moment))).exclude(Q((column, moment), ("pk__gte", key)))
