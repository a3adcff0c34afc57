"""Adds up days that are over: pages that show weeks read a few sums instead of every hour of every caller."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from django.db import transaction
from django.db.models import Max, Min, QuerySet, Sum

from tools_app.journal.retention.pace import Pace
from tools_app.models import CallHour, CallSum
from tools_app.models.figures import DAY, EVERY_TOOL, FOLDED, SUMS, beginning

# What ends just before midnight is written just after it. What comes later than this makes its day be added up anew.
GRACE: Final = timedelta(minutes=10)
# So many of the days that are over may still have got calls while they were added up.
DOUBTFUL: Final = 2


def fold(now: datetime, pace: Pace | None = None) -> int:
    """Add up the days that nobody has added up, the newest first. Returns how many there were."""
    days = iter(_unfolded(now))

    def one(most: int) -> int:
        day = next(days, None)
        if day is None:
            return 0
        _fold(day)
        return 1

    return (pace or Pace()).repeat(one)


def _unfolded(now: datetime) -> list[datetime]:
    """Days that are over and had calls, but have no sums."""
    ends = CallHour.objects.filter(hour__lt=beginning(now - GRACE, DAY)).aggregate(Min("hour"), Max("hour"))
    if ends["hour__min"] is None:
        return []
    oldest, newest = beginning(ends["hour__min"], DAY), beginning(ends["hour__max"], DAY)
    days = [newest - DAY * number for number in range((newest - oldest) // DAY + 1)]
    for day in days[:DOUBTFUL]:
        _check(day)
    sums = CallSum.objects.filter(span=CallSum.Span.DAY)
    folded = set(sums.order_by().values_list("start", flat=True).distinct())
    return [day for day in days if day not in folded and _hours(day).exists()]


def _check(day: datetime) -> None:
    """Forget the sums of a day that lack a call: it was written in the moment in which the day was added up."""
    sums = CallSum.objects.filter(span=CallSum.Span.DAY, start=day)
    counted = sums.aggregate(calls=Sum("calls"))["calls"]
    if counted is not None and counted != _hours(day).aggregate(calls=Sum("calls"))["calls"]:
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
    # Another process may have done the same in the meantime.
    CallSum.objects.bulk_create([*hours, *tools], batch_size=500, ignore_conflicts=True)


def _sum(span: CallSum.Span, start: datetime, tool_name: str, status: str, *numbers: int) -> CallSum:
    values = dict(zip(SUMS, numbers, strict=True))
    return CallSum(span=span, start=start, tool_name=tool_name, status=status, **values)
