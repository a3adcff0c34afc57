"""Finds calls by one text: in names of tools and callers, in codes, in error texts, and by id. Newest first.

However long the journal is, a search reads a bounded number of rows. What it left out is part of its answer, so that a
page never says that something does not exist which was not looked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import connection
from django.db.models import Q, QuerySet

from tools_app.journal.argument_search import ArgumentSearch, Found
from tools_app.models import Call, ErrorLog

# Distinct names of each kind that are read from the journal, and those among them that may match.
MOST_NAMES: Final = 2_000
MOST_MATCHING: Final = 120
# The newest error texts that are read: one after the other, as no index finds a part of a text.
MOST_ERRORS: Final = 50_000
# An id, or as much of it as other pages show.
IDENTIFIER: Final = re.compile("[0-9a-f]{8,32}")
_WHOLE: Final = 32

_TABLE: Final = Call._meta.db_table
# The columns with an index of their own, a condition of that index, and what else names the value.
_COLUMNS: Final = {
    "tool_name": ("1 = 1", "''"),
    "caller_id": (
        "1 = 1",
        f"(SELECT caller_name FROM {_TABLE} WHERE caller_id = {{steps}}.value ORDER BY started_at DESC LIMIT 1)",  # noqa: S608
    ),
    "code": ("NOT (code = '')", "''"),
}
# In the place of a value, while SQL is made that is used for several.
_ANY: Final = "\x00any"


@dataclass(frozen=True, slots=True)
class CallSearch:
    """The ids of the calls that match, newest first, and what was not looked at."""

    ids: list[str]
    # Error texts of calls until then were not read. None: all were.
    errors_after: datetime | None = None
    # More tools, callers or codes exist, or match, than one search reads.
    names_left_out: bool = False
    # None: arguments were not searched.
    arguments: ArgumentSearch | None = None

    @property
    def is_partial(self) -> bool:
        return self.errors_after is not None or self.names_left_out


@dataclass(frozen=True, slots=True)
class _Names:
    column: str
    matching: list[str]
    left_out: bool


def find(term: str, calls: QuerySet[Call], most: int, arguments: ArgumentSearch | None = None) -> CallSearch:
    """The newest `most` of these calls whose tool, caller, code, error text or id contains the text.

    `arguments`: what was found in arguments, for users who may read these.
    """
    calls = calls.order_by()
    others = arguments.found if arguments else []
    if len(term) == _WHOLE and IDENTIFIER.fullmatch(term):
        of_error = ErrorLog.objects.filter(pk=term).values_list("call_id", flat=True)
        parts = [_sql(calls.filter(pk__in=[term, *of_error]))]
        return CallSearch(_merged(_newest(parts, most), others, most), arguments=arguments)
    names = _names(term)
    with_error = calls.exclude(error="")
    errors_after = _last_read(with_error)
    in_error = with_error.filter(error__icontains=term)
    if errors_after is not None:
        in_error = in_error.filter(started_at__gt=errors_after)
    parts = [part for one in names for part in _having(calls, one)]
    parts.append(_sql(in_error))
    if IDENTIFIER.fullmatch(term):
        # Up to the first character after all that ids consist of.
        parts.append(_sql(calls.filter(pk__gte=term, pk__lt=f"{term}g")))
    # A call can match by tool, caller, code, error and id.
    found = _newest(parts, most)
    if len(found) == most and len(dict(found)) < most:
        found = _newest(parts, most * (len(_COLUMNS) + 2))
    ids = _merged(found, others, most)
    return CallSearch(ids, errors_after, any(one.left_out for one in names), arguments)


def _merged(found: Found, others: Found, most: int) -> list[str]:
    """Each call once, newest first."""
    return [pk for pk, _ in sorted(dict(found + others).items(), key=lambda pair: (pair[1], pair[0]), reverse=True)][
        :most
    ]


def _newest(parts: Sequence[tuple[str, Sequence[Any]]], most: int) -> Found:
    """Each part is in the order of an index: databases merge them, and stop when they have enough."""
    order = "ORDER BY started_at DESC LIMIT %s"
    if connection.vendor == "sqlite":
        newest, limits = f"{' UNION ALL '.join(sql for sql, _ in parts)} {order}", []
    else:
        # PostgreSQL merges only parts that have an order themselves; SQLite knows no order of parts.
        merged = " UNION ALL ".join(f"({sql} {order})" for sql, _ in parts)
        newest, limits = f"SELECT * FROM ({merged}) AS parts {order}", [most]  # noqa: S608 – made by Django
    values = [value for _, values in parts for value in (*values, *limits)]
    with connection.cursor() as cursor:
        cursor.execute(newest, (*values, most))
        return [(str(pk), started_at) for pk, started_at in cursor.fetchall()]


def _names(term: str) -> list[_Names]:
    """The tools, callers and codes of the journal that contain the text."""
    folded, names = term.casefold(), []
    known: dict[str, list[tuple[str, str]]] = {column: [] for column in _COLUMNS}
    with connection.cursor() as cursor:
        cursor.execute(_DISTINCT, [MOST_NAMES + 1] * len(_COLUMNS))
        for column, value, name in cursor.fetchall():
            known[column].append((value, name))
    for column, pairs in known.items():
        matching = [pair[0] for pair in pairs[:MOST_NAMES] if any(folded in text.casefold() for text in pair)]
        left_out = len(pairs) > MOST_NAMES or len(matching) > MOST_MATCHING
        names.append(_Names(column, matching[:MOST_MATCHING], left_out))
    return names


def _having(calls: QuerySet[Call], names: _Names) -> Iterator[tuple[str, list[Any]]]:
    """The calls with one of these values, each value apart."""
    if not names.matching:
        return
    # Django would need a millisecond for each.
    condition = Q(**{names.column: _ANY})  # house: allow lookup – our own names
    sql, values = _sql(calls.exclude(code="").filter(condition) if names.column == "code" else calls.filter(condition))
    for name in names.matching:
        yield sql, [name if value == _ANY else value for value in values]


def _sql(calls: QuerySet[Call]) -> tuple[str, list[Any]]:
    sql, values = calls.order_by().values_list("id", "started_at").query.sql_with_params()
    return sql, list(values)


def _last_read(with_error: QuerySet[Call]) -> datetime | None:
    """When the last call began whose error text is not read any more."""
    times = with_error.order_by("-started_at").values_list("started_at", flat=True)
    return times[MOST_ERRORS : MOST_ERRORS + 1].first()


def _distinct(column: str, condition: str, name: str) -> tuple[str, str]:
    """SQL that lists the values of a column: one step along its index for each value, instead of one for each call."""
    steps = f"steps_of_{column}"
    first = f"SELECT min({column}) FROM {_TABLE} WHERE {condition}"  # noqa: S608 – our own names
    following = f"SELECT ({first} AND {column} > {steps}.value) FROM {steps} WHERE {steps}.value IS NOT NULL"  # noqa: S608
    values = f"{steps}(value) AS ({first} UNION ALL {following})"
    named = f"SELECT '{column}', value, {name.format(steps=steps)} FROM {steps} WHERE value IS NOT NULL LIMIT %s"  # noqa: S608
    return values, f"SELECT * FROM ({named}) AS named_{column}"  # noqa: S608


_STEPS: Final = [_distinct(column, *how) for column, how in _COLUMNS.items()]
_DISTINCT: Final = (
    f"WITH RECURSIVE {', '.join(values for values, _ in _STEPS)} {' UNION ALL '.join(named for _, named in _STEPS)}"
)
