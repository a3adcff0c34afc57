"""Version counters that increase with every change that callers can see.

`tools` counts what agents see, `access` who may use it: a new key rebuilds no catalog. `value` counts both.

Database triggers (`triggers`) increment them, so that `queryset.update()`, other programs and raw SQL count, too.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper


class Revision(models.Model):
    """A single row. It starts at the current time, so that an emptied table never repeats a number."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    value = models.BigIntegerField(help_text="All changes.")
    tools = models.BigIntegerField(default=0, db_default=0, help_text="Changes of tools, sources and connections.")
    access = models.BigIntegerField(default=0, db_default=0, help_text="Changes of keys, toolsets and stops.")

    def __str__(self) -> str:
        return str(self.value)


class Numbers(NamedTuple):
    """The counters at one moment."""

    value: int
    tools: int
    access: int


def numbers(connection: BaseDatabaseWrapper) -> Numbers:
    """The current counters; zeros if there are none yet."""
    with connection.cursor() as cursor:
        cursor.execute(QUERY)
        row: Any = cursor.fetchone()
    return Numbers(*map(int, row)) if row else Numbers(0, 0, 0)


QUERY: Final = "SELECT value, tools, access FROM tools_app_revision WHERE id = 1"
