"""Aggregates of calls by time span: number, durations and outcomes. Kept longer than the calls themselves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import ClassVar, Final

from django.db import models

# Upper bounds of the columns that count durations, in milliseconds; `slower` counts the rest.
DURATIONS: Final = (10, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000)
# The `tool_name` of rows for all tools together.
EVERY_TOOL: Final = "*"


class _Sums(models.Model):
    """The sums of an aggregate."""

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

    class Meta:
        abstract = True


SUMS: Final = tuple(field.attname for field in _Sums._meta.local_fields)


class CallHour(_Sums):
    """Calls of one tool by one caller with the same outcome within one hour. Written in the commit of the calls."""

    hour = models.DateTimeField()
    tool_name = models.CharField("tool", max_length=100)
    caller_id = models.CharField(max_length=64)
    caller_name = models.CharField("caller", max_length=150)
    status = models.CharField(max_length=12)
    code = models.CharField(max_length=40, blank=True)

    class Meta:
        ordering: ClassVar = ["-hour"]
        verbose_name = "hour of calls"
        verbose_name_plural = "hours of calls"
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["hour", "tool_name", "caller_id", "status", "code"], name="hour_of_calls_once"
            )
        ]
        indexes: ClassVar = [
            models.Index(fields=["tool_name", "-hour"], name="hours_of_tool"),
            models.Index(fields=["caller_id", "-hour"], name="hours_of_caller"),
        ]

    def __str__(self) -> str:
        return f"{self.hour:%Y-%m-%d %H:00} {self.tool_name}"


class CallSum(_Sums):
    """Calls of one tool by all callers with the same outcome within a time span.

    Spans of five minutes are written with the calls and kept for two days. Hours (all tools together) and days (each
    tool) are computed from `CallHour` when a day is over, so that pages over weeks read few rows.
    """

    class Span(models.TextChoices):
        MOMENT = "moment", "five minutes"
        HOUR = "hour"
        DAY = "day"

    span = models.CharField(max_length=8, choices=Span.choices)
    start = models.DateTimeField()
    tool_name = models.CharField("tool", max_length=100)
    status = models.CharField(max_length=12)

    class Meta:
        ordering: ClassVar = ["-start"]
        verbose_name = "sum of calls"
        verbose_name_plural = "sums of calls"
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["span", "start", "tool_name", "status"], name="sum_of_calls_once")
        ]

    def __str__(self) -> str:
        return f"{self.span} {self.start:%Y-%m-%d %H:%M} {self.tool_name}"


# The spans that are computed from `CallHour` once a day is over, and can be computed again.
FOLDED: Final = (CallSum.Span.HOUR, CallSum.Span.DAY)
MOMENT: Final = timedelta(minutes=5)
HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(days=1)


def beginning(moment: datetime, span: timedelta) -> datetime:
    """The start of the span that contains a moment. Days are stored in UTC."""
    midnight = moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight + (moment - midnight) // span * span
