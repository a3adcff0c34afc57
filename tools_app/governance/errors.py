"""Changes of error groups: resolve, ignore, snooze, reopen, assign, note."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from tools_app.access import actions
from tools_app.governance.actors import Actor, Change, changing, clean_reason
from tools_app.models import ErrorGroup, ErrorNote
from tools_app.models.alerts import close_alerts
from tools_app.sdk.errors import NotFoundError, Problem, ValidationError

# Longer discussions belong into an issue tracker.
MOST_NOTES: Final = 100
MOST_ASSIGNEES: Final = 200
MOST_OCCURRENCES: Final = 1_000_000
LONGEST_SNOOZE: Final = timedelta(days=366)
_NOT_MUTED: Final = {
    "muted_at": None,
    "muted_by": "",
    "mute_reason": "",
    "muted_until": None,
    "muted_until_count": None,
}
State = ErrorGroup.State


def resolve_errors(fingerprints: Iterable[str], *, actor: Actor, reason: str = "") -> list[str]:
    """Mark error groups as resolved. Returns those that were not; a new error of the kind reopens its group."""
    now = timezone.now()
    with changing(actions.ERROR_RESOLVE, actor, reason) as change:
        groups = _lock(fingerprints).filter(resolved_at=None)
        changes = {
            group.pk: {"error": [None, str(group)], "resolved_at": [None, now.isoformat()], **_unmuted(group, now)}
            for group in groups
        }
        values = {**_NOT_MUTED, "resolved_at": now, "resolved_by": actor.name[:150]}
        ErrorGroup.objects.filter(pk__in=changes).update(**values)
        _note(change, changes)
        _close_alerts(changes, actor, now)
    return list(changes)


def reopen_errors(fingerprints: Iterable[str], *, actor: Actor, reason: str = "") -> list[str]:
    """Reopen error groups. Returns those that were resolved, ignored or snoozed."""
    now = timezone.now()
    with changing(actions.ERROR_REOPEN, actor, reason) as change:
        closed = [group for group in _lock(fingerprints) if group.state_at(now) is not State.OPEN]
        changes = {group.pk: {"error": [None, str(group)], **_unmuted(group, now)} for group in closed}
        for group in closed:
            if group.resolved_at is not None:
                changes[group.pk]["resolved_at"] = [group.resolved_at.isoformat(), None]
        # `reopened_at` is for groups that were reopened by a new error.
        values = {**_NOT_MUTED, "resolved_at": None, "resolved_by": "", "reopened_at": None}
        ErrorGroup.objects.filter(pk__in=changes).update(**values)
        _note(change, changes)
    return list(changes)


def ignore_errors(
    fingerprints: Iterable[str], *, actor: Actor, reason: str, occurrences: int | None = None
) -> list[str]:
    """Ignore error groups: for good, or until as many more errors have occurred. Returns those that were not ignored.

    Raises:
        ValidationError: there is no reason, or the number is out of range.
    """
    text = clean_reason(reason)
    if not text:
        raise ValidationError(problems=[Problem("/reason", "A reason is required to ignore an issue")])
    if occurrences is not None and not 1 <= occurrences <= MOST_OCCURRENCES:
        told = f"The number of errors must be from 1 to {MOST_OCCURRENCES:,}"
        raise ValidationError(problems=[Problem("/occurrences", told)])
    now = timezone.now()
    with changing(actions.ERROR_IGNORE, actor, reason) as change:
        groups = [one for one in _lock(fingerprints) if one.state_at(now) in (State.OPEN, State.SNOOZED)]
        changes = {}
        for group in groups:
            until = "for good" if occurrences is None else f"{group.count + occurrences:,} errors"
            changes[group.pk] = {"error": [None, str(group)], "ignored_until": [None, until]}
        until_count = None if occurrences is None else F("count") + occurrences
        _mute(changes, actor, now, text, {"muted_until": None, "muted_until_count": until_count})
        _note(change, changes)
        _close_alerts(changes, actor, now)
    return list(changes)


def snooze_errors(fingerprints: Iterable[str], until: datetime, *, actor: Actor, reason: str = "") -> list[str]:
    """Snooze error groups: they are open again at that time. Returns those that were not resolved.

    Raises:
        ValidationError: the time is past, or too far away.
    """
    text, now = clean_reason(reason), timezone.now()
    if not now < until <= now + LONGEST_SNOOZE:
        told = f"The end must be in the future, and within {LONGEST_SNOOZE.days} days"
        raise ValidationError(problems=[Problem("/until", told)])
    with changing(actions.ERROR_SNOOZE, actor, reason) as change:
        changes = {}
        for group in _lock(fingerprints).filter(resolved_at=None):
            earlier = group.muted_until if group.state_at(now) is State.SNOOZED else None
            if earlier != until:
                times = [earlier and earlier.isoformat(), until.isoformat()]
                changes[group.pk] = {"error": [None, str(group)], "snoozed_until": times}
        _mute(changes, actor, now, text, {"muted_until": until, "muted_until_count": None})
        _note(change, changes)
        _close_alerts(changes, actor, now)
    return list(changes)


def assign_errors(fingerprints: Iterable[str], username: str | None, *, actor: Actor, reason: str = "") -> list[str]:
    """Assign error groups to a user; None: unassign them. Returns those that had another assignee.

    Raises:
        ValidationError: there is no such user, or one who may not resolve issues.
    """
    with changing(actions.ERROR_ASSIGN, actor, reason) as change:
        user = _assignee(username) if username else None
        assignee_id = None if user is None else user.pk
        groups = [group for group in _lock(fingerprints) if group.assignee_id != assignee_id]
        # Read apart: the lock of the issues must not reach users.
        people = get_user_model()._default_manager.in_bulk([one.assignee_id for one in groups if one.assignee_id])
        changes = {}
        for group in groups:
            names = [one and one.get_username() for one in (people.get(group.assignee_id), user)]
            changes[group.pk] = {"error": [None, str(group)], "assignee": names}
        ErrorGroup.objects.filter(pk__in=changes).update(assignee=user)
        _note(change, changes)
    return list(changes)


def assignees() -> list[Any]:
    """The users to whom issues can be assigned, by name: active, and permitted to resolve them."""
    return list(_resolvers().order_by(get_user_model().USERNAME_FIELD)[:MOST_ASSIGNEES])


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


def _mute(fingerprints: Iterable[str], actor: Actor, now: datetime, reason: str, until: Mapping[str, Any]) -> None:
    values = {"muted_at": now, "muted_by": actor.name[:150], "mute_reason": reason, **until}
    ErrorGroup.objects.filter(pk__in=list(fingerprints)).update(**values)


def _unmuted(group: ErrorGroup, now: datetime) -> dict[str, Any]:
    """What the audit trail says of a mute that ends early."""
    state = group.state_at(now)
    return {"state": [state.value, None]} if state in (State.IGNORED, State.SNOOZED) else {}


def _resolvers() -> QuerySet[Any]:
    label, _, codename = actions.ERROR_RESOLVE.permission.partition(".")
    permissions = Permission.objects.filter(content_type__app_label=label, codename=codename)
    may = Q(is_superuser=True) | Q(user_permissions__in=permissions) | Q(groups__permissions__in=permissions)
    return get_user_model()._default_manager.filter(may, is_active=True, is_staff=True).distinct()


def _assignee(username: str) -> Any:
    # PostgreSQL takes no NUL.
    named = (get_user_model().USERNAME_FIELD, username)
    user = _resolvers().filter(named).first() if "\x00" not in username else None
    if user is None:
        told = "There is no active user of this name who may resolve issues"
        raise ValidationError(problems=[Problem("/user", told)])
    return user


def _close_alerts(fingerprints: Iterable[str], actor: Actor, now: datetime) -> None:
    for fingerprint in fingerprints:
        close_alerts(f"issue:{fingerprint}", actor.name, now)


def _note(change: Change, changes_by_group: Mapping[str, dict[str, Any]]) -> None:
    for fingerprint, changes in changes_by_group.items():
        change.note(f"error:{fingerprint}", changes)
