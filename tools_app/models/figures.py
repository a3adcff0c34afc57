"""How many calls there were, how long they took and how they ended, by the hour. It outlives the calls themselves."""

from __future__ import annotations

from typing import ClassVar, Final

from django.db import models

# Upper bounds of the columns that count durations, in milliseconds; `slower` counts the rest.
DURATIONS: Final = (10, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000)


class CallHour(models.Model):
    """Calls of one tool by one caller that ended one way within one hour. Written with the calls, in their commit."""

    hour = models.DateTimeField()
    tool_name = models.CharField("tool", max_length=100)
    caller_id = models.CharField(max_length=64)
    caller_name = models.CharField("caller", max_length=150)
    status = models.CharField(max_length=12)
    code = models.CharField(max_length=40, blank=True)
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
        ordering: ClassVar = ["-hour"]
        verbose_name = "hour of calls"
        verbose_name_plural = "hours of calls"
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["hour", "tool_name", "caller_id", "status", "code"], name="hour_of_calls_once"
            )
        ]
        indexes: ClassVar = [models.Index(fields=["tool_name", "-hour"], name="hours_of_tool")]

    def __str__(self) -> str:
        return f"{self.hour:%Y-%m-%d %H:00} {self.tool_name}"
