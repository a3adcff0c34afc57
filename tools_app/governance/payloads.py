"""Audit entries for reading the arguments and answers of calls."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from django.db import transaction
from django.utils import timezone

from tools_app.models import AuditEntry
from tools_app.models.audit import note

# Reading the same again within this time makes no further entry.
ONCE_IN: Final = timedelta(hours=1)


def note_payload_read(call_id: str, *, actor: str) -> None:
    """Record that the actor reads the payload of a call; once an hour for each call and reader."""
    with transaction.atomic():
        since = timezone.now() - ONCE_IN
        entries = AuditEntry.objects.filter(subject=f"call:{call_id}", at__gte=since)
        if not entries.filter(action="payload.read", actor=actor[:150]).exists():
            note("payload.read", f"call:{call_id}", actor=actor, changes={})


def note_export(what: str, *, payloads: bool, filters: str, actor: str) -> None:
    """Record that the actor exports a list with these filters."""
    with transaction.atomic():
        changes = {"payloads": payloads, "filters": filters[:500]}
        note("list.export", f"list:{what}", actor=actor, changes=changes)
