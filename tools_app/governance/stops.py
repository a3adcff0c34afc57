"""The stops: one switch each for the hub, a pack, a connection and a key. The very next call is refused."""

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
    """Refuse every call of the hub, of a pack, through a connection or with a key, until somebody resumes it.

    What runs already ends as it would have. False: it was stopped already, and stays as it was.

    Raises:
        NotFoundError: there is nothing of that name to stop.
        ValidationError: the kind is unknown, or the reason is too long.
    """
    reason = reason.strip()
    if len(reason) > MOST_REASON:
        raise ValidationError(problems=[Problem("/reason", f"A reason has at most {MOST_REASON} characters")])
    with transaction.atomic():
        _check(kind, name)
        made, created = Stop.objects.get_or_create(
            kind=kind, name=name, defaults={"reason": reason, "since": timezone.now(), "by": actor[:150]}
        )
        if created:
            changes = {"stopped": [None, made.since.isoformat()]}
            note(f"{kind}.stop", _subject(made), actor=actor, reason=reason, changes=changes)
    return created


def resume(kind: str, name: str = "", *, actor: str, reason: str = "", own_only: bool = False) -> bool:
    """Let what was stopped go on. False: it was not stopped. `own_only`: if it is this key that has stopped it.

    What is gone meanwhile can be resumed as well, so that nothing stays stopped that nobody can name.

    Raises:
        NotFoundError: there is nothing of that name, and nothing of it is stopped.
        ValidationError: the kind is unknown.
        AuthorizationError: it is another's stop, and only one's own may be resumed.
    """
    with transaction.atomic():
        held = Stop.objects.select_for_update().filter(kind=kind, name=name).first()
        if held is None:
            _check(kind, name)
            return False
        # A token's name is what its holder calls itself: it proves nothing.
        if own_only and not (held.by == actor[:150] and actor.startswith("key:")):
            raise AuthorizationError(
                "Permission denied: your key may resume only what it has stopped itself",
                next_step="Ask an operator to resume it in the admin, or use a key with admin:*.",
            )
        held.delete()
        changes = {"stopped": [held.since.isoformat(), None], "reason": [held.reason, None]}
        note(f"{kind}.resume", _subject(held), actor=actor, reason=reason, changes=changes)
    return True


def _subject(stop: Stop) -> str:
    """As the audit trail names it: what has no kind in front is a tool there."""
    return str(stop) if stop.name else f"stop:{stop.kind}"


def _check(kind: str, name: str) -> None:
    """Raises: NotFoundError, ValidationError."""
    match kind:
        case Stop.Kind.HUB:
            known = name == ""
        case Stop.Kind.PACK:
            known = name in packs()
        case Stop.Kind.CONNECTION:
            known = Connection.objects.filter(name=name).exists() or _is_there(name)
        case Stop.Kind.KEY:
            known = ApiKey.objects.filter(name=name, revoked_at=None).exists()
        case _:
            raise ValidationError(problems=[Problem("/kind", f"kind must be one of {', '.join(KINDS)}")])
    if not known:
        raise NotFoundError(f"There is no {kind} {shortened(name)!r} to stop")


def packs() -> list[str]:
    """Those of which there are tools."""
    rows = ToolRecord.objects.present().exclude(pack="").order_by("pack")
    return list(rows.values_list("pack", flat=True).distinct())


def _is_there(identifier: str) -> bool:
    """Whether this is a connection of the environment."""
    try:
        return connections.identified(identifier) is not None
    except (NotFoundError, ConfigurationError):
        return False
