"""Changes of error groups: resolve, reopen, note."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from django.db.models import QuerySet
from django.utils import timezone

from tools_app.access import actions
from tools_app.governance.actors import Actor, Change, changing
from tools_app.models import ErrorGroup, ErrorNote
from tools_app.models.alerts import close_alerts
from tools_app.sdk.errors import NotFoundError, ValidationError

# Longer discussions belong into an issue tracker.
MOST_NOTES: Final = 100


def resolve_errors(fingerprints: Iterable[str], *, actor: Actor, reason: str = "") -> list[str]:
    """Mark error groups as resolved. Returns those that were open; a new error of the kind reopens its group."""
    now = timezone.now()
    with changing(actions.ERROR_RESOLVE, actor, reason) as change:
        groups = _lock(fingerprints).filter(resolved_at=None)
        changes = {group.pk: {"error": [None, str(group)], "resolved_at": [None, now.isoformat()]} for group in groups}
        ErrorGroup.objects.filter(pk__in=changes).update(resolved_at=now, resolved_by=actor.name[:150])
        _note(change, changes)
        for fingerprint in changes:
            close_alerts(f"issue:{fingerprint}", actor.name, now)
    return list(changes)


def reopen_errors(fingerprints: Iterable[str], *, actor: Actor, reason: str = "") -> list[str]:
    """Reopen error groups. Returns those that were resolved."""
    with changing(actions.ERROR_REOPEN, actor, reason) as change:
        groups = _lock(fingerprints).exclude(resolved_at=None)
        changes = {
            group.pk: {
                "error": [None, str(group)],
                "resolved_at": [group.resolved_at and group.resolved_at.isoformat(), None],
            }
            for group in groups
        }
        # `reopened_at` is for groups that were reopened by a new error.
        ErrorGroup.objects.filter(pk__in=changes).update(resolved_at=None, resolved_by="", reopened_at=None)
        _note(change, changes)
    return list(changes)


def add_error_note(fingerprint: str, text: str, *, actor: Actor) -> ErrorNote:
    """Add a note to an error group.

    Raises:
        NotFoundError: there is no such group.
        ValidationError: the text is empty or too long, or there are too many notes.
    """
    text = text.strip()
    if not text or len(text) > ErrorNote.MOST_CHARACTERS:
        raise ValidationError(f"A note has 1 to {ErrorNote.MOST_CHARACTERS:,} characters")
    with changing(actions.ERROR_NOTE, actor) as change:
        group = _lock([fingerprint]).first()
        if group is None:
            raise NotFoundError("There is no such error")
        if group.notes.count() >= MOST_NOTES:
            raise ValidationError(f"There are {MOST_NOTES} notes on this error; no more can be added")
        error_note = ErrorNote.objects.create(group=group, at=timezone.now(), author=actor.name[:150], text=text)
        change.note(f"error:{fingerprint}", {"error": [None, str(group)], "note": [None, text]})
    return error_note


def _lock(fingerprints: Iterable[str]) -> QuerySet[ErrorGroup]:
    """In the order in which the journal locks them, which avoids deadlocks."""
    return ErrorGroup.objects.select_for_update().filter(pk__in=list(fingerprints)).order_by("pk")


def _note(change: Change, changes_by_group: Mapping[str, dict[str, Any]]) -> None:
    for fingerprint, changes in changes_by_group.items():
        change.note(f"error:{fingerprint}", changes)
