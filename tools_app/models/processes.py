"""Which processes are at work, so that the calls of one that died are not taken for calls under way."""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class Process(models.Model):
    """A running ToolHub process. Its row goes when it ends well; after a crash the lease runs out."""

    id = models.CharField(primary_key=True, max_length=32)
    kind = models.CharField(max_length=16, help_text="The command it runs.")
    host = models.CharField(max_length=100)
    pid = models.PositiveIntegerField()
    started_at = models.DateTimeField()
    lease_until = models.DateTimeField(
        db_index=True, help_text="When this has passed without a new lease, its open calls count as interrupted."
    )

    class Meta:
        ordering: ClassVar = ["-started_at"]
        verbose_name_plural = "processes"

    def __str__(self) -> str:
        return f"{self.kind} {self.host}:{self.pid}"


class Chore(models.Model):
    """When something that one process does for all was done last."""

    name = models.CharField(primary_key=True, max_length=32)
    done_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.name
