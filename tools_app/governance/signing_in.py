"""Emergency sign-ins of superusers."""

from __future__ import annotations

import json
import logging
from datetime import timedelta
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.utils import timezone

from tools_app.access import actions
from tools_app.base import secrets
from tools_app.governance import roles
from tools_app.governance.actors import Actor, changing, clean_reason, of_user
from tools_app.models import AuditEntry
from tools_app.models.alerts import Event, close_alerts, note_alert
from tools_app.sdk.errors import AuthorizationError, ConflictError, NotFoundError, ValidationError

log = logging.getLogger("tools_app.governance")

LINK_SECONDS: Final = 600
# How long an emergency sign-in is shown as a problem, unless it is reviewed.
SHOWN_FOR: Final = timedelta(hours=24)
MOST_TOKEN: Final = 1_000
MOST_READ: Final = 1_000
_NEW_LINK: Final = "Run `toolhub breakglass` again for a new link."


def open_emergency(username: str, *, actor: Actor, reason: str = "") -> str:
    """The token of a link with which a local superuser can sign in once, within ten minutes.

    Raises:
        NotFoundError: there is no such user.
        ValidationError: the user is not a superuser, is switched off, or has no password.
    """
    users = get_user_model()
    with changing(actions.USER_BREAK_GLASS, actor, clean_reason(reason)) as change:
        try:
            user = users._default_manager.get_by_natural_key(username)
        except users.DoesNotExist:
            raise NotFoundError(f"There is no user {username!r}") from None
        if not _is_local_superuser(user):
            raise ValidationError(
                f"{username!r} is not an active superuser with a password",
                next_step="`python manage.py createsuperuser` creates one.",
            )
        change.note(of_user(user).name[:150], {"minutes": [None, LINK_SECONDS // 60]})
        now = timezone.now()
        values = {"name": username, "who": actor.name, "at": now.isoformat()}
        note_alert(Event.EMERGENCY, f"{username}:{now.isoformat()}", now, subject=_subject(user), details=values)
    log.warning("an emergency sign-in for %s was opened by %s", username, actor.name)
    return secrets.sealed(json.dumps([user.pk, _state(user)]).encode())


def user_of_emergency(token: str, *, locked: bool = False) -> Any:
    """The user of a link. `locked`: to sign in, inside the transaction that also records the sign-in.

    Raises:
        ConflictError: the link was used, is too old, or void because the user has signed in or changed since.
    """
    content = secrets.unsealed(token, LINK_SECONDS) if len(token) <= MOST_TOKEN else None
    if content is not None:
        pk, state = json.loads(content)
        users = get_user_model()._default_manager.all()
        user = (users.select_for_update() if locked else users).filter(pk=pk).first()
        if user is not None and _is_local_superuser(user) and _state(user) == state:
            return user
    raise ConflictError("This link was used already, or is older than ten minutes", next_step=_NEW_LINK)


def review_emergency(pk: int, *, actor: Actor) -> None:
    """Record that an emergency sign-in was expected, or was looked into: it is not shown as a problem any more.

    Raises:
        NotFoundError: there is no such entry.
        AuthorizationError: it is the actor's own.
    """
    with changing(roles.on_users(actions.USER_BREAK_GLASS_REVIEW), actor) as change:
        entry = next((one for one in open_emergencies() if one.pk == pk), None)
        if entry is None:
            raise NotFoundError("There is no emergency sign-in to review under this number")
        if actor.name == entry.subject:
            raise AuthorizationError(
                "An emergency sign-in is reviewed by another person",
                next_step="It is shown for 24 hours otherwise.",
            )
        change.note(entry.subject, {"entry": [None, entry.pk]})
        close_alerts(f"emergency:{entry.subject}"[:120], actor.name, timezone.now())


def open_emergencies() -> list[AuditEntry]:
    """The emergency sign-ins of the last day that were not reviewed, the newest first."""
    opened, reviewed = actions.USER_BREAK_GLASS.event, actions.USER_BREAK_GLASS_REVIEW.event
    recent = AuditEntry.objects.filter(at__gte=timezone.now() - SHOWN_FOR, action__in=(opened, reviewed))
    entries = list(recent.order_by("-pk")[:MOST_READ])
    closed = {entry.changes["entry"][1] for entry in entries if entry.action == reviewed}
    return [entry for entry in entries if entry.action == opened and entry.pk not in closed]


def _is_local_superuser(user: Any) -> bool:
    return bool(user.is_active and user.is_staff and user.is_superuser and user.has_usable_password())


def _subject(user: Any) -> str:
    return f"emergency:{of_user(user).name}"[:120]


def _state(user: Any) -> str:
    """What a sign-in or another password changes: a link is void afterwards."""
    return secrets.fingerprint(f"{user.pk} {user.last_login} {user.password}")
