"""What happened, in figures: read from what the journal adds up, never from the calls themselves.

They cost about the same however long the journal is, and stay when the calls are gone. Nothing here writes.
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

# Refusals are the hub at work, not errors.
ERRORS: Final = (Call.Status.FAILED, Call.Status.TIMEOUT, Call.Status.INTERRUPTED)
# Only these tell how long a tool takes: a refusal takes no time, and what was cut off would have taken longer.
_TIMED: Final = (Call.Status.SUCCEEDED, Call.Status.FAILED, Call.Status.TIMEOUT)
_COUNTS: Final = (*(f"within_{bound}" for bound in DURATIONS), "slower")
_SUMS: Final = tuple(map(Sum, ("calls", *_COUNTS)))
_NONE: Final = (0,) * len(_COUNTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Calls, added up."""

    calls: int = 0
    succeeded: int = 0
    errors: int = 0
    refused: int = 0
    durations: tuple[int, ...] = _NONE
    """How many took as long as each of `DURATIONS` allows and the one before does not; the last took longer."""

    @property
    def others(self) -> int:
        """Calls that were cancelled, or ended with a question."""
        return self.calls - self.succeeded - self.errors - self.refused

    @property
    def error_rate(self) -> float:
        """The share of the calls that were let in and ended in an error."""
        return self.errors / (self.calls - self.refused) if self.calls > self.refused else 0.0


@dataclass(frozen=True, slots=True)
class Bucket(Figures):
    """The calls that ended within one span of time."""

    start: datetime
    length: timedelta = HOUR

    @property
    def end(self) -> datetime:
        return self.start + self.length


@dataclass(frozen=True, slots=True)
class Period:
    """A time that people look back on, cut into parts of which each begins where the one before it ends."""

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
    """One of `PERIODS`, up to and with the part that runs: moments, hours, quarters of days or days.

    Days begin at midnight where the hub’s people are, as far as figures by whole hours can tell.
    """
    if key in ("1h", "24h"):
        length, number = (MOMENT, 12) if key == "1h" else (HOUR, 24)
        until = beginning(now, length) + length
        return Period(key, tuple(until - length * part for part in range(number, -1, -1)))
    days, parts = (7, 4) if key == "7d" else (30, 1)
    today = timezone.localtime(now).replace(hour=0, minute=0, second=0, microsecond=0)
    # Wall time: a day on which clocks are set has 23 hours, or 25.
    cuts = [today + DAY * (number / parts + 1 - days) for number in range(days * parts + 1)]
    return Period(key, tuple(beginning(cut.astimezone(UTC), HOUR) for cut in cuts))


def last_day(now: datetime) -> tuple[datetime, datetime]:
    """Since and until of the last 24 hours as they are counted: the one that runs, and the 23 before it."""
    day = period("24h", now)
    return day.since, day.until


def over(chosen: Period, *, tool: str | None = None) -> list[Bucket]:
    """The calls of each part of a period. A few queries, whatever there is."""
    if chosen.key == "1h":
        moments = _moments(chosen)
        return _buckets(chosen.cuts, _sums(moments if tool is None else moments.filter(tool_name=tool), "start"))
    if tool is not None:
        return between(chosen.cuts, tool=tool)
    folded = _folded(chosen)
    known = CallSum.objects.filter(span=CallSum.Span.HOUR, tool_name=EVERY_TOOL)
    rows = _sums(known.filter(start__gte=chosen.since, start__lt=chosen.until), "start")
    return _buckets(chosen.cuts, [*rows, *_sums(CallHour.objects.filter(_loose(chosen, folded)), "hour")])


def between(cuts: Sequence[datetime], *, tool: str | None = None, caller: str | None = None) -> list[Bucket]:
    """The calls between each two moments, oldest first, by whole hours; those without calls too. One query."""
    begin = beginning(cuts[0], HOUR)
    rows = CallHour.objects.filter(hour__gte=begin, hour__lt=cuts[-1])
    if tool is not None:
        rows = rows.filter(tool_name=tool)
    if caller is not None:
        rows = rows.filter(caller_id=caller)
    return _buckets([begin, *cuts[1:]], _sums(rows, "hour"))


def by_hour(since: datetime, until: datetime, *, tool: str | None = None, caller: str | None = None) -> list[Bucket]:
    """Every hour from `since` to before `until`, oldest first; those without calls too. One query."""
    begin = beginning(since, HOUR)
    hours = math.ceil((until - begin) / HOUR)
    return between([begin + HOUR * number for number in range(hours + 1)], tool=tool, caller=caller)


def by_tool(since: datetime, until: datetime, tools: Sequence[str]) -> dict[str, Figures]:
    """What became of the calls of each of these tools, by whole hours. One query; without calls, nothing is said."""
    rows = CallHour.objects.filter(hour__gte=beginning(since, HOUR), hour__lt=until, tool_name__in=tools)
    return _named(_sums(rows, "tool_name"))


def tools(chosen: Period) -> dict[str, Figures]:
    """What became of the calls of every tool that was called. A few queries, whatever there is."""
    if chosen.key == "1h":
        rows = _sums(_moments(chosen), "tool_name")
    else:
        folded = {day for day in _folded(chosen) if chosen.since <= day and day + DAY <= chosen.until}
        rows = _sums(CallSum.objects.filter(span=CallSum.Span.DAY, start__in=folded), "tool_name")
        rows += _sums(CallHour.objects.filter(_loose(chosen, folded)), "tool_name")
    # Without a name: calls of tools that there are not.
    return _named(row for row in rows if row[0])


def together(figures: Iterable[Figures]) -> Figures:
    """All of them in one."""
    found = list(figures)
    return Figures(
        calls=sum(one.calls for one in found),
        succeeded=sum(one.succeeded for one in found),
        errors=sum(one.errors for one in found),
        refused=sum(one.refused for one in found),
        durations=tuple(map(sum, zip(*(one.durations for one in found), strict=True))) or _NONE,
    )


def percentile(figures: Iterable[Figures], share: float) -> float | None:
    """Milliseconds within which that share of the calls ended: the upper bound of an estimate.

    None where there were no calls to time; infinite where it is more than the longest duration that is told apart.
    """
    counts = together(figures).durations
    wanted = math.ceil(share * sum(counts))
    if not wanted:
        return None
    seen = 0
    for bound, count in zip(DURATIONS, counts, strict=False):
        seen += count
        if seen >= wanted:
            return bound
    return math.inf


def calls_of(tool: OuterRef, since: datetime, statuses: Sequence[str] = Call.Status.values) -> Coalesce:
    """A column for a query of tools: how many calls of each ended so since then."""
    rows = CallHour.objects.filter(tool_name=tool, hour__gte=since, status__in=statuses)
    return Coalesce(Subquery(rows.order_by().values("tool_name").annotate(number=Sum("calls")).values("number")), 0)


def percentile_of(tool: OuterRef, since: datetime, percent: int) -> Subquery:
    """A column for a query of tools: what `percentile` says of each, to sort them by. Infinite is more than any bound.

    What is not timed has none.
    """
    rows = CallHour.objects.filter(tool_name=tool, hour__gte=since, status__in=_TIMED).order_by().values("tool_name")
    timed = Sum(reduce(add, map(F, _COUNTS)))
    bounds = (
        When(GreaterThanOrEqual(Sum(reduce(add, map(F, _COUNTS[:number]))) * 100, timed * percent), then=Value(bound))
        for number, bound in enumerate(DURATIONS, start=1)
    )
    found = Case(*bounds, default=Value(DURATIONS[-1] + 1))
    return Subquery(rows.annotate(timed=timed).filter(timed__gt=0).annotate(at=found).values("at"))


def open_error_groups() -> int:
    return ErrorGroup.objects.filter(resolved_at=None).count()


def _moments(chosen: Period) -> QuerySet[CallSum]:
    return CallSum.objects.filter(span=CallSum.Span.MOMENT, start__gte=chosen.since, start__lt=chosen.until)


def _folded(chosen: Period) -> set[datetime]:
    """The days of a period that are added up."""
    days = CallSum.objects.filter(span=CallSum.Span.DAY, start__lt=chosen.until)
    return set(days.filter(start__gt=chosen.since - DAY).order_by().values_list("start", flat=True).distinct())


def _loose(chosen: Period, folded: set[datetime]) -> Q:
    """Which hours of a period lie outside of those days. Where there are none, the database is not even asked."""
    spans: list[tuple[datetime, datetime]] = []
    day = beginning(chosen.since, DAY)
    while day < chosen.until:
        if day not in folded:
            begin, end = max(day, chosen.since), min(day + DAY, chosen.until)
            if spans and spans[-1][1] == begin:
                begin, _ = spans.pop()
            spans.append((begin, end))
        day += DAY
    return reduce(or_, (Q(hour__gte=begin, hour__lt=end) for begin, end in spans), Q(pk__in=[]))


def _sums(rows: QuerySet[Any], column: str) -> list[tuple[Any, ...]]:
    return list(rows.order_by().values_list(column, "status").annotate(*_SUMS))


def _buckets(cuts: Sequence[datetime], rows: Iterable[tuple[Any, ...]]) -> list[Bucket]:
    found = [Figures()] * (len(cuts) - 1)
    for start, status, calls, *durations in rows:
        part = bisect_right(cuts, start) - 1
        found[part] = _more(found[part], status, calls, durations)
    return [
        Bucket(begin, end - begin, **_values(figures))
        for (begin, end), figures in zip(pairwise(cuts), found, strict=True)
    ]


def _named(rows: Iterable[tuple[Any, ...]]) -> dict[str, Figures]:
    found: dict[str, Figures] = {}
    for name, status, calls, *durations in rows:
        found[name] = _more(found.get(name, Figures()), status, calls, durations)
    return found


def _more(before: Figures, status: str, calls: int, durations: Sequence[int]) -> Figures:
    """The same with calls that ended one way."""
    return Figures(
        calls=before.calls + calls,
        succeeded=before.succeeded + (calls if status == Call.Status.SUCCEEDED else 0),
        errors=before.errors + (calls if status in ERRORS else 0),
        refused=before.refused + (calls if status == Call.Status.REFUSED else 0),
        durations=tuple(map(add, before.durations, durations)) if status in _TIMED else before.durations,
    )


def _values(figures: Figures) -> dict[str, Any]:
    return {name: getattr(figures, name) for name in Figures.__slots__}
