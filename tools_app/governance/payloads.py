"""Audit entries for reading the arguments and answers of calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final

from django.db import transaction
from django.utils import timezone

from tools_app.access import actions
from tools_app.base import secrets
from tools_app.governance.actors import Actor
from tools_app.models import AuditEntry
from tools_app.models.audit import note, note_all
from tools_app.text import redaction

# Reading the same again within this time makes no further entry.
ONCE_IN: Final = timedelta(hours=1)


def note_payload_read(call_id: str, *, actor: Actor) -> None:
    """Record that the actor reads the payload of a call; once an hour for each call and reader."""
    actor.require(actions.PAYLOADS_READ)
    _note_once([f"call:{call_id}"], actor)


def note_payload_search(text: str, *, actor: Actor) -> None:
    """Record that the actor searches for a text in arguments of calls; once an hour for each text and searcher."""
    actor.require(actions.PAYLOADS_SEARCH)
    # Two texts can begin alike, or be masked.
    subject = f"search:{secrets.fingerprint(text)}"
    _note_once([subject], actor, actions.PAYLOADS_SEARCH.event, {"text": redaction.redacted_text(text)})


def note_arguments_read(*approval_ids: str, actor: Actor) -> None:
    """Record that the actor reads the arguments of approvals, which they may; once an hour for each and reader."""
    _note_once([f"approval:{approval_id}" for approval_id in approval_ids], actor)


def _note_once(
    subjects: Sequence[str],
    actor: Actor,
    event: str = actions.PAYLOADS_READ.event,
    changes: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    entries = AuditEntry.objects.filter(at__gte=timezone.now() - ONCE_IN, actor=actor.name[:150], action=event)
    noted = set(entries.filter(subject__in=subjects).values_list("subject", flat=True))
    if missing := [subject for subject in subjects if subject not in noted]:
        with transaction.atomic():
            note_all([(event, subject, dict(changes)) for subject in missing], actor=actor.name)


def note_export(list_name: str, *, payloads: bool, filters: str, actor: Actor) -> None:
    """Record that the actor exports a list, which they may read, with these filters."""
    with transaction.atomic():
        changes = {"payloads": payloads, "filters": redaction.redacted_query(filters)[:500]}
        note(actions.LIST_EXPORT.event, f"list:{list_name}", actor=actor.name, changes=changes)
