"""Answers above the token budget, stored for reading in pages."""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class StoredAnswer(models.Model):
    """An answer that is stored for its caller for a limited time, encrypted."""

    id = models.CharField(primary_key=True, max_length=32, help_text="Random. Only its caller can use it.")
    caller_id = models.CharField(max_length=64)
    tool_name = models.CharField(max_length=64)
    call_id = models.CharField(max_length=32)
    digest = models.CharField(max_length=64, help_text="Of what it says: the same for the same caller is kept once.")
    is_text = models.BooleanField(help_text="A text, and not JSON.")
    content = models.BinaryField(help_text="Compressed and encrypted.")
    size = models.PositiveIntegerField(help_text="Bytes that it takes here.")
    created_at = models.DateTimeField(db_index=True)
    expires_at = models.DateTimeField(db_index=True)

    class Meta:
        indexes: ClassVar = [models.Index(fields=["caller_id", "digest"], name="stored_answer_of_caller")]

    def __str__(self) -> str:
        return f"{self.tool_name} for {self.caller_id}"
