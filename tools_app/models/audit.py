"""The audit trail: who changed what, when and why. Written in the transaction of each change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar, Final

from django.db import models, transaction
from django.db.models.functions import Now
from django.http import HttpRequest

from tools_app.text import hygiene, redaction

MOST_OF_CLIENT: Final = 200

# IP address and user agent of the current request; empty for commands and background work.
_origin: ContextVar[tuple[str, str]] = ContextVar("audit_origin", default=("", ""))


class AuditEntry(models.Model):
    at = models.DateTimeField(db_default=Now(), db_index=True)
    actor = models.CharField(max_length=150, help_text="The user, API key or command that made the change.")
    action = models.CharField(max_length=40)
    subject = models.CharField(max_length=150)
    changes = models.JSONField(default=dict, help_text="Values before and after the change.")
    reason = models.CharField(max_length=500, blank=True)
    address = models.CharField(max_length=45, blank=True, help_text="IP address of the client. Empty: this machine.")
    client = models.CharField(max_length=MOST_OF_CLIENT, blank=True, help_text="User agent of the client program.")

    class Meta:
        ordering: ClassVar = ["-at", "-pk"]
        verbose_name = "audit entry"
        verbose_name_plural = "audit entries"
        indexes: ClassVar = [models.Index(fields=["subject", "-at"], name="audit_of_subject")]

    def __str__(self) -> str:
        return f"{self.action} {self.subject}"


@contextmanager
def coming_from(request: HttpRequest) -> Iterator[None]:
    """Record IP address and user agent of this request in the audit entries of the block."""
    token = _origin.set((request.META.get("REMOTE_ADDR") or "", request.META.get("HTTP_USER_AGENT") or ""))
    try:
        yield
    finally:
        _origin.reset(token)


def note(action: str, subject: str, *, actor: str, changes: dict[str, Any], reason: str = "") -> None:
    """Write an entry. Only inside the transaction of its change: neither must exist without the other."""
    note_all([(action, subject, changes)], actor=actor, reason=reason)


def note_all(entries: list[tuple[str, str, dict[str, Any]]], *, actor: str, reason: str = "") -> None:
    """Write many entries (action, subject, changes) at once."""
    if not transaction.get_connection().in_atomic_block:
        raise RuntimeError("an audit entry must be written in the transaction of its change")
    address, client = shown_origin(*_origin.get())
    AuditEntry.objects.bulk_create(
        AuditEntry(
            actor=actor[:150],
            action=action,
            subject=subject[:150],
            changes=changes,
            reason=reason[:500],
            address=address,
            client=client,
        )
        for action, subject, changes in entries
    )


def shown_origin(address: str, client: str) -> tuple[str, str]:
    """IP address and user agent of a request, as they are stored."""
    # Untrusted input. Cleaned only here, since most requests change nothing.
    line = " ".join(hygiene.cleaned(client[:1_000]).split())
    return address[:45], redaction.redacted_beginning(line, MOST_OF_CLIENT)[:MOST_OF_CLIENT].rstrip()
