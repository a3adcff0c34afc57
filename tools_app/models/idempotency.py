"""Calls that must not happen twice: the caller's own key for each, and what came of it."""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar, Final

from django.db import models

# So long a second call with the same key gets the answer of the first.
REPLAYED_FOR: Final = timedelta(hours=24)


class IdempotencyKey(models.Model):
    """A caller's `Idempotency-Key`. Neither the key nor the reply can be read from here."""

    caller_id = models.CharField(max_length=64)
    key_hash = models.CharField(max_length=64)
    request_hash = models.CharField(max_length=64, help_text="Of the tool and its arguments.")
    call_id = models.CharField(max_length=32)
    reply = models.BinaryField(null=True, help_text="Encrypted. Empty while the call is under way.")
    created_at = models.DateTimeField(db_index=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["caller_id", "key_hash"], name="idempotency_key_once_per_caller")
        ]

    def __str__(self) -> str:
        return f"{self.caller_id} {self.key_hash[:8]}"
