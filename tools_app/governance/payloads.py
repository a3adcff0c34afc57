"""Who reads what calls were given and what they answered: that stands in the audit trail as well."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from django.db import transaction
from django.utils import timezone

from tools_app.models import AuditEntry
from tools_app.models.audit import note

# Whoever looks at the same again within this time is on record already.
ONCE_IN: Final = timedelta(hours=1)


def note_payload_read(call_id: str, *, actor: str) -> None:
    """Somebody is about to read the payload of a call. Once an hour for each call and reader."""
    with transaction.atomic():
        since = timezone.now() - ONCE_IN
        entries = AuditEntry.objects.filter(subject=f"call:{call_id}", at__gte=since)
        if not entries.filter(action="payload.read", actor=actor[:150]).exists():
            note("payload.read", f"call:{call_id}", actor=actor, changes={})


def note_export(what: str, *, payloads: bool, filters: str, actor: str) -> None:
    """Somebody takes a list with them, as far as these filters let it through."""
    with transaction.atomic():
        changes = {"payloads": payloads, "filters": filters[:500]}
        note("list.export", f"list:{what}", actor=actor, changes=changes)
