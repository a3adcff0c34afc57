"""Changes of error groups: resolve, reopen, note."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from tools_app.models import ErrorGroup, ErrorNote
from tools_app.models.audit import note, note_all
from tools_app.sdk.errors import NotFoundError, ValidationError

# Longer discussions belong into an issue tracker.
MOST_NOTES: Final = 100


def resolve_errors(fingerprints: Iterable[str], *, actor: str, reason: str = "") -> list[str]:
    """Mark error groups as resolved. Returns those that were open; a new error of the kind reopens its group."""
    now = timezone.now()
    with transaction.atomic():
        groups = _lock(fingerprints).filter(resolved_at=None)
        changed = {group.pk: {"error": [None, str(group)], "resolved_at": [None, now.isoformat()]} for group in groups}
        ErrorGroup.objects.filter(pk__in=changed).update(resolved_at=now, resolved_by=actor[:150])
        _note_errors("error.resolve", changed, actor=actor, reason=reason)
    return list(changed)


def reopen_errors(fingerprints: Iterable[str], *, actor: str, reason: str = "") -> list[str]:
    """Reopen error groups. Returns those that were resolved."""
    with transaction.atomic():
        groups = _lock(fingerprints).exclude(resolved_at=None)
        changed = {
            group.pk: {
                "error": [None, str(group)],
                "resolved_at": [group.resolved_at and group.resolved_at.isoformat(), None],
            }
            for group in groups
        }
        # `reopened_at` is for groups that were reopened by a new error.
        ErrorGroup.objects.filter(pk__in=changed).update(resolved_at=None, resolved_by="", reopened_at=None)
        _note_errors("error.reopen", changed, actor=actor, reason=reason)
    return list(changed)


def add_error_note(fingerprint: str, text: str, *, actor: str) -> ErrorNote:
    """Add a note to an error group.

    Raises:
        NotFoundError: there is no such group.
        ValidationError: the text is empty or too long, or there are too many notes.
    """
    text = text.strip()
    if not text or len(text) > ErrorNote.MOST_CHARACTERS:
        raise ValidationError(f"A note has 1 to {ErrorNote.MOST_CHARACTERS:,} characters")
    with transaction.atomic():
        group = _lock([fingerprint]).first()
        if group is None:
            raise NotFoundError("There is no such error")
        if group.notes.count() >= MOST_NOTES:
            raise ValidationError(f"There are {MOST_NOTES} notes on this error; no more can be added")
        error_note = ErrorNote.objects.create(group=group, at=timezone.now(), author=actor[:150], text=text)
        changes = {"error": [None, str(group)], "note": [None, text]}
        note("error.note", f"error:{fingerprint}", actor=actor, changes=changes)
    return error_note


def _lock(fingerprints: Iterable[str]) -> QuerySet[ErrorGroup]:
    """In the order in which the journal locks them, which avoids deadlocks."""
    return ErrorGroup.objects.select_for_update().filter(pk__in=list(fingerprints)).order_by("pk")


def _note_errors(action: str, changed: Mapping[str, dict[str, Any]], *, actor: str, reason: str) -> None:
    entries = [(action, f"error:{fingerprint}", changes) for fingerprint, changes in changed.items()]
    note_all(entries, actor=actor, reason=reason)
