"""Stops (kill switches) for the hub, a pack, a connection or a key, and of all writes (maintenance).

A row exists while the stop is active; that of maintenance can have an end, and is deleted some time after it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import ClassVar, Final

from django.db import models
from django.db.models.functions import Now

MOST_REASON: Final = 500


class StopQuerySet(models.QuerySet["Stop"]):
    def active(self) -> StopQuerySet:
        """Without maintenance that has ended."""
        return self.exclude(until__lte=Now())


class Stop(models.Model):
    """An active stop. The audit trail has its history."""

    class Kind(models.TextChoices):
        HUB = "hub"
        PACK = "pack", "Source"
        CONNECTION = "connection"
        KEY = "key"
        WRITES = "writes", "Maintenance"

    kind = models.CharField(max_length=10, choices=Kind.choices)
    name = models.CharField(
        max_length=150,
        blank=True,
        help_text="Name of the source, connection or API key. Empty for the hub and for maintenance.",
    )
    reason = models.CharField(max_length=MOST_REASON, blank=True, help_text="Shown to callers whose calls are refused.")
    since = models.DateTimeField(db_default=Now())
    until = models.DateTimeField(null=True, blank=True, help_text="Of maintenance: its end. Empty: until it is ended.")
    by = models.CharField(max_length=150)

    objects = StopQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["kind", "name"]
        verbose_name = "kill switch"
        verbose_name_plural = "kill switches"
        constraints: ClassVar = [models.UniqueConstraint(fields=["kind", "name"], name="stopped_once")]

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}" if self.name else str(self.kind)

    @property
    def subject(self) -> str:
        """The stopped object, in words."""
        match self.kind:
            case Stop.Kind.HUB:
                return "the hub"
            case Stop.Kind.KEY:
                return "this key"
            case kind:
                return f"the {kind} {self.name}"

    def is_active(self, now: datetime) -> bool:
        return self.until is None or now < self.until

    @property
    def words(self) -> str:
        """The message for callers: time and reason, but not who did it."""
        since = f"since {_utc(self.since)}"
        if self.kind == Stop.Kind.WRITES:
            end = f" until {_utc(self.until)}" if self.until is not None else ""
            message = f"the hub is in maintenance {since}{end}, tools that write cannot be called"
        else:
            message = f"{self.subject} has been stopped by an operator {since}"
        return f"{message}: {self.reason}" if self.reason else message


def _utc(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
