"""Deletes and redacts sealed entries. Their digests stay, with a mark that only the hub can make."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from django.db import transaction
from django.utils import timezone

from tools_app.journal.trail import digests, keys
from tools_app.models import AuditEntry, AuditSeal

_CHANGED = ("changed_at", "changed_by", "content", "mark")


def delete_entries(ids: Sequence[int]) -> int:
    """Delete those of these entries that are sealed."""
    key = keys.current()
    with transaction.atomic():
        seals = _locked(ids)
        now = timezone.now()
        for seal in seals:
            seal.changed_at, seal.changed_by, seal.content = now, None, None
            _mark(key, seal)
        AuditSeal.objects.bulk_update(seals, _CHANGED)
        entries = AuditEntry.objects.filter(pk__in=[seal.entry_id for seal in seals])
        return entries._raw_delete(entries.db)


def redact_entries(ids: Sequence[int], redact: Callable[[AuditEntry], None], *, by: int) -> int:
    """Let a function redact those of these entries that are sealed. `by` is the entry that records it."""
    key = keys.current()
    with transaction.atomic():
        seals = {seal.entry_id: seal for seal in _locked(ids)}
        entries = list(AuditEntry.objects.filter(pk__in=seals))
        for entry in entries:
            redact(entry)
        AuditEntry.objects.bulk_update(entries, ("actor", "subject", "changes", "reason", "address", "client"))
        now = timezone.now()
        for row in digests.rows_of([entry.pk for entry in entries]):
            seal = seals[row.id]
            seal.changed_at, seal.changed_by, seal.content = now, by, digests.of_entry(key.secret, row)
            _mark(key, seal)
        AuditSeal.objects.bulk_update([seals[entry.pk] for entry in entries], _CHANGED)
        return len(entries)


def _locked(ids: Sequence[int]) -> list[AuditSeal]:
    return list(AuditSeal.objects.select_for_update().filter(entry_id__in=ids).order_by("entry_id"))


def _mark(key: keys.Key, seal: AuditSeal) -> None:
    seal.digest = digests.plain_bytes(seal.digest)
    seal.mark = f"{key.id}:{digests.of_mark(key.secret, seal)}"
