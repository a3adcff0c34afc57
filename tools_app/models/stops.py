"""Stops (kill switches) for the hub, a pack, a connection or a key. A row exists while the stop is active."""

from __future__ import annotations

from datetime import UTC
from typing import ClassVar, Final

from django.db import models
from django.db.models.functions import Now

MOST_REASON: Final = 500


class Stop(models.Model):
    """An active stop. The audit trail has its history."""

    class Kind(models.TextChoices):
        HUB = "hub"
        PACK = "pack", "Source"
        CONNECTION = "connection"
        KEY = "key"

    kind = models.CharField(max_length=10, choices=Kind.choices)
    name = models.CharField(
        max_length=150, blank=True, help_text="Name of the source, connection or API key. Empty for the hub."
    )
    reason = models.CharField(max_length=MOST_REASON, blank=True, help_text="Shown to callers whose calls are refused.")
    since = models.DateTimeField(db_default=Now())
    by = models.CharField(max_length=150)

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

    @property
    def words(self) -> str:
        """The message for callers: time and reason, but not who did it."""
        since = f"{self.since.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
        message = f"{self.subject} has been stopped by an operator since {since}"
        return f"{message}: {self.reason}" if self.reason else message
