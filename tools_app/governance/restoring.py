"""What changes with a backup: the audit trail notes it, and a restored hub must not repeat what happened since."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from django.apps import apps
from django.db import connection
from django.utils import timezone

from tools_app.access import actions
from tools_app.governance.actors import Actor, changing
from tools_app.models import (
    Agent,
    ApiKey,
    Approval,
    BrowserSession,
    Chore,
    PasswordLink,
    Process,
    Revision,
    SignIn,
    StandingApproval,
    Stop,
)
from tools_app.models.revision import Numbers, numbers

# The task whose last run is the last good backup.
CHORE: Final = "backup"
# What a change of a key's secret or state sets.
_CREDENTIALS: Final = (
    "hash", "prefix", "previous_hash", "previous_prefix", "previous_until", "rotated_at", "expires_at", "revoked_at",
)  # fmt: skip
_APPROVAL_REASON: Final = "The hub was restored from a backup: request approval again"

# A key by number and time of creation: names and secrets change.
KeyId = tuple[int, datetime]


@dataclass(frozen=True, slots=True)
class Present:
    """What a hub that is replaced knows, and the backup may not."""

    credentials: Mapping[KeyId, Mapping[str, Any]]
    stops: tuple[Stop, ...]
    numbers: Numbers


@dataclass(frozen=True, slots=True)
class Settled:
    """What a restore ended."""

    sessions: int
    approvals: int
    # Names of keys that are stopped until an operator resumes them.
    keys_off: list[str]
    # Names of keys that were revoked after the backup.
    keys_revoked: list[str]


def note_backup(made_at: datetime, facts: Mapping[str, Any], *, actor: Actor) -> None:
    """Record a good backup."""
    with changing(actions.BACKUP_CREATE, actor) as change:
        Chore.objects.update_or_create(name=CHORE, defaults={"done_at": made_at})
        change.note("hub", {name: [None, value] for name, value in facts.items()})


def present_state() -> Present:
    """Of the database that is about to be replaced."""
    columns = ApiKey.objects.values("pk", "created_at", *_CREDENTIALS)
    credentials = {(row.pop("pk"), row.pop("created_at")): row for row in columns}
    return Present(credentials, tuple(Stop.objects.all()), numbers(connection))


def settle_restored(
    file: str, made_at: datetime, present: Present | None, *, keys_as_of_backup: bool, actor: Actor
) -> Settled:
    """End what must not continue after a restore, in the restored database, before it is used.

    Sessions end, and open approvals, which may have been used since. Keys that the replaced hub knows get its
    secrets, expiry and revocation. All keys are stopped until an operator resumes each, unless `keys_as_of_backup`.
    """
    with changing(actions.BACKUP_RESTORE, actor) as change:
        now = timezone.now()
        sessions = 0
        if apps.is_installed("django.contrib.sessions"):
            sessions = apps.get_model("sessions", "Session")._default_manager.all().delete()[0]
        for model in (Agent, BrowserSession, PasswordLink, Process, SignIn):
            model._default_manager.all().delete()
        open_states = (Approval.State.PENDING, Approval.State.APPROVED)
        approvals = Approval.objects.filter(state__in=open_states).update(
            state=Approval.State.REFUSED, decided_at=now, decided_by=actor.name[:150], reason=_APPROVAL_REASON
        )
        approvals += StandingApproval.objects.active(now).update(revoked_at=now, revoked_by=actor.name[:150])
        revoked = _take_over(present) if present is not None else []
        keys_off = [] if keys_as_of_backup else _stop_keys(made_at, now, actor)
        Chore.objects.update_or_create(name=CHORE, defaults={"done_at": made_at})
        _raise_numbers(present, now)
        facts = {
            "file": file,
            "made_at": made_at.isoformat(),
            "sessions_ended": sessions,
            "approvals_ended": approvals,
            "keys_off": len(keys_off),
        }
        change.note("hub", {name: [None, value] for name, value in facts.items()})
    return Settled(sessions, approvals, keys_off, revoked)


def _take_over(present: Present) -> list[str]:
    """Credentials and stops of the replaced hub. Returns the names of keys that are revoked by it."""
    revoked = []
    for key in ApiKey.objects.all():
        credentials = present.credentials.get((key.pk, key.created_at))
        if credentials is None:
            continue
        if credentials["revoked_at"] is not None and key.revoked_at is None:
            revoked.append(key.name)
        # What is revoked in either stays so.
        own = {**credentials, "revoked_at": credentials["revoked_at"] or key.revoked_at}
        ApiKey.objects.filter(pk=key.pk).update(**{name: own[name] for name in _CREDENTIALS})
    for stop in present.stops:
        about = {"reason": stop.reason, "since": stop.since, "until": stop.until, "by": stop.by}
        Stop.objects.get_or_create(kind=stop.kind, name=stop.name, defaults=about)
    return revoked


def _stop_keys(made_at: datetime, now: datetime, actor: Actor) -> list[str]:
    stopped = set(Stop.objects.filter(kind=Stop.Kind.KEY).values_list("name", flat=True))
    names = [name for name in ApiKey.objects.usable(now).values_list("name", flat=True) if name not in stopped]
    reason = f"the hub was restored from the backup of {made_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    Stop.objects.bulk_create(
        Stop(kind=Stop.Kind.KEY, name=name, reason=reason, since=now, by=actor.name[:150]) for name in names
    )
    return names


def _raise_numbers(present: Present | None, now: datetime) -> None:
    """Beyond any number that a process has seen: counters begin at the time in microseconds, and increase by one."""
    floor = Numbers(*[int(now.timestamp() * 1_000_000)] * 3)
    known = (numbers(connection), present.numbers if present is not None else floor, floor)
    value, tools, access = (max(each) + 1 for each in zip(*known, strict=True))
    Revision.objects.update_or_create(pk=1, defaults={"value": value, "tools": tools, "access": access})
