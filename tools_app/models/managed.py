"""Records that a configuration file manages, with what it says about each: what is different by now is drift."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models.functions import Now


class ManagedRecord(models.Model):
    """A record of a configuration file, by kind and name. It may not exist yet: a tool that no source lists so far."""

    class Kind(models.TextChoices):
        """In the order in which they are applied: the later ones name the earlier ones."""

        USER = "user", "user"
        SOURCE = "source", "source"
        CONNECTION = "connection", "connection"
        TOOLSET = "toolset", "toolset"
        TOOL = "tool", "tool"
        KEY = "key", "key"
        ALERT_RULE = "alertrule", "alert rule"

    kind = models.CharField(max_length=16, choices=Kind.choices)
    name = models.CharField(max_length=200)
    file = models.CharField(max_length=100, help_text="Name of the file, without its directory.")
    declared = models.JSONField(
        null=True, help_text="What the file says, without secrets. Null: the file does not name the record any more."
    )
    applied_at = models.DateTimeField(db_default=Now())

    class Meta:
        verbose_name = "managed record"
        ordering: ClassVar = ["kind", "name"]
        constraints: ClassVar = [models.UniqueConstraint(fields=["kind", "name"], name="managed_once")]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"
