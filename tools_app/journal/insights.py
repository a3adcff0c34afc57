"""Figures about calls, read from the journal's aggregates, never from the calls themselves.

Queries take about the same time however long the journal is, and figures outlive the calls. This module is read-only.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from itertools import pairwise
from operator import add, or_
from typing import Any, Final

from django.db.models import Case, F, OuterRef, Q, QuerySet, Subquery, Sum, Value, When
from django.db.models.functions import Coalesce
from django.db.models.lookups import GreaterThanOrEqual
from django.utils import timezone

from tools_app.models import Call, CallHour, CallSum, ErrorGroup
from tools_app.models.figures import DAY, DURATIONS, EVERY_TOOL, HOUR, MOMENT, beginning

# Refusals are correct behaviour, not errors.
ERRORS: Final = (Call.Status.FAILED, Call.Status.TIMEOUT, Call.Status.INTERRUPTED)
# Only these have a meaningful duration: refusals take no time, and interrupted calls would have taken longer.
_TIMED: Final = (Call.Status.SUCCEEDED, Call.Status.FAILED, Call.Status.TIMEOUT)
_COUNTS: Final = (*(f"within_{bound}" for bound in DURATIONS), "slower")
_SUMS: Final = tuple(map(Sum, ("calls", *_COUNTS)))
_NONE: Final = (0,) * len(_COUNTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Aggregated calls."""

    calls: int = 0
    succeeded: int = 0
    errors: int = 0
    refused: int = 0
    durations: tuple[int, ...] = _NONE
    """Histogram of durations: one number per bound in `DURATIONS`, and the last for longer calls."""

    @property
    def others(self) -> int:
        """Calls that were cancelled, or ended with a question."""
        return self.calls - self.succeeded - self.errors - self.refused

    @property
    def error_rate(self) -> float:
        """Errors as a share of the calls that were not refused."""
        return self.errors / (self.calls - self.refused) if self.calls > self.refused else 0.0


@dataclass(frozen=True, slots=True)
class Bucket(Figures):
    """The calls that ended within one interval."""

    start: datetime
    length: timedelta = HOUR

    @property
    def end(self) -> datetime:
        return self.start + self.length


@dataclass(frozen=True, slots=True)
class Period:
    """A reporting period, cut into consecutive parts."""

    key: str
    cuts: tuple[datetime, ...]

    @property
    def since(self) -> datetime:
        return self.cuts[0]

    @property
    def until(self) -> datetime:
        return self.cuts[-1]


PERIODS: Final = ("1h", "24h", "7d", "30d")


def period(key: str, now: datetime) -> Period:
    """One of `PERIODS`, up to and including the current part: moments, hours, quarter days or days.

    Days begin at midnight in the hub's time zone, as precisely as hourly figures allow.
    """
    if key in ("1h", "24h"):
        length, number = (MOMENT, 12) if key == "1h" else (HOUR, 24)
        until = beginning(now, length) + length
        return Period(key, tuple(until - length * part for part in range(number, -1, -1)))
    days, parts = (7, 4) if key == "7d" else (30, 1)
    today = timezone.localtime(now).replace(hour=0, minute=0, second=0, microsecond=0)
    # Wall time: a day with a clock change has 23 or 25 hours.
    cuts = [today + DAY * (number / parts + 1 - days) for number in range(days * parts + 1)]
    return Period(key, tuple(beginning(cut.astimezone(UTC), HOUR) for cut in cuts))


def last_day(now: datetime) -> tuple[datetime, datetime]:
    """Start and end of the last 24 hours: the current hour, and the 23 before it."""
    day = period("24h", now)
    return day.since, day.until


def over(window: Period, *, tool: str | None = None) -> list[Bucket]:
    """The calls of each part of a period. A constant number of queries."""
    if window.key == "1h":
        moments = _moments(window)
        return _buckets(window.cuts, _sums(moments if tool is None else moments.filter(tool_name=tool), "start"))
    if tool is not None:
        return between(window.cuts, tool=tool)
    summed = _summed_days(window)
    hour_sums = CallSum.objects.filter(span=CallSum.Span.HOUR, tool_name=EVERY_TOOL)
    rows = _sums(hour_sums.filter(start__gte=window.since, start__lt=window.until), "start")
    return _buckets(window.cuts, [*rows, *_sums(CallHour.objects.filter(_remaining_hours(window, summed)), "hour")])


def between(cuts: Sequence[datetime], *, tool: str | None = None, caller: str | None = None) -> list[Bucket]:
    """The calls in each interval, oldest first, by whole hours, including empty ones. One query."""
    begin = beginning(cuts[0], HOUR)
    rows = CallHour.objects.filter(hour__gte=begin, hour__lt=cuts[-1])
    if tool is not None:
        rows = rows.filter(tool_name=tool)
    if caller is not None:
        rows = rows.filter(caller_id=caller)
    return _buckets([begin, *cuts[1:]], _sums(rows, "hour"))


def by_hour(since: datetime, until: datetime, *, tool: str | None = None, caller: str | None = None) -> list[Bucket]:
    """Every hour from `since` up to `until` (exclusive), oldest first, including empty ones. One query."""
    begin = beginning(since, HOUR)
    hours = math.ceil((until - begin) / HOUR)
    return between([begin + HOUR * number for number in range(hours + 1)], tool=tool, caller=caller)


def by_tool(since: datetime, until: datetime, tools: Sequence[str]) -> dict[str, Figures]:
    """The outcomes of the calls of these tools, by whole hours; tools without calls are omitted. One query."""
    rows = CallHour.objects.filter(hour__gte=beginning(since, HOUR), hour__lt=until, tool_name__in=tools)
    return _by_name(_sums(rows, "tool_name"))


def tools(window: Period) -> dict[str, Figures]:
    """The outcomes of the calls of every tool that was called. A constant number of queries."""
    if window.key == "1h":
        rows = _sums(_moments(window), "tool_name")
    else:
        summed = {day for day in _summed_days(window) if window.since <= day and day + DAY <= window.until}
        rows = _sums(CallSum.objects.filter(span=CallSum.Span.DAY, start__in=summed), "tool_name")
        rows += _sums(CallHour.objects.filter(_remaining_hours(window, summed)), "tool_name")
    # The empty name is for calls of unknown tools.
    return _by_name(row for row in rows if row[0])


def together(figures: Iterable[Figures]) -> Figures:
    """The sum of all figures."""
    items = list(figures)
    return Figures(
        calls=sum(item.calls for item in items),
        succeeded=sum(item.succeeded for item in items),
        errors=sum(item.errors for item in items),
        refused=sum(item.refused for item in items),
        durations=tuple(map(sum, zip(*(item.durations for item in items), strict=True))) or _NONE,
    )


def percentile(figures: Iterable[Figures], share: float) -> float | None:
    """The duration in ms within which that share of the calls ended: an upper bound.

    None without timed calls; infinite if it exceeds the largest bound.
    """
    counts = together(figures).durations
    rank = math.ceil(share * sum(counts))
    if not rank:
        return None
    total = 0
    for bound, count in zip(DURATIONS, counts, strict=False):
        total += count
        if total >= rank:
            return bound
    return math.inf


def calls_of(tool: OuterRef, since: datetime, statuses: Sequence[str] = Call.Status.values) -> Coalesce:
    """An annotation for a query of tools: the number of calls with these statuses since then."""
    rows = CallHour.objects.filter(tool_name=tool, hour__gte=since, status__in=statuses)
    return Coalesce(Subquery(rows.order_by().values("tool_name").annotate(number=Sum("calls")).values("number")), 0)


def percentile_of(tool: OuterRef, since: datetime, percent: int) -> Subquery:
    """An annotation for a query of tools: their `percentile`, for sorting. Infinity is a number above all bounds.

    Tools without timed calls have none.
    """
    rows = CallHour.objects.filter(tool_name=tool, hour__gte=since, status__in=_TIMED).order_by().values("tool_name")
    timed = Sum(reduce(add, map(F, _COUNTS)))
    bounds = (
        When(GreaterThanOrEqual(Sum(reduce(add, map(F, _COUNTS[:number]))) * 100, timed * percent), then=Value(bound))
        for number, bound in enumerate(DURATIONS, start=1)
    )
    duration = Case(*bounds, default=Value(DURATIONS[-1] + 1))
    return Subquery(rows.annotate(timed=timed).filter(timed__gt=0).annotate(at=duration).values("at"))


def open_error_groups() -> int:
    return ErrorGroup.objects.filter(resolved_at=None).count()


def _moments(window: Period) -> QuerySet[CallSum]:
    return CallSum.objects.filter(span=CallSum.Span.MOMENT, start__gte=window.since, start__lt=window.until)


def _summed_days(window: Period) -> set[datetime]:
    """The days of a period that have been aggregated."""
    days = CallSum.objects.filter(span=CallSum.Span.DAY, start__lt=window.until)
    return set(days.filter(start__gt=window.since - DAY).order_by().values_list("start", flat=True).distinct())


def _remaining_hours(window: Period, summed: set[datetime]) -> Q:
    """The hours of a period outside those days. If there are none, the database is not even queried."""
    spans: list[tuple[datetime, datetime]] = []
    day = beginning(window.since, DAY)
    while day < window.until:
        if day not in summed:
            begin, end = max(day, window.since), min(day + DAY, window.until)
            if spans and spans[-1][1] == begin:
                begin, _ = spans.pop()
            spans.append((begin, end))
        day += DAY
    return reduce(or_, (Q(hour__gte=begin, hour__lt=end) for begin, end in spans), Q(pk__in=[]))


def _sums(rows: QuerySet[Any], column: str) -> list[tuple[Any, ...]]:
    return list(rows.order_by().values_list(column, "status").annotate(*_SUMS))


def _buckets(cuts: Sequence[datetime], rows: Iterable[tuple[Any, ...]]) -> list[Bucket]:
    parts = [Figures()] * (len(cuts) - 1)
    for start, status, calls, *durations in rows:
        part = bisect_right(cuts, start) - 1
        parts[part] = _more(parts[part], status, calls, durations)
    return [
        Bucket(begin, end - begin, **_values(figures))
        for (begin, end), figures in zip(pairwise(cuts), parts, strict=True)
    ]


def _by_name(rows: Iterable[tuple[Any, ...]]) -> dict[str, Figures]:
    by_name: dict[str, Figures] = {}
    for name, status, calls, *durations in rows:
        by_name[name] = _more(by_name.get(name, Figures()), status, calls, durations)
    return by_name


def _more(before: Figures, status: str, calls: int, durations: Sequence[int]) -> Figures:
    """The figures plus calls with one status."""
    return Figures(
        calls=before.calls + calls,
        succeeded=before.succeeded + (calls if status == Call.Status.SUCCEEDED else 0),
        errors=before.errors + (calls if status in ERRORS else 0),
        refused=before.refused + (calls if status == Call.Status.REFUSED else 0),
        durations=tuple(map(add, before.durations, durations)) if status in _TIMED else before.durations,
    )


def _values(figures: Figures) -> dict[str, Any]:
    return {name: getattr(figures, name) for name in Figures.__slots__}
