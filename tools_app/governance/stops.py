"""Kill switches: one each for the hub, a pack, a connection and a key. They apply from the next call on."""

from __future__ import annotations

from typing import Final

from django.utils import timezone

from tools_app.access import actions
from tools_app.catalog import catalog, connections
from tools_app.governance.actors import Actor, changing, clean_reason
from tools_app.models import ApiKey, Connection, Stop, ToolRecord
from tools_app.sdk.errors import (
    ConfigurationError,
    NotFoundError,
    Problem,
    ValidationError,
    shortened,
)

KINDS: Final = actions.STOP_KINDS


def stop(kind: str, name: str = "", *, actor: Actor, reason: str = "") -> bool:
    """Refuse all calls of the hub, of a pack, through a connection or with a key, until an operator resumes it.

    Running calls are not cancelled. False: it was stopped already; nothing is changed.

    Raises:
        NotFoundError: there is nothing with that name to stop.
        ValidationError: the kind is unknown, or the reason is too long.
    """
    reason = clean_reason(reason)
    with changing(actions.STOP, actor, reason) as change:
        _check(kind, name)
        new_stop, created = Stop.objects.get_or_create(
            kind=kind, name=name, defaults={"reason": reason, "since": timezone.now(), "by": actor.name[:150]}
        )
        if created:
            change.note(_subject(new_stop), {"stopped": [None, new_stop.since.isoformat()]}, actions.STOP_OF[kind])
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
        changes = {"stopped": [stop.since.isoformat(), None], "reason": [stop.reason, None]}
        change.note(_subject(stop), changes, actions.RESUME_OF[kind])
    return True


def _subject(stop: Stop) -> str:
    """The subject in the audit trail, where names without a kind are tools."""
    return str(stop) if stop.name else f"stop:{stop.kind}"


def _check(kind: str, name: str) -> None:
    """Raises: NotFoundError, ValidationError."""
    match kind:
        case Stop.Kind.HUB:
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
