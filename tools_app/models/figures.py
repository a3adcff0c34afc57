"""Figures of calls: how many ended how, and how long they took. Kept longer than the calls themselves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import ClassVar, Final

from django.db import models
from django.db.models import Q, Sum

# Upper bounds of the columns that count durations, in milliseconds; `slower` counts the rest.
DURATIONS: Final = (10, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000)
COUNTS: Final = (*(f"within_{bound}" for bound in DURATIONS), "slower")
SUMS: Final = ("calls", *COUNTS, "from_cache", "total_ms", "result_bytes")
# The `tool_name` of rows for all tools together, and the `caller_id` of rows for all callers.
EVERY: Final = "*"
HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(days=1)


class _Detailed(models.Manager["CallHour"]):
    def get_queryset(self) -> models.QuerySet[CallHour]:
        return super().get_queryset().filter(span=CallHour.Span.HOUR)


class _Summed(models.Manager["CallHour"]):
    def get_queryset(self) -> models.QuerySet[CallHour]:
        return super().get_queryset().exclude(span=CallHour.Span.HOUR)


class _Counted(models.Model):
    """Which calls are counted together."""

    hour = models.DateTimeField()
    tool_name = models.CharField("tool", max_length=100)
    caller_id = models.CharField(max_length=64)
    caller_name = models.CharField("caller", max_length=150)
    status = models.CharField(max_length=12)
    code = models.CharField(max_length=40, blank=True)

    class Meta:
        abstract = True


class CallHour(_Counted):
    """Calls of one tool by one caller with the same outcome within one hour.

    For pages over weeks, there are sums of these for all callers: the hours of all tools together, and the day of each
    tool. They are added to in the same transaction.
    """

    class Span(models.TextChoices):
        HOUR = "hour", "hour of a tool and a caller"
        TOTAL = "total", "hour of all tools"
        DAY = "day", "day of a tool"

    span = models.CharField(max_length=8, choices=Span.choices, default=Span.HOUR, db_default=Span.HOUR)
    calls = models.PositiveBigIntegerField(default=0)
    from_cache = models.PositiveBigIntegerField(default=0)
    total_ms = models.PositiveBigIntegerField("milliseconds altogether", default=0)
    result_bytes = models.PositiveBigIntegerField(default=0)
    within_10 = models.PositiveBigIntegerField(default=0)
    within_50 = models.PositiveBigIntegerField(default=0)
    within_100 = models.PositiveBigIntegerField(default=0)
    within_250 = models.PositiveBigIntegerField(default=0)
    within_500 = models.PositiveBigIntegerField(default=0)
    within_1000 = models.PositiveBigIntegerField(default=0)
    within_2500 = models.PositiveBigIntegerField(default=0)
    within_5000 = models.PositiveBigIntegerField(default=0)
    within_10000 = models.PositiveBigIntegerField(default=0)
    slower = models.PositiveBigIntegerField(default=0)

    objects = _Detailed()
    sums = _Summed()
    everything = models.Manager["CallHour"]()

    class Meta:
        ordering: ClassVar = ["-hour"]
        verbose_name = "hour of calls"
        verbose_name_plural = "hours of calls"
        constraints: ClassVar = [
            # Without the span: processes of the previous release name these columns in their upserts.
            models.UniqueConstraint(
                fields=["hour", "tool_name", "caller_id", "status", "code"], name="hour_of_calls_once"
            )
        ]
        indexes: ClassVar = [
            models.Index(fields=["tool_name", "-hour"], name="hours_of_tool"),
            models.Index(fields=["caller_id", "-hour"], name="hours_of_caller"),
            models.Index(fields=["span", "hour"], name="sums_of_calls", condition=~Q(span="hour")),
        ]

    def __str__(self) -> str:
        return f"{self.hour:%Y-%m-%d %H:00} {self.tool_name}"


class PendingCount(_Counted):
    """What a call adds to its hour. Inserted in the commit of the call, deleted in the commit that adds it."""

    count = models.BigIntegerField(
        help_text="More than 1: identical refusals. -1: another outcome has replaced this one."
    )
    from_cache = models.BooleanField()
    duration_ms = models.PositiveIntegerField()
    result_bytes = models.PositiveIntegerField()
    call_id = models.CharField(
        max_length=32, blank=True, default="", db_default="", help_text="If its arguments are searched. Empty: none."
    )

    def __str__(self) -> str:
        return f"{self.count} {self.tool_name} {self.status}"


def numbers_by_duration() -> dict[str, Sum]:
    """Annotations: the number of calls, and of those with each duration, of rows with a `count` and a duration."""
    ranges = zip(COUNTS, (-1, *DURATIONS), (*DURATIONS, 2**31 - 1), strict=True)
    return {"sum_calls": Sum("count")} | {
        f"sum_{name}": Sum("count", filter=Q(duration_ms__gt=low, duration_ms__lte=high), default=0)
        for name, low, high in ranges
    }


def beginning(moment: datetime, span: timedelta) -> datetime:
    """The start of the span that contains a moment. Days are stored in UTC."""
    midnight = moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight + (moment - midnight) // span * span
