"""Kill switches: one each for the hub, a pack, a connection and a key, and maintenance, which stops all writes.

They apply from the next call on.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from django.utils import timezone

from tools_app.access import actions
from tools_app.catalog import catalog, connections
from tools_app.governance.actors import Actor, changing, clean_reason
from tools_app.models import ApiKey, Connection, Stop, ToolRecord
from tools_app.models.alerts import Event, close_alerts, note_alert
from tools_app.sdk.errors import (
    ConfigurationError,
    NotFoundError,
    Problem,
    ValidationError,
    shortened,
)

KINDS: Final = actions.STOP_KINDS
LONGEST: Final = timedelta(days=30)


def stop(kind: str, name: str = "", *, actor: Actor, reason: str = "", duration: timedelta | None = None) -> bool:
    """Refuse all calls of the hub, of a pack, through a connection, with a key or of tools that write, until an
    operator resumes it. The last one, maintenance, can end by itself after `duration`.

    Running calls are not cancelled. False: it was stopped already; nothing is changed.

    Raises:
        NotFoundError: there is nothing with that name to stop.
        ValidationError: the kind is unknown, the reason is too long, or the duration is out of bounds.
    """
    reason = clean_reason(reason)
    _check_duration(kind, duration)
    with changing(actions.STOP, actor, reason) as change:
        _check(kind, name)
        now = timezone.now()
        Stop.objects.filter(kind=kind, name=name, until__lte=now).delete()
        until = now + duration if duration is not None else None
        about = {"reason": reason, "since": now, "until": until, "by": actor.name[:150]}
        new_stop, created = Stop.objects.get_or_create(kind=kind, name=name, defaults=about)
        if created:
            changes = {"stopped": [None, now.isoformat()]}
            if until is not None:
                changes["until"] = [None, until.isoformat()]
            change.note(_subject(new_stop), changes, actions.STOP_OF[kind])
            _note_alert(Event.STOP_SET, new_stop, now)
    return created


def resume(kind: str, name: str = "", *, actor: Actor, reason: str = "") -> bool:
    """Resume what was stopped. False: it was not stopped.

    Also resumes what no longer exists, so that no stop remains that cannot be named.

    Raises:
        NotFoundError: there is nothing with that name, and no such stop.
        ValidationError: the kind is unknown.
        AuthorizationError: another caller stopped it, and this program may resume only its own stops.
    """
    with changing(actions.STOP, actor, reason) as change:
        stop = Stop.objects.select_for_update().filter(kind=kind, name=name).first()
        if stop is None:
            _check(kind, name)
            return False
        # The name of a token is chosen by its holder: it proves nothing.
        if not (stop.by == actor.name[:150] and actor.name.startswith("key:")):
            actor.require(actions.RESUME_ANY)
        stop.delete()
        if not stop.is_active(now := timezone.now()):
            return False
        close_alerts(f"stop:{stop}"[:120], actor.name, now)
        _note_alert(Event.STOP_LIFTED, stop, now)
        changes = {"stopped": [stop.since.isoformat(), None], "reason": [stop.reason, None]}
        change.note(_subject(stop), changes, actions.RESUME_OF[kind])
    return True


def _note_alert(event: Event, stop: Stop, now: datetime) -> None:
    subject, source = f"stop:{stop}"[:120], stop.name if stop.kind == Stop.Kind.PACK else ""
    values = {"kind": stop.kind, "what": stop.words}
    note_alert(event, f"{stop}:{now.isoformat()}"[:150], now, subject=subject, source=source, details=values)


def _subject(stop: Stop) -> str:
    """The subject in the audit trail, where names without a kind are tools."""
    return str(stop) if stop.name else f"stop:{stop.kind}"


def _check(kind: str, name: str) -> None:
    """Raises: NotFoundError, ValidationError."""
    match kind:
        case Stop.Kind.HUB | Stop.Kind.WRITES:
            exists = name == ""
        case Stop.Kind.PACK:
            exists = name in packs()
        case Stop.Kind.CONNECTION:
            exists = Connection.objects.filter(name=name).exists() or _is_there(name)
        case Stop.Kind.KEY:
            exists = ApiKey.objects.filter(name=name, revoked_at=None).exists()
        case _:
            raise ValidationError(problems=[Problem("/kind", f"kind must be one of {', '.join(KINDS)}")])
    if not exists:
        raise NotFoundError(f"There is no {kind} {shortened(name)!r} to stop")


def _check_duration(kind: str, duration: timedelta | None) -> None:
    """Raises: ValidationError."""
    if duration is None:
        return
    if kind != Stop.Kind.WRITES:
        raise ValidationError(problems=[Problem("/seconds", "Only maintenance (writes) ends by itself")])
    if not timedelta() < duration <= LONGEST:
        raise ValidationError(problems=[Problem("/seconds", f"Maintenance lasts at most {LONGEST.days} days")])


def packs() -> list[str]:
    """The packs that have tools."""
    rows = ToolRecord.objects.present().exclude(pack="").order_by("pack")
    return list(rows.values_list("pack", flat=True).distinct())


def _is_there(identifier: str) -> bool:
    """True if this is a connection of the environment."""
    try:
        return connections.identified(identifier, catalog.current().connection_kinds) is not None
    except (NotFoundError, ConfigurationError):
        return False
