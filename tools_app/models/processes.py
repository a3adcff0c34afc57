"""Running processes: calls of a process that crashed must not count as running."""

from __future__ import annotations

from typing import ClassVar, Self

from django.db import models
from django.db.models.functions import Now


class Process(models.Model):
    """A running ToolHub process. Its row is deleted at a normal end; after a crash its lease expires."""

    id = models.CharField(primary_key=True, max_length=32)
    kind = models.CharField("role", max_length=16, help_text="The command that the process runs.")
    host = models.CharField(max_length=100)
    pid = models.PositiveIntegerField()
    started_at = models.DateTimeField()
    lease_until = models.DateTimeField(
        db_index=True, help_text="If the lease is not renewed by then, its open calls count as interrupted."
    )

    class Meta:
        ordering: ClassVar = ["-started_at"]
        verbose_name_plural = "processes"

    def __str__(self) -> str:
        return f"{self.kind} {self.host}:{self.pid}"


class AgentQuerySet(models.QuerySet["Agent"]):
    def connected(self) -> Self:
        """Agents of processes that are alive. Rows of a crashed process are deleted some minutes later."""
        return self.filter(process__lease_until__gte=Now())


class Agent(models.Model):
    """An MCP client that is connected to a process. Written by that process, and deleted with it."""

    class Door(models.TextChoices):
        STDIO = "stdio"
        HTTP = "http", "HTTP"

    class Era(models.TextChoices):
        HANDSHAKE = "handshake", "MCP (session)"
        MODERN = "modern", "MCP (stateless)"

    id = models.CharField(primary_key=True, max_length=32)
    process = models.ForeignKey(Process, on_delete=models.CASCADE, related_name="agents", db_constraint=False)
    door = models.CharField("transport", max_length=8, choices=Door.choices)
    client = models.CharField(max_length=100, blank=True, help_text="Name that the client gave.")
    version = models.CharField(max_length=64, blank=True)
    protocol = models.CharField(max_length=32, blank=True, help_text="MCP protocol version.")
    era = models.CharField("session type", max_length=9, choices=Era.choices)
    toolset = models.CharField(
        max_length=200, blank=True, help_text="Toolsets that restrict the agent. Empty: all tools."
    )
    caller_kind = models.CharField(max_length=8)
    caller_id = models.CharField(max_length=64)
    caller_name = models.CharField("caller", max_length=150)
    since = models.DateTimeField()
    seen_at = models.DateTimeField(help_text="Time of its last request.")
    called_at = models.DateTimeField("last call", null=True, blank=True)
    calls = models.PositiveBigIntegerField(default=0)

    objects = AgentQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["-since", "-pk"]

    def __str__(self) -> str:
        return f"{self.client or self.caller_name} {self.version}".strip()


class Chore(models.Model):
    """The last run of a task that one process does for all. A lease has a holder: the process that does it."""

    name = models.CharField(primary_key=True, max_length=32)
    done_at = models.DateTimeField(help_text="When it was done last; of a lease, when that ends.")
    holder = models.CharField(max_length=64, blank=True, default="", db_default="")

    def __str__(self) -> str:
        return self.name
