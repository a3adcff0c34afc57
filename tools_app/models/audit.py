"""Who changed what, when and why. Written by `governance` and `sync`, in the transaction of the change."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models, transaction
from django.db.models.functions import Now


class AuditEntry(models.Model):
    at = models.DateTimeField(db_default=Now(), db_index=True)
    actor = models.CharField(max_length=150, help_text="A user, a key, or the command that did it.")
    action = models.CharField(max_length=40)
    subject = models.CharField(max_length=150)
    changes = models.JSONField(default=dict, help_text="What it was and what it became.")
    reason = models.CharField(max_length=500, blank=True)

    class Meta:
        ordering: ClassVar = ["-at", "-pk"]
        verbose_name = "audit entry"
        verbose_name_plural = "audit entries"
        indexes: ClassVar = [models.Index(fields=["subject", "-at"], name="audit_of_subject")]

    def __str__(self) -> str:
        return f"{self.action} {self.subject}"


def note(action: str, subject: str, *, actor: str, changes: dict[str, Any], reason: str = "") -> None:
    """Write an entry. Only inside the transaction of the change it tells of: neither may exist without the other."""
    note_all([(action, subject, changes)], actor=actor, reason=reason)


def note_all(entries: list[tuple[str, str, dict[str, Any]]], *, actor: str, reason: str = "") -> None:
    """Write many entries (action, subject, changes) at once."""
    if not transaction.get_connection().in_atomic_block:
        raise RuntimeError("an audit entry belongs into the transaction of its change")
    AuditEntry.objects.bulk_create(
        AuditEntry(actor=actor[:150], action=action, subject=subject[:150], changes=changes, reason=reason[:500])
        for action, subject, changes in entries
    )
