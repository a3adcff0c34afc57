"""Idempotency keys of callers, and the replies to their calls."""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar, Final

from django.db import models

# How long a second call with the same key gets the reply of the first.
REPLAYED_FOR: Final = timedelta(hours=24)


class IdempotencyKey(models.Model):
    """A caller's `Idempotency-Key`, as a hash, and the encrypted reply."""

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
