"""The journal: every call, and every failure with what only operators may read. Written by the engine alone."""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class Call(models.Model):
    """One execution of a tool, or the refusal of one."""

    class Status(models.TextChoices):
        STARTED = "started"
        SUCCEEDED = "succeeded"
        FAILED = "failed"
        TIMEOUT = "timeout"
        CANCELLED = "cancelled"
        REFUSED = "refused"

    class Door(models.TextChoices):
        REST = "rest", "REST"
        MCP = "mcp", "MCP"
        ADMIN = "admin"
        COMMAND = "command"
        CODE = "code"

    id = models.CharField(primary_key=True, max_length=32)
    tool_name = models.CharField("tool", max_length=100)
    tool_version = models.CharField(max_length=64, blank=True)
    definition_hash = models.CharField(max_length=64, blank=True)
    door = models.CharField(max_length=8, choices=Door.choices)
    caller_kind = models.CharField(max_length=8)
    caller_id = models.CharField(max_length=64)
    caller_name = models.CharField("caller", max_length=150)
    status = models.CharField(max_length=12, choices=Status.choices)
    code = models.CharField(max_length=40, blank=True)
    error = models.CharField(max_length=1000, blank=True)
    error_id = models.CharField(max_length=32, blank=True)
    arguments = models.TextField(blank=True, help_text="Redacted and cut to 2 KB.")
    argument_bytes = models.PositiveIntegerField(default=0)
    result_bytes = models.PositiveIntegerField(default=0)
    result_hash = models.CharField(max_length=64, blank=True)
    attempts = models.PositiveSmallIntegerField(default=1)
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, blank=True)
    duration_ms = models.PositiveIntegerField("duration (ms)", null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["-started_at"]
        indexes: ClassVar = [
            models.Index(fields=["-started_at"], name="call_newest"),
            models.Index(fields=["tool_name", "-started_at"], name="call_of_tool"),
            models.Index(fields=["caller_id", "-started_at"], name="call_of_caller"),
            models.Index(fields=["status", "-started_at"], name="call_by_status"),
        ]

    def __str__(self) -> str:
        return f"{self.tool_name} {self.id}"


class ErrorLog(models.Model):
    """One failure. `detail` – the exception, the stack, an upstream's body – is read here and nowhere else."""

    id = models.CharField("error id", primary_key=True, max_length=32)
    call_id = models.CharField("call id", max_length=32, blank=True, db_index=True)
    tool_name = models.CharField("tool", max_length=100, blank=True)
    door = models.CharField(max_length=8, choices=Call.Door.choices)
    caller_name = models.CharField("caller", max_length=150, blank=True)
    code = models.CharField(max_length=40)
    message = models.CharField(max_length=1000)
    detail = models.TextField(blank=True)
    created_at = models.DateTimeField()

    class Meta:
        ordering: ClassVar = ["-created_at"]
        verbose_name = "error"
        indexes: ClassVar = [
            models.Index(fields=["-created_at"], name="error_newest"),
            models.Index(fields=["tool_name", "-created_at"], name="error_of_tool"),
            models.Index(fields=["code", "-created_at"], name="error_by_code"),
        ]

    def __str__(self) -> str:
        return f"{self.code} {self.id}"
