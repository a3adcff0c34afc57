"""Approvals: calls that wait for an operator's decision, the decisions, and calls that are approved in advance."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final

from django.db import models

from tools_app.base import secrets
from tools_app.models.connections import Connection
from tools_app.sdk.accounts import MOST_URL
from tools_app.sdk.checker import Checker

MOST_REASON: Final = 500
DAY: Final = timedelta(days=1)


def sealed(text: bytes) -> bytes:
    """The JSON, compressed and encrypted."""
    return secrets.encrypted(zlib.compress(text))


def opened(content: bytes | memoryview) -> Any:
    """The value; None if the encryption key is missing."""
    plain = secrets.decrypted(bytes(content))
    return None if plain is None else json.loads(zlib.decompress(plain))


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
    standing_id = models.CharField(
        "standing approval", max_length=32, blank=True, default="", db_default="",
        help_text="The standing approval that permitted the call.",
    )  # fmt: skip

    objects = ApprovalQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["-asked_at"]
        indexes: ClassVar = [
            models.Index(fields=["-asked_at"], name="approval_newest"),
            models.Index(fields=["state", "expires_at"], name="approval_waiting"),
            models.Index(fields=["caller_id", "request_hash"], name="approval_of_request"),
            models.Index(fields=["expires_at"], name="approval_oldest"),
            models.Index(fields=["call_id"], name="approval_of_call", condition=~models.Q(call_id="")),
            models.Index(fields=["standing_id"], name="approval_of_standing", condition=~models.Q(standing_id="")),
        ]

    def __str__(self) -> str:
        return f"{self.tool_name} for {self.caller_kind}:{self.caller_name}"

    def call_arguments(self) -> Any:
        """The arguments of the call; None if the encryption key is missing."""
        return opened(self.arguments)

    @property
    def about(self) -> dict[str, Any]:
        """What an alert says of it."""
        return {
            "subject": f"approval:{self.pk}",
            "tool": self.tool_name,
            "caller": (self.caller_id, self.caller_name),
            "details": {"until": self.expires_at.isoformat()},
        }

    def state_at(self, now: datetime) -> str:
        """The state including `expired`, which is not stored."""
        lapses = self.state in (self.State.PENDING, self.State.APPROVED)
        return self.EXPIRED if lapses and self.expires_at <= now else str(self.state)


def _keeps_address() -> models.Q:
    same = Connection.objects.filter(name=models.OuterRef("connection"), url=models.OuterRef("address"))
    return models.Q(address="") | models.Q(models.Exists(same))


class StandingApprovalQuerySet(models.QuerySet["StandingApproval"]):
    def active(self, now: datetime) -> StandingApprovalQuerySet:
        """Those that can still permit calls, if their tool has not changed."""
        return self.filter(revoked_at=None, expires_at__gt=now, used__lt=models.F("uses"))

    def with_address(self) -> StandingApprovalQuerySet:
        """Each with `keeps_address`: False if its connection leads elsewhere since it was granted, or is gone."""
        return self.annotate(keeps_address=_keeps_address())

    def at_their_address(self) -> StandingApprovalQuerySet:
        return self.filter(_keeps_address())


class StandingApproval(models.Model):
    """Permission in advance: for this caller and version of a tool, with arguments in these limits, some times."""

    class State(models.TextChoices):
        ACTIVE = "active"
        REVOKED = "revoked"
        EXPIRED = "expired"
        USED_UP = "used_up"
        # Not from `state_at`: whether the tool is another one now, only the catalog knows.
        VOID = "void"

    id = models.CharField(primary_key=True, max_length=32)
    tool_name = models.CharField("tool", max_length=64)
    definition_hash = models.CharField(max_length=64, help_text="Void when the tool has another definition.")
    identity = models.CharField(max_length=120, blank=True, help_text="Source and epoch of the tool, as in digests.")
    connection = models.CharField(max_length=64, blank=True)
    address = models.CharField(
        max_length=MOST_URL, blank=True, default="", db_default="",
        help_text="URL of the connection when it was granted. Empty: not recorded, or no connection.",
    )  # fmt: skip
    caller_kind = models.CharField(max_length=8)
    caller_id = models.CharField(max_length=64)
    caller_name = models.CharField("caller", max_length=150)
    constraint = models.BinaryField(help_text="JSON Schema of the arguments, compressed and encrypted.")
    uses = models.PositiveIntegerField(help_text="How many calls it permits.")
    used = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=150)
    reason = models.CharField(max_length=MOST_REASON, blank=True)
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, blank=True)
    revoked_by = models.CharField(max_length=150, blank=True)

    objects = StandingApprovalQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["-created_at"]
        indexes: ClassVar = [
            models.Index(fields=["caller_id", "tool_name"], name="standing_of_caller"),
            models.Index(fields=["expires_at"], name="standing_oldest"),
        ]

    def __str__(self) -> str:
        return f"{self.tool_name} for {self.caller_kind}:{self.caller_name}"

    def schema(self) -> dict[str, Any] | None:
        """What the arguments have to be; None if the encryption key is missing."""
        return opened(self.constraint)  # type: ignore[no-any-return]

    def covers(self, arguments: Mapping[str, Any]) -> bool:
        schema = self.schema()
        return schema is not None and Checker(schema, fills_in=False).accepts(dict(arguments))

    def state_at(self, now: datetime) -> State:
        if self.revoked_at is not None:
            return self.State.REVOKED
        if self.used >= self.uses:
            return self.State.USED_UP
        return self.State.EXPIRED if self.expires_at <= now else self.State.ACTIVE
