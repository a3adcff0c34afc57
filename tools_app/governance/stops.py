"""Kill switches: one each for the hub, a pack, a connection and a key. They apply from the next call on."""

from __future__ import annotations

from typing import Final

from django.db import transaction
from django.utils import timezone

from tools_app.catalog import connections
from tools_app.models import ApiKey, Connection, Stop, ToolRecord
from tools_app.models.audit import note
from tools_app.models.stops import MOST_REASON
from tools_app.sdk.errors import (
    AuthorizationError,
    ConfigurationError,
    NotFoundError,
    Problem,
    ValidationError,
    shortened,
)

KINDS: Final = tuple(str(kind) for kind in Stop.Kind)


def stop(kind: str, name: str = "", *, actor: str, reason: str = "") -> bool:
    """Refuse all calls of the hub, of a pack, through a connection or with a key, until an operator resumes it.

    Running calls are not cancelled. False: it was stopped already; nothing is changed.

    Raises:
        NotFoundError: there is nothing with that name to stop.
        ValidationError: the kind is unknown, or the reason is too long.
    """
    reason = reason.strip()
    if len(reason) > MOST_REASON:
        raise ValidationError(problems=[Problem("/reason", f"A reason has at most {MOST_REASON} characters")])
    with transaction.atomic():
        _check(kind, name)
        new_stop, created = Stop.objects.get_or_create(
            kind=kind, name=name, defaults={"reason": reason, "since": timezone.now(), "by": actor[:150]}
        )
        if created:
            changes = {"stopped": [None, new_stop.since.isoformat()]}
            note(f"{kind}.stop", _subject(new_stop), actor=actor, reason=reason, changes=changes)
    return created


def resume(kind: str, name: str = "", *, actor: str, reason: str = "", own_only: bool = False) -> bool:
    """Resume what was stopped. False: it was not stopped. `own_only`: only if this key has stopped it.

    Also resumes what no longer exists, so that no stop remains that cannot be named.

    Raises:
        NotFoundError: there is nothing with that name, and no such stop.
        ValidationError: the kind is unknown.
        AuthorizationError: another caller stopped it, and only own stops may be resumed.
    """
    with transaction.atomic():
        existing = Stop.objects.select_for_update().filter(kind=kind, name=name).first()
        if existing is None:
            _check(kind, name)
            return False
        # The name of a token is chosen by its holder: it proves nothing.
        if own_only and not (existing.by == actor[:150] and actor.startswith("key:")):
            raise AuthorizationError(
                "Permission denied: your key may resume only what it stopped itself",
                next_step="Ask an operator to resume it in the admin, or use a key with admin:*.",
            )
        existing.delete()
        changes = {"stopped": [existing.since.isoformat(), None], "reason": [existing.reason, None]}
        note(f"{kind}.resume", _subject(existing), actor=actor, reason=reason, changes=changes)
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
        return connections.identified(identifier) is not None
    except (NotFoundError, ConfigurationError):
        return False
