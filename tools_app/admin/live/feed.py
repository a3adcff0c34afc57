"""When each kind of record changed last, as far as this process has seen."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any, Final

from django.db.models import Count, Max, Q
from django.utils import timezone

from tools_app.access import actions
from tools_app.access.actions import Action
from tools_app.base import hub
from tools_app.models import Agent, Alert, Approval, AuditEntry, Call, Connection, ErrorGroup, Revision, SourceStatus
from tools_app.models.calls import is_open

# In between, the last answer is given again.
SECONDS: Final = 0.9
MOST_ROWS: Final = 500

# The time of the newest change as far as rows tell it, and a value that differs after every change.
Version = tuple[datetime | None, Any]


def _calls() -> Version:
    newest = Call.objects.order_by("-started_at").values_list("started_at", "id", "status").first()
    return (newest[0], newest) if newest else (None, None)


def _approvals() -> Version:
    waiting = Approval.objects.waiting(timezone.now()).aggregate(number=Count("pk"), newest=Max("asked_at"))
    return waiting["newest"], tuple(waiting.values())


def _alerts() -> Version:
    unseen = Alert.objects.filter(acknowledged_at=None).aggregate(newest=Max("at"), number=Count("pk"))
    return unseen["newest"], tuple(unseen.values())


def _issues() -> Version:
    open_groups = Count("pk", filter=is_open(timezone.now()))
    newest = ErrorGroup.objects.aggregate(newest=Max("last_seen_at"), number=open_groups)
    return newest["newest"], tuple(newest.values())


def _agents() -> Version:
    rows = Agent.objects.connected().order_by("pk").values_list("pk", "called_at")[:MOST_ROWS]
    return None, tuple(rows)


def _sources() -> Version:
    rows = SourceStatus.objects.order_by("pk").values_list("pk", "availability", "error", "described_at")
    return None, tuple(rows[:MOST_ROWS])


def _connections() -> Version:
    rows = Connection.objects.aggregate(newest=Max("checked_at"), healthy=Count("pk", filter=Q(healthy=True)))
    return rows["newest"], tuple(rows.values())


def _audit() -> Version:
    newest = AuditEntry.objects.order_by("-pk").values_list("at", "pk").first()
    return (newest[0], newest[1]) if newest else (None, None)


def _tools() -> Version:
    return None, Revision.objects.values_list("tools", flat=True).first()


def _access() -> Version:
    return None, Revision.objects.values_list("access", flat=True).first()


# What a page can follow, and the reading without whose permission a user does not learn that something happened.
TOPICS: Final[dict[str, tuple[Action, Callable[[], Version]]]] = {
    "access": (actions.STOPS_READ, _access),
    "agents": (actions.AGENTS_READ, _agents),
    "alerts": (actions.ALERTS_READ, _alerts),
    "approvals": (actions.APPROVALS_READ, _approvals),
    "audit": (actions.AUDIT_READ, _audit),
    "calls": (actions.CALLS_READ, _calls),
    "connections": (actions.CONNECTIONS_READ, _connections),
    "issues": (actions.ERRORS_READ, _issues),
    "sources": (actions.SOURCES_READ, _sources),
    "tools": (actions.TOOLS_LIST, _tools),
}
# Entries after which a user may have other permissions.
_OF_PEOPLE: Final = Q(action__startswith="user.") | Q(action__startswith="group.")
_SIGN_INS: Final = (actions.USER_SIGN_IN.event, actions.USER_SIGN_OUT.event, actions.USER_SIGN_IN_FAILED.event)


class Feed:
    """A part of the hub. Its methods are for threads."""

    def __init__(self) -> None:
        # Increased when a user may have other permissions than before.
        self.permissions = 0
        self._newest_entry: int | None = None
        self._lock = threading.Lock()
        self._read_at = float("-inf")
        self._versions: dict[str, Any] = {}
        self._changed: dict[str, int] = {}

    def changed(self, topics: Collection[str]) -> dict[str, int]:
        """Topic → time of its last change in milliseconds since 1970; 0: before this process looked.

        Raises:
            DatabaseError
        """
        with self._lock:
            if time.monotonic() - self._read_at >= SECONDS:
                self._read_at = time.monotonic()  # Now: `forget` may be called meanwhile.
                try:
                    self._read()
                except Exception:
                    self.forget()
                    raise
            return {topic: self._changed[topic] for topic in topics}

    def forget(self) -> None:
        """Let the next `changed` read, however soon it is."""
        self._read_at = float("-inf")

    def _read(self) -> None:
        now = _milliseconds(timezone.now())
        for topic, (_, version_of) in TOPICS.items():
            moment, version = version_of()
            if topic not in self._versions:
                self._changed[topic] = _milliseconds(moment) if moment is not None else 0
            elif self._versions[topic] != version:
                self._changed[topic] = now
            self._versions[topic] = version
        self._check_permissions(self._versions["audit"])

    def _check_permissions(self, newest: int | None) -> None:
        before, self._newest_entry = self._newest_entry, newest
        if before is not None and newest is not None and newest > before:
            entries = AuditEntry.objects.filter(_OF_PEOPLE, pk__gt=before)
            self.permissions += entries.exclude(action__in=_SIGN_INS).exists()


def topics_of(user: Any) -> list[str]:
    """What this user can follow."""
    return [topic for topic, (reading, _) in TOPICS.items() if reading.permits(user)]


def of_hub() -> Feed:
    return hub.part(Feed)


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
