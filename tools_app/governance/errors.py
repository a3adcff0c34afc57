"""Changes of groups of errors: whether somebody calls them resolved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from tools_app.models import ErrorGroup, ErrorNote
from tools_app.models.audit import note, note_all
from tools_app.sdk.errors import NotFoundError, ValidationError

# Who writes more about one error has a place for it elsewhere.
MOST_NOTES: Final = 100


def resolve_errors(fingerprints: Iterable[str], *, actor: str, reason: str = "") -> list[str]:
    """Call groups of errors resolved. Returns those that were open; what happens again opens its group by itself."""
    now = timezone.now()
    with transaction.atomic():
        groups = _locked(fingerprints).filter(resolved_at=None)
        changed = {group.pk: {"error": [None, str(group)], "resolved_at": [None, now.isoformat()]} for group in groups}
        ErrorGroup.objects.filter(pk__in=changed).update(resolved_at=now, resolved_by=actor[:150])
        _note_errors("error.resolve", changed, actor=actor, reason=reason)
    return list(changed)


def reopen_errors(fingerprints: Iterable[str], *, actor: str, reason: str = "") -> list[str]:
    """Take that back. Returns the groups that were resolved."""
    with transaction.atomic():
        groups = _locked(fingerprints).exclude(resolved_at=None)
        changed = {
            group.pk: {
                "error": [None, str(group)],
                "resolved_at": [group.resolved_at and group.resolved_at.isoformat(), None],
            }
            for group in groups
        }
        # `reopened_at` is for what came back by itself.
        ErrorGroup.objects.filter(pk__in=changed).update(resolved_at=None, resolved_by="", reopened_at=None)
        _note_errors("error.reopen", changed, actor=actor, reason=reason)
    return list(changed)


def add_error_note(fingerprint: str, text: str, *, actor: str) -> ErrorNote:
    """Leave a word about a group of errors for whoever looks at it next.

    Raises:
        NotFoundError: there is no such group.
        ValidationError: the text is empty or too long, or there are too many notes.
    """
    text = text.strip()
    if not text or len(text) > ErrorNote.MOST_CHARACTERS:
        raise ValidationError(f"A note has 1 to {ErrorNote.MOST_CHARACTERS:,} characters")
    with transaction.atomic():
        group = _locked([fingerprint]).first()
        if group is None:
            raise NotFoundError("There is no such error")
        if group.notes.count() >= MOST_NOTES:
            raise ValidationError(f"There are {MOST_NOTES} notes on this error; no more are kept")
        made = ErrorNote.objects.create(group=group, at=timezone.now(), author=actor[:150], text=text)
        changes = {"error": [None, str(group)], "note": [None, text]}
        note("error.note", f"error:{fingerprint}", actor=actor, changes=changes)
    return made


def _locked(fingerprints: Iterable[str]) -> QuerySet[ErrorGroup]:
    """In the order in which the journal takes them, so that neither waits for the other."""
    return ErrorGroup.objects.select_for_update().filter(pk__in=list(fingerprints)).order_by("pk")


def _note_errors(action: str, changed: Mapping[str, dict[str, Any]], *, actor: str, reason: str) -> None:
    entries = [(action, f"error:{fingerprint}", changes) for fingerprint, changes in changed.items()]
    note_all(entries, actor=actor, reason=reason)
