"""Approvals: calls that wait for an operator's decision, and the decisions."""

from __future__ import annotations

import json
import zlib
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final

from django.db import models

from tools_app.base import secrets

MOST_REASON: Final = 500
DAY: Final = timedelta(days=1)


class ApprovalQuerySet(models.QuerySet["Approval"]):
    def waiting(self, now: datetime) -> ApprovalQuerySet:
        """Approvals that an operator can still decide."""
        return self.filter(state=Approval.State.PENDING, expires_at__gt=now)

    def unanswered(self, now: datetime) -> ApprovalQuerySet:
        """Approvals that expired undecided within the last day."""
        return self.filter(state=Approval.State.PENDING, expires_at__gt=now - DAY, expires_at__lte=now)


class Approval(models.Model):
    """Permission for a single call: by this caller, of this version of the tool, with these arguments."""

    class State(models.TextChoices):
        PENDING = "pending"
        APPROVED = "approved"
        REFUSED = "refused"
        USED = "used"

    EXPIRED: ClassVar = "expired"

    id = models.CharField(primary_key=True, max_length=32, help_text="Random. Only its caller can use it.")
    tool_name = models.CharField("tool", max_length=64)
    definition_hash = models.CharField(max_length=64, help_text="The tool definition when approval was requested.")
    connection = models.CharField(max_length=64, blank=True)
    request_hash = models.CharField(max_length=64, help_text="Hash of tool, definition, connection and arguments.")
    arguments = models.BinaryField(help_text="Compressed and encrypted.")
    door = models.CharField("channel", max_length=8)
    caller_kind = models.CharField(max_length=8)
    caller_id = models.CharField(max_length=64)
    caller_name = models.CharField("caller", max_length=150)
    state = models.CharField(max_length=8, choices=State.choices, default=State.PENDING, db_default=State.PENDING)
    asked_at = models.DateTimeField()
    expires_at = models.DateTimeField(help_text="End of validity, decided or not. A decision restarts the period.")
    decided_at = models.DateTimeField(null=True, blank=True)
    decided_by = models.CharField(max_length=150, blank=True)
    reason = models.CharField(
        max_length=MOST_REASON, blank=True, help_text="Shown to the caller if the call is rejected."
    )
    call_id = models.CharField("call", max_length=32, blank=True, help_text="The call that used this approval.")

    objects = ApprovalQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["-asked_at"]
        indexes: ClassVar = [
            models.Index(fields=["-asked_at"], name="approval_newest"),
            models.Index(fields=["state", "expires_at"], name="approval_waiting"),
            models.Index(fields=["caller_id", "request_hash"], name="approval_of_request"),
            models.Index(fields=["expires_at"], name="approval_oldest"),
            models.Index(fields=["call_id"], name="approval_of_call", condition=~models.Q(call_id="")),
        ]

    def __str__(self) -> str:
        return f"{self.tool_name} for {self.caller_kind}:{self.caller_name}"

    def call_arguments(self) -> Any:
        """The arguments of the call; None if the encryption key is missing."""
        plain = secrets.decrypted(bytes(self.arguments))
        return None if plain is None else json.loads(zlib.decompress(plain))

    def state_at(self, now: datetime) -> str:
        """The state including `expired`, which is not stored."""
        lapses = self.state in (self.State.PENDING, self.State.APPROVED)
        return self.EXPIRED if lapses and self.expires_at <= now else str(self.state)
