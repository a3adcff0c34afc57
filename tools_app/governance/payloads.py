"""Audit entries for reading the arguments and answers of calls."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from django.db import transaction
from django.utils import timezone

from tools_app.access import actions
from tools_app.governance.actors import Actor, changing
from tools_app.models import AuditEntry
from tools_app.models.audit import note

# Reading the same again within this time makes no further entry.
ONCE_IN: Final = timedelta(hours=1)


def note_payload_read(call_id: str, *, actor: Actor) -> None:
    """Record that the actor reads the payload of a call; once an hour for each call and reader."""
    with changing(actions.PAYLOADS_READ, actor) as change:
        since = timezone.now() - ONCE_IN
        entries = AuditEntry.objects.filter(subject=f"call:{call_id}", at__gte=since, actor=actor.name[:150])
        if not entries.filter(action=actions.PAYLOADS_READ.event).exists():
            change.note(f"call:{call_id}", {})


def note_export(list_name: str, *, payloads: bool, filters: str, actor: Actor) -> None:
    """Record that the actor exports a list, which they may read, with these filters."""
    with transaction.atomic():
        changes = {"payloads": payloads, "filters": filters[:500]}
        note(actions.LIST_EXPORT.event, f"list:{list_name}", actor=actor.name, changes=changes)
