"""Aggregates past days, so that pages that cover weeks read a few sums instead of every hour of every caller."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from django.db import transaction
from django.db.models import Max, Min, QuerySet, Sum

from tools_app.journal.retention.pace import Pace
from tools_app.models import CallHour, CallSum
from tools_app.models.figures import DAY, EVERY_TOOL, FOLDED, SUMS, beginning

# Calls that end just before midnight are written just after it. Later additions cause the day to be aggregated again.
GRACE: Final = timedelta(minutes=10)
# This many past days may have got further calls while they were aggregated.
DOUBTFUL: Final = 2


def fold(now: datetime, pace: Pace | None = None) -> int:
    """Aggregate the days that have no sums yet, newest first. Returns their number."""
    days = iter(_unfolded(now))

    def fold_next(most: int) -> int:
        day = next(days, None)
        if day is None:
            return 0
        _fold(day)
        return 1

    return (pace or Pace()).repeat(fold_next)


def _unfolded(now: datetime) -> list[datetime]:
    """Past days with calls, but without sums."""
    ends = CallHour.objects.filter(hour__lt=beginning(now - GRACE, DAY)).aggregate(Min("hour"), Max("hour"))
    if ends["hour__min"] is None:
        return []
    oldest, newest = beginning(ends["hour__min"], DAY), beginning(ends["hour__max"], DAY)
    days = [newest - DAY * number for number in range((newest - oldest) // DAY + 1)]
    for day in days[:DOUBTFUL]:
        _check(day)
    sums = CallSum.objects.filter(span=CallSum.Span.DAY)
    aggregated_days = set(sums.order_by().values_list("start", flat=True).distinct())
    return [day for day in days if day not in aggregated_days and _hours(day).exists()]


def _check(day: datetime) -> None:
    """Delete the sums of a day that miss a call (race condition: it was written while the day was aggregated)."""
    sums = CallSum.objects.filter(span=CallSum.Span.DAY, start=day)
    number = sums.aggregate(calls=Sum("calls"))["calls"]
    if number is not None and number != _hours(day).aggregate(calls=Sum("calls"))["calls"]:
        CallSum.objects.filter(span__in=FOLDED, start__gte=day, start__lt=day + DAY).delete()


def _hours(day: datetime) -> QuerySet[CallHour]:
    return CallHour.objects.filter(hour__gte=day, hour__lt=day + DAY).order_by()


@transaction.atomic
def _fold(day: datetime) -> None:
    sums = list(map(Sum, SUMS))
    hours = [
        _sum(CallSum.Span.HOUR, hour, EVERY_TOOL, status, *numbers)
        for hour, status, *numbers in _hours(day).values_list("hour", "status").annotate(*sums)
    ]
    tools = [
        _sum(CallSum.Span.DAY, day, tool, status, *numbers)
        for tool, status, *numbers in _hours(day).values_list("tool_name", "status").annotate(*sums)
    ]
    # Another process may have inserted the same rows meanwhile.
    CallSum.objects.bulk_create([*hours, *tools], batch_size=500, ignore_conflicts=True)


def _sum(span: CallSum.Span, start: datetime, tool_name: str, status: str, *numbers: int) -> CallSum:
    values = dict(zip(SUMS, numbers, strict=True))
    return CallSum(span=span, start=start, tool_name=tool_name, status=status, **values)
