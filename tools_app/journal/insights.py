"""Figures about calls: of the last hour from the calls themselves, of longer periods from the aggregates.

Queries take about the same time however long the journal is, and figures outlive the calls. This module is read-only.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from itertools import pairwise
from operator import add
from typing import Any, Final

from django.db.models import Case, F, Max, OuterRef, Q, QuerySet, Subquery, Sum, Value, When
from django.db.models.functions import Coalesce
from django.db.models.lookups import GreaterThanOrEqual
from django.utils import timezone

from tools_app.models import Call, CallHour, ErrorGroup, ErrorHour, ToolRecord
from tools_app.models.calls import LONGEST
from tools_app.models.figures import COUNTS, DAY, DURATIONS, HOUR, SUMS, beginning, numbers_by_duration

# Refusals are correct behaviour, not errors.
ERRORS: Final = (Call.Status.FAILED, Call.Status.TIMEOUT, Call.Status.INTERRUPTED)
# Only these have a meaningful duration: refusals take no time, and interrupted calls would have taken longer.
_TIMED: Final = (Call.Status.SUCCEEDED, Call.Status.FAILED, Call.Status.TIMEOUT)
_SUMS: Final = {f"sum_{name}": Sum(name) for name in ("calls", *COUNTS, "result_bytes")}
# The same of calls.
_SUMS_OF_CALLS: Final = {
    **numbers_by_duration(), "sum_result_bytes": Sum(F("count") * F("result_bytes"))
}  # fmt: skip
_NONE: Final = (0,) * len(COUNTS)
# The parts of the last hour.
MOMENT: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Aggregated calls."""

    calls: int = 0
    succeeded: int = 0
    errors: int = 0
    refused: int = 0
    result_bytes: int = 0
    durations: tuple[int, ...] = _NONE
    """Histogram of durations: one number per bound in `DURATIONS`, and the last for longer calls."""

    def __add__(self, other: Figures) -> Figures:
        return Figures(
            calls=self.calls + other.calls,
            succeeded=self.succeeded + other.succeeded,
            errors=self.errors + other.errors,
            refused=self.refused + other.refused,
            result_bytes=self.result_bytes + other.result_bytes,
            durations=tuple(map(add, self.durations, other.durations)),
        )

    @property
    def others(self) -> int:
        """Calls that were cancelled, or ended with a question."""
        return self.calls - self.succeeded - self.errors - self.refused

    @property
    def not_refused(self) -> int:
        """The calls of which the error rate is a share."""
        return self.calls - self.refused

    @property
    def error_rate(self) -> float:
        return self.errors / self.not_refused if self.not_refused else 0.0


@dataclass(frozen=True, slots=True)
class Totals:
    """Calls of one tool with the same outcome. The name is empty for calls of no tool that there is."""

    tool: str
    status: str
    calls: int
    durations: tuple[int, ...]
    from_cache: int
    total_ms: int
    result_bytes: int


@dataclass(slots=True)
class ToolTotals:
    """All calls of one tool. Durations are of those that ran to their end."""

    from_cache: int = 0
    result_bytes: int = 0
    timed_ms: int = 0
    durations: tuple[int, ...] = _NONE


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


def over(window: Period) -> list[Bucket]:
    """The calls of each part of a period. A constant number of queries."""
    if window.key == "1h":
        parts = (When(finished_at__lt=end, then=Value(start)) for start, end in pairwise(window.cuts))
        return _buckets(window.cuts, _sums(_last_calls(window), Case(*parts), _SUMS_OF_CALLS))
    hours = CallHour.sums.filter(span=CallHour.Span.TOTAL, hour__gte=window.since, hour__lt=window.until)
    return _buckets(window.cuts, _sums(hours, F("hour")))


def by_hour(since: datetime, until: datetime, *, tool: str | None = None) -> list[Bucket]:
    """Every hour from `since` up to `until` (exclusive), oldest first, including empty ones. One query."""
    begin = beginning(since, HOUR)
    rows = CallHour.objects.filter(hour__gte=begin, hour__lt=until)
    if tool is not None:
        rows = rows.filter(tool_name=tool)
    cuts = [begin + HOUR * number for number in range(math.ceil((until - begin) / HOUR) + 1)]
    return _buckets(cuts, _sums(rows, F("hour")))


def by_tool(since: datetime, until: datetime, tools: Sequence[str]) -> dict[str, Figures]:
    """The outcomes of the calls of these tools, by whole hours; tools without calls are omitted. One query."""
    rows = CallHour.objects.filter(hour__gte=beginning(since, HOUR), hour__lt=until, tool_name__in=tools)
    return _grouped(_sums(rows, F("tool_name")))


def tools(window: Period) -> dict[str, Figures]:
    """The outcomes of the calls of every tool that was called. A constant number of queries."""
    return {name: figures for name, figures in all_tools(window).items() if name}


def all_tools(window: Period) -> dict[str, Figures]:
    """The same with the calls of unknown tools, under the empty name: all calls of the period."""
    tool = F("tool_name")
    if window.key == "1h":
        is_unknown = When(status=Call.Status.REFUSED, code="TOOL_NOT_FOUND", then=Value(""))
        return _grouped(_sums(_last_calls(window), Case(is_unknown, default=tool), _SUMS_OF_CALLS))
    # Whole days, and the hours before and after them.
    first, last = beginning(window.since + DAY - timedelta.resolution, DAY), beginning(window.until, DAY)
    if first >= last:
        first = last = window.until
    rows = _sums(CallHour.sums.filter(span=CallHour.Span.DAY, hour__gte=first, hour__lt=last), tool)
    outside = Q(hour__gte=window.since, hour__lt=first) | Q(hour__gte=last, hour__lt=window.until)
    return _grouped(rows + _sums(CallHour.objects.filter(outside), tool))


def callers(window: Period) -> dict[str, tuple[str, Figures]]:
    """The name of every caller, and the outcomes of its calls, by its id. One query."""
    rows: QuerySet[Any]
    if window.key == "1h":
        rows, sums = _last_calls(window), _SUMS_OF_CALLS
    else:
        rows, sums = CallHour.objects.filter(hour__gte=window.since, hour__lt=window.until), _SUMS
    named = rows.order_by().values_list("caller_id", Max("caller_name"), "status")
    found = list(named.annotate(**sums))  # house: allow lookup – our own names
    names = {caller: name for caller, name, *_ in found}
    return {
        caller: (names[caller], figures)
        for caller, figures in _grouped((caller, *rest) for caller, _, *rest in found).items()
    }


def sources(window: Period) -> dict[str, Figures]:
    """The outcomes of the calls of all tools of each source, where these are now; the empty name is for all else:
    unknown and deleted tools, prompts and resources. A constant number of queries."""
    of_tools = dict(ToolRecord.objects.values_list("name", Coalesce("source__name", Value(""))))
    figures: dict[str, Figures] = {}
    for tool, calls in all_tools(window).items():
        source = of_tools.get(tool, "")
        figures[source] = figures.get(source, Figures()) + calls
    return figures


def totals(since: datetime) -> list[Totals]:
    """The calls of every tool since the beginning of a day, by outcome. One query."""
    days = CallHour.sums.filter(span=CallHour.Span.DAY, hour__gte=since).order_by("tool_name", "status")
    sums = {f"sum_{name}": Sum(name) for name in SUMS}
    rows = days.values_list("tool_name", "status").annotate(**sums)  # house: allow lookup – our own names
    return [
        Totals(tool, status, calls, tuple(rest[: len(COUNTS)]), *rest[len(COUNTS) :])
        for tool, status, calls, *rest in rows
    ]


def errors_by_code(since: datetime) -> list[tuple[str, str, int]]:
    """Tool, code and number of the errors since then, by whole hours. One query."""
    rows = ErrorHour.objects.filter(hour__gte=since).order_by("group__tool_name", "group__code")
    return list(rows.values_list("group__tool_name", "group__code").annotate(errors=Sum("count")))


def totals_by_tool(totals: Iterable[Totals]) -> dict[str, ToolTotals]:
    tools: dict[str, ToolTotals] = {}
    for one in totals:
        tool = tools.setdefault(one.tool, ToolTotals())
        tool.from_cache += one.from_cache
        tool.result_bytes += one.result_bytes
        if one.status in _TIMED:
            tool.timed_ms += one.total_ms
            tool.durations = tuple(map(add, tool.durations, one.durations))
    return tools


def together(figures: Iterable[Figures]) -> Figures:
    """The sum of all figures."""
    return sum(figures, Figures())


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
    timed = Sum(reduce(add, map(F, COUNTS)))
    bounds = (
        When(GreaterThanOrEqual(Sum(reduce(add, map(F, COUNTS[:number]))) * 100, timed * percent), then=Value(bound))
        for number, bound in enumerate(DURATIONS, start=1)
    )
    duration = Case(*bounds, default=Value(DURATIONS[-1] + 1))
    return Subquery(rows.annotate(timed=timed).filter(timed__gt=0).annotate(at=duration).values("at"))


def open_error_groups() -> int:
    return ErrorGroup.objects.open(timezone.now()).count()


def _last_calls(window: Period) -> QuerySet[Call]:
    """The calls that ended within a short period: found by their start, which has an index."""
    return Call.objects.filter(
        started_at__gte=window.since - LONGEST, finished_at__gte=window.since, finished_at__lt=window.until
    )


def _sums(rows: QuerySet[Any], column: F | Case, sums: Mapping[str, Sum] = _SUMS) -> list[tuple[Any, ...]]:
    return list(rows.order_by().values_list(column, "status").annotate(**sums))  # house: allow lookup – our own names


def _buckets(cuts: Sequence[datetime], rows: Iterable[tuple[Any, ...]]) -> list[Bucket]:
    parts = _grouped((bisect_right(cuts, start) - 1, *row) for start, *row in rows)
    return [
        Bucket(begin, end - begin, **_values(parts.get(part, Figures())))
        for part, (begin, end) in enumerate(pairwise(cuts))
    ]


def _grouped(rows: Iterable[tuple[Any, ...]]) -> dict[Any, Figures]:
    """Figures by the first column of rows of `_sums`."""
    figures: dict[Any, Figures] = {}
    for key, status, calls, *durations, result_bytes in rows:
        figures[key] = figures.get(key, Figures()) + Figures(
            calls=calls,
            succeeded=calls if status == Call.Status.SUCCEEDED else 0,
            errors=calls if status in ERRORS else 0,
            refused=calls if status == Call.Status.REFUSED else 0,
            result_bytes=result_bytes,
            durations=tuple(durations) if status in _TIMED else _NONE,
        )
    return figures


def _values(figures: Figures) -> dict[str, Any]:
    return {name: getattr(figures, name) for name in Figures.__slots__}
