"""Finds calls by a part of their arguments, newest first: through the index, or directly among the newest.

Only for who may read payloads: nothing here may run for other users, as its result, and the time that it takes, tell
what is in the arguments.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Final

from django.core.exceptions import EmptyResultSet
from django.db import OperationalError, connection, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from tools_app.journal import texts
from tools_app.journal.texts import Reach
from tools_app.models import Call, text_index
from tools_app.models.text_index import INDEX, TEXTS

# A trigram has as many characters: shorter texts are not in the index.
SHORTEST: Final = 3
DIRECT: Final = timedelta(hours=24)
# Calls whose arguments are read without an index, and as many of them in one query.
MOST_DIRECT: Final = 20_000
DIRECT_AT_ONCE: Final = 1_000
# Calls that the index yields, beyond those that are wanted: other filters may leave few of them.
MOST_CANDIDATES: Final = 20_000
# Of these, as many in the first query, and twice as many in each that follows.
AT_ONCE: Final = 2_500
MOST_AT_ONCE: Final = 20_000
# Of a long text, these are enough to find few calls; then the whole text is compared.
MOST_TRIGRAMS: Final = 60
# Seconds: PostgreSQL chooses by estimates whether to use the index, and stored arguments can be long.
PATIENCE: Final = 2.0
# Of SQLite, between two looks at the clock: some hundred rows.
_STEPS: Final = 1_000
_WORD: Final = re.compile(r"[^\W_]{3,}")
_LAST: Final = 2**63 - 1

# Ids of calls with the times at which they began, as the database returns these.
Found = list[tuple[str, Any]]


class Reason(Enum):
    """Why arguments of older calls were not searched."""

    SHORT = "short"
    # The index is missing, or does not find these characters.
    NO_INDEX = "no index"
    MANY = "many"
    SLOW = "slow"


@dataclass(frozen=True, slots=True)
class ArgumentSearch:
    """What was searched, and what was not."""

    found: Found
    # Arguments of calls that began until then were not searched. None: all in the index were.
    unread_until: datetime | None = None
    reason: Reason | None = None
    # Without an index, arguments are read where they are.
    reach: Reach | None = None

    @property
    def why(self) -> str:
        return self.reason.name if self.reason else ""


def find(term: str, calls: QuerySet[Call], most: int, since: datetime | None, until: datetime | None) -> ArgumentSearch:
    """The newest `most` of these calls whose arguments contain the text.

    `since` and `until`: the range that the calls are filtered by, so that others do not have to be read.
    """
    variants = list(dict.fromkeys((term, json.dumps(term, ensure_ascii=False)[1:-1])))
    contains = Q()
    for variant in variants:
        contains |= Q(arguments__icontains=variant)
    end = time.monotonic() + PATIENCE
    if len(term) < SHORTEST:
        return _directly(calls, contains, most, since, Reason.SHORT, end)
    if not all(_is_indexed(variant) for variant in variants):
        return _directly(calls, contains, most, since, Reason.NO_INDEX, end)
    return _by_index(variants, calls.filter(contains), most, since, until, end)


def _directly(
    calls: QuerySet[Call], contains: Q, most: int, since: datetime | None, reason: Reason, end: float
) -> ArgumentSearch:
    now = timezone.now()
    begin, unread_until = now - DIRECT, now
    unread = calls.filter(started_at__gte=begin).order_by("-started_at")
    found: Found = []
    try:
        for _ in range(MOST_DIRECT // DIRECT_AT_ONCE):
            times = unread.values_list("started_at", flat=True)
            with _limited(end):
                last = times[DIRECT_AT_ONCE : DIRECT_AT_ONCE + 1].first()
            part = unread.filter(started_at__gt=last) if last else unread
            with _limited(end):
                found += rows(part.exclude(arguments="").filter(contains)[: most - len(found)])
            unread_until = last or begin
            if last is None or len(found) == most:
                break
            unread = calls.filter(started_at__gte=begin, started_at__lte=last).order_by("-started_at")
    except OperationalError:
        reason = Reason.SLOW
    if since is not None and since >= unread_until:
        return ArgumentSearch(found)
    return ArgumentSearch(found, unread_until, reason)


def _by_index(
    variants: list[str], calls: QuerySet[Call], most: int, since: datetime | None, until: datetime | None, end: float
) -> ArgumentSearch:
    # Before the search: what is indexed meanwhile may be missing.
    reach = texts.reach(timezone.now())
    before = texts.place(until + timedelta(milliseconds=1)) if until else _LAST
    begin = texts.place(since) if since else 0
    found: Found = []
    number, size, reason = 0, AT_ONCE, None
    while len(found) < most:
        try:
            with _limited(end):
                candidates = _candidates(variants, begin, before, size)
            with _limited(end):
                found += rows(calls.filter(pk__in=[call_id for _, call_id in candidates]).order_by("-started_at"))
        except OperationalError:
            reason = Reason.SLOW
            break
        number += len(candidates)
        if len(candidates) < size:
            return ArgumentSearch(found[:most], reach=reach)
        before = candidates[-1][0]
        if number >= MOST_CANDIDATES + most:
            reason = Reason.MANY
            break
        size = min(2 * size, MOST_AT_ONCE, MOST_CANDIDATES + most - number)
    unread_until = (texts.moment(before) if before < _LAST else timezone.now()) if reason else None
    return ArgumentSearch(found[:most], unread_until, reason, reach)


def rows(calls: QuerySet[Call]) -> Found:
    try:
        sql, values = calls.values_list("id", "started_at").query.sql_with_params()
    except EmptyResultSet:
        return []
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return [(str(pk), started_at) for pk, started_at in cursor.fetchall()]


def _is_indexed(term: str) -> bool:
    if not text_index.exists(connection):
        return False
    if connection.vendor == "sqlite":
        return True
    # Only of letters and digits, of which the locale of the database decides.
    schema = connection.ops.quote_name(text_index.schema(connection))
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT cardinality({schema}.show_trgm(%s))", [" ".join(_WORD.findall(term))])
        return bool(cursor.fetchone()[0])


def _candidates(variants: list[str], begin: int, before: int, most: int) -> list[tuple[int, str]]:
    """The newest texts that can contain one of these, as the index knows them: ids of texts and calls."""
    bounds = [begin, before, most]
    if connection.vendor == "sqlite":
        sql = (
            f"SELECT text.id, text.call_id FROM (SELECT rowid FROM {INDEX} WHERE {INDEX} MATCH %s AND rowid >= %s "  # noqa: S608
            f"AND rowid < %s ORDER BY rowid DESC LIMIT %s) AS newest "
            f"JOIN {TEXTS} AS text ON text.id = newest.rowid ORDER BY text.id DESC"
        )
        values: list[Any] = [" OR ".join(f"({_trigrams(variant)})" for variant in variants), *bounds]
    else:
        conditions = " OR ".join(["text ILIKE %s"] * len(variants))
        sql = (
            f"SELECT id, call_id FROM {TEXTS} WHERE ({conditions}) AND id >= %s AND id < %s "  # noqa: S608
            "ORDER BY id DESC LIMIT %s"
        )
        values = [*(f"%{connection.ops.prep_for_like_query(variant)}%" for variant in variants), *bounds]
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return [(int(pk), str(call_id)) for pk, call_id in cursor.fetchall()]


def _trigrams(term: str) -> str:
    """A query of FTS5: all of these trigrams."""
    trigrams = dict.fromkeys(term[at : at + SHORTEST] for at in range(len(term) - SHORTEST + 1))
    return " AND ".join('"{}"'.format(one.replace('"', '""')) for one in list(trigrams)[:MOST_TRIGRAMS])


@contextmanager
def _limited(end: float) -> Iterator[None]:
    """The statement within ends at this time at the latest, then with an OperationalError."""
    if connection.vendor == "sqlite":
        connection.ensure_connection()
        connection.connection.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
        try:
            yield
        finally:
            connection.connection.set_progress_handler(None, 0)
        return
    with transaction.atomic():
        with connection.cursor() as cursor:
            # 0 would be without limit.
            cursor.execute(f"SET LOCAL statement_timeout = {max(1, round((end - time.monotonic()) * 1000))}")
        yield
        with connection.cursor() as cursor:
            # In the transaction of a test, or of a request, it would last.
            cursor.execute("SET LOCAL statement_timeout = DEFAULT")
