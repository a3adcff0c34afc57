"""Sessions of people in the admin: who is signed in from where, and how one ends before its time.

The session itself is Django's. A row here follows it: written when a request uses the session, at most once a minute.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Final

from django.apps import apps
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, SESSION_KEY
from django.db import DatabaseError, transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.module_loading import import_string

from tools_app.access import actions
from tools_app.base import conf
from tools_app.governance import roles, users
from tools_app.governance.actors import Actor, of_user
from tools_app.models import BrowserSession
from tools_app.models.audit import current_origin, note_all

log = logging.getLogger("tools_app.governance")

_WRITTEN_EVERY: Final = timedelta(minutes=1)


def follow_session(session: Any, *, is_page: bool = True, is_by_person: bool = True) -> bool:
    """Note that a request uses this session. False: it has been unused for too long, and must end.

    What a page asks by itself is no use: otherwise an open page would keep its session for ever.

    Only pages begin to follow a session: a project without our middleware has none that end in this way. If it cannot
    be written, the session is used all the same: pages stay readable when the disk is full.
    """
    key, user_id = session.session_key, session.get(SESSION_KEY)
    if key is None or user_id is None:
        return True
    now = timezone.now()
    seen_at = BrowserSession.objects.filter(session_key=key).values_list("seen_at", flat=True).first()
    if seen_at is not None:
        if now - seen_at >= timedelta(seconds=conf.value("TOOLHUB_SESSION_IDLE_SECONDS")):
            return False
        if not is_by_person or now - seen_at < _WRITTEN_EVERY:
            return True
    elif not is_page:
        return True
    try:
        with transaction.atomic():
            _write(session, user_id)
    except DatabaseError as error:
        log.warning("the use of a session could not be recorded", exc_info=error)
    return True


def end_idle_session(session_key: str) -> None:
    """Of a session that was not used for too long."""
    _end([session_key])


def open_sessions() -> QuerySet[BrowserSession]:
    """The sessions that have not ended, the last used first."""
    if not apps.is_installed("django.contrib.sessions"):
        return BrowserSession.objects.none()
    now = timezone.now()
    stored = apps.get_model("sessions", "Session")._default_manager.filter(expire_date__gt=now)
    limit = now - timedelta(seconds=conf.value("TOOLHUB_SESSION_IDLE_SECONDS"))
    return BrowserSession.objects.filter(session_key__in=stored.values("session_key"), seen_at__gt=limit)


def end_sessions(sessions: Iterable[BrowserSession], *, actor: Actor, reason: str = "") -> int:
    """End sessions: the next request of each is refused, in every process. Everyone can end their own.

    Raises:
        AuthorizationError: one is another user's, and the actor cannot change users, or lacks permissions of that one.
    """
    sessions = list(sessions)
    by_user: dict[Any, list[BrowserSession]] = {}
    for session in sessions:
        by_user.setdefault(session.user_id, []).append(session)
    with transaction.atomic():
        entries = []
        for own in by_user.values():
            user, subject = own[0].user, of_user(own[0].user).name[:150]
            if actor.name[:150] != subject:
                actor.require(roles.on_users(actions.USER_END_SESSION))
                users.refuse_beyond(actor, user)
            changes = {"sessions": [len(own), 0], "addresses": [sorted({one.address for one in own}), []]}
            entries.append((actions.USER_END_SESSION.event, subject, changes))
        ended = _end([session.session_key for session in sessions])
        note_all(entries, actor=actor.name, reason=reason)
    return ended


def _write(session: Any, user_id: str) -> None:
    now, (address, client) = timezone.now(), current_origin()
    about = {"seen_at": now, "address": address, "client": client}
    if BrowserSession.objects.filter(session_key=session.session_key).update(**about):
        return
    new = BrowserSession(
        session_key=session.session_key,
        user_id=user_id,
        caller_id=f"user:{user_id}",
        method=_method(session.get(BACKEND_SESSION_KEY, "")),
        started_at=now,
        **about,
    )
    # Of two first requests at once, one writes it.
    BrowserSession.objects.bulk_create([new], ignore_conflicts=True)


def _method(backend: str) -> str:
    """How the user has signed in: with a password, or what the backend says of itself, or its package."""
    if backend.endswith("ModelBackend"):
        return "password"
    return str(getattr(import_string(backend), "channel", backend.partition(".")[0]))[:30]


def _end(session_keys: list[str]) -> int:
    BrowserSession.objects.filter(session_key__in=session_keys).delete()
    if not apps.is_installed("django.contrib.sessions") or not settings.SESSION_ENGINE.endswith(".db"):
        return 0
    stored = apps.get_model("sessions", "Session")._default_manager.filter(session_key__in=session_keys)
    return int(stored.delete()[0])
