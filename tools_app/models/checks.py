"""Results of `checktools`: whether tools return the results of their examples."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from tools_app.models.tools import ToolRecord


class ToolCheck(models.Model):
    """The last run of a tool's examples, and its result."""

    tool = models.OneToOneField(ToolRecord, on_delete=models.CASCADE, related_name="last_check")
    passed = models.BooleanField()
    examples = models.PositiveIntegerField(help_text="How many were run.")
    faults = models.JSONField(default=list, help_text="What was not as it should be, in words.")
    definition_hash = models.CharField(max_length=64, help_text="What the tool was then.")
    checked_at = models.DateTimeField()

    class Meta:
        ordering: ClassVar = ["tool__name"]

    def __str__(self) -> str:
        return f"{self.tool_id}: {'passed' if self.passed else 'failed'}"
