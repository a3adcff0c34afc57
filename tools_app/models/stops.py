"""What operators have stopped: the hub, a pack, a connection or a key. A row is there as long as the stop holds."""

from __future__ import annotations

from datetime import UTC
from typing import ClassVar, Final

from django.db import models
from django.db.models.functions import Now

MOST_REASON: Final = 500


class Stop(models.Model):
    """One kill switch that is on. The audit log records why, and who switched it off."""

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
        """What is stopped, in words."""
        match self.kind:
            case Stop.Kind.HUB:
                return "the hub"
            case Stop.Kind.KEY:
                return "this key"
            case kind:
                return f"the {kind} {self.name}"

    @property
    def words(self) -> str:
        """What a caller is told: not who did it, but since when and why."""
        since = f"{self.since.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
        said = f"{self.subject} has been stopped by an operator since {since}"
        return f"{said}: {self.reason}" if self.reason else said
