"""Which alerts a user or program can see: those about what it can read elsewhere."""

from __future__ import annotations

from typing import Final

from django.db.models import QuerySet

from tools_app.access import actions
from tools_app.access.actions import Action, User
from tools_app.models import Alert
from tools_app.models.alerts import Event
from tools_app.sdk.context import Caller

READINGS: Final[dict[Event, Action]] = {
    Event.APPROVAL_REQUESTED: actions.APPROVALS_READ,
    Event.APPROVAL_EXPIRING: actions.APPROVALS_READ,
    Event.APPROVAL_EXPIRED: actions.APPROVALS_READ,
    Event.ISSUE_NEW: actions.ERRORS_READ,
    Event.ISSUE_REOPENED: actions.ERRORS_READ,
    Event.ERROR_RATE: actions.ERRORS_READ,
    Event.CONNECTION_FAILING: actions.CONNECTIONS_READ,
    Event.CONNECTION_RECOVERED: actions.CONNECTIONS_READ,
    Event.SOURCE_FAILING: actions.SOURCES_READ,
    Event.SOURCE_RECOVERED: actions.SOURCES_READ,
    Event.STOP_SET: actions.STOPS_READ,
    Event.STOP_LIFTED: actions.STOPS_READ,
    Event.DEFINITION_HELD: actions.DEFINITIONS_READ,
    Event.FILE_BROKEN: actions.SOURCES_READ,
    Event.KEY_EXPIRING: actions.KEYS_READ,
    Event.BUDGET_REACHED: actions.KEYS_READ,
    Event.BACKUP_OVERDUE: actions.AUDIT_READ,
    Event.DISK_LOW: actions.AUDIT_READ,
    Event.EMERGENCY: actions.AUDIT_READ,
}


def visible(principal: Caller | User) -> QuerySet[Alert]:
    """The alerts that this caller or user may see."""
    if not actions.ALERTS_READ.permits(principal):
        return Alert.objects.none()
    hidden = [event.value for event, reading in READINGS.items() if not reading.permits(principal)]
    return Alert.objects.exclude(event__in=hidden) if hidden else Alert.objects.all()
