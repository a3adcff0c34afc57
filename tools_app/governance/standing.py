"""Standing approvals: an operator approves calls in advance, for one caller and tool, within limits."""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection, Mapping, Set
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import F, Q, QuerySet
from django.utils import timezone

from tools_app.access import actions
from tools_app.catalog import catalog
from tools_app.catalog.entry import Entry
from tools_app.catalog.snapshot import Snapshot
from tools_app.engine.approvals import digest_of
from tools_app.engine.standing import MOST_ACTIVE, MOST_ACTIVE_IN_ALL, identity_text
from tools_app.governance.actors import Actor, changing, clean_reason
from tools_app.governance.approvals import is_own_call, require_may_approve
from tools_app.models import Approval, Connection, StandingApproval
from tools_app.models.approvals import sealed
from tools_app.sdk.errors import ConflictError, NotFoundError, Problem, ValidationError, shortened

MOST_USES: Final = 1_000
SHORTEST: Final = timedelta(minutes=1)
LONGEST: Final = timedelta(days=90)
# Of one argument, and in all.
MOST_VALUES: Final = 100
MOST_BYTES: Final = 64 * 1024
_LIMITS: Final = frozenset({"enum", "minimum", "maximum"})


def grant_standing(
    approval_id: str,
    *,
    free: Collection[str] = (),
    limits: Mapping[str, Mapping[str, Any]] | None = None,
    uses: int,
    lasts: timedelta,
    actor: Actor,
    reason: str = "",
) -> StandingApproval:
    """Approve calls like this one in advance: by its caller, of this version of its tool, through its connection.

    Each argument has to be as in this call. Those in `free` can have any value, or be missing. Those in `limits` have
    to be one of an `enum`, or a number from `minimum` to `maximum`. Calls with other arguments are not covered.
    The call itself, if it is pending, is covered when its caller repeats it.

    Raises:
        NotFoundError
        ConflictError: the tool has changed since, the arguments cannot be read, or there are too many.
        AuthorizationError: it is the actor's own call.
        ValidationError: a limit is invalid, or the call is not within the limits.
    """
    reason = clean_reason(reason)
    with changing(actions.STANDING_GRANT, actor, reason) as change:
        approval = Approval.objects.select_for_update().filter(pk=approval_id).first()
        if approval is None:
            raise NotFoundError(f"There is no approval {shortened(approval_id)!r}")
        require_may_approve(approval, actor)
        standing = drafted(approval, free=free, limits=limits, uses=uses, lasts=lasts)
        standing.created_by, standing.reason = actor.name[:150], reason
        schema = standing.schema() or {}
        _check_room(standing, StandingApproval.objects.active(standing.created_at))
        standing.save(force_insert=True)
        change.note(
            f"standing:{standing.pk}",
            {
                "tool": [None, standing.tool_name],
                "caller": [None, f"{standing.caller_kind}:{standing.caller_name}"],
                "uses": [None, uses],
                "until": [None, standing.expires_at.isoformat()],
                # Names only: values may be confidential.
                "same": [None, sorted(name for name, part in schema["properties"].items() if "const" in part)],
                "limited": [None, sorted(limits or {})],
                "free": [None, sorted(set(free))],
                **({"own": [None, True]} if is_own_call(approval, actor) else {}),
            },
        )
    return standing


def drafted(
    approval: Approval,
    *,
    free: Collection[str] = (),
    limits: Mapping[str, Mapping[str, Any]] | None = None,
    uses: int,
    lasts: timedelta,
) -> StandingApproval:
    """What `grant_standing` would grant; not saved. Raises as that."""
    _check_extent(uses, lasts)
    arguments = approval.call_arguments()
    if arguments is None:
        raise ConflictError("The arguments of this call cannot be read: its encryption key is no longer configured")
    entry = _current_entry(approval, arguments)
    _check_names({*free, *(limits or {})}, {*arguments, *entry.spec.input_schema.get("properties", {})})
    now = timezone.now()
    standing = StandingApproval(
        id=secrets.token_hex(16),
        tool_name=approval.tool_name,
        definition_hash=approval.definition_hash,
        identity=identity_text(entry.identity),
        connection=approval.connection,
        address=_address_of(approval.connection),
        caller_kind=approval.caller_kind,
        caller_id=approval.caller_id,
        caller_name=approval.caller_name,
        constraint=_sealed(constraint(arguments, free, limits or {})),
        uses=uses,
        created_at=now,
        expires_at=now + lasts,
    )
    if not standing.covers(arguments):
        raise ValidationError(problems=[Problem("/limits", "The call itself is not within these limits")])
    return standing


def revoke_standing(standing_id: str, *, actor: Actor, reason: str = "") -> bool:
    """Calls need an approval of their own again, from the next one on. False: it was not active any more.

    Raises:
        NotFoundError
        ValidationError: the reason is too long.
    """
    reason = clean_reason(reason)
    with changing(actions.STANDING_REVOKE, actor, reason) as change:
        standing = StandingApproval.objects.select_for_update().filter(pk=standing_id).first()
        if standing is None:
            raise NotFoundError(f"There is no standing approval {shortened(standing_id)!r}")
        now = timezone.now()
        state = standing.state_at(now)
        if state != StandingApproval.State.ACTIVE:
            return False
        standing.revoked_at, standing.revoked_by = now, actor.name[:150]
        standing.save(update_fields=["revoked_at", "revoked_by"])
        parts = {"tool": standing.tool_name, "caller": f"{standing.caller_kind}:{standing.caller_name}"}
        changes = {name: [value, value] for name, value in parts.items()}
        change.note(f"standing:{standing.pk}", {**changes, "state": [state, StandingApproval.State.REVOKED]})
    return True


def state_of(standing: StandingApproval, now: datetime, snapshot: Snapshot | None = None) -> StandingApproval.State:
    """The state, which is `void` if the tool has another definition or its connection another address, or is gone.

    The tools of `snapshot`: the current ones, if they are not given."""
    state = standing.state_at(now)
    return state.VOID if state == state.ACTIVE and not _is_current(standing, snapshot) else state


def in_state(state: str, now: datetime) -> Q:
    """The condition for `state_of`."""
    states = StandingApproval.State
    match state:
        case states.REVOKED:
            return Q(revoked_at__isnull=False)
        case states.USED_UP:
            return Q(revoked_at=None, used__gte=F("uses"))
        case states.EXPIRED:
            return Q(revoked_at=None, used__lt=F("uses"), expires_at__lte=now)
    rows = StandingApproval.objects.active(now).only("tool_name", "definition_hash", "identity").with_address()
    snapshot = catalog.current()
    keys = [standing.pk for standing in rows if _is_current(standing, snapshot) == (state == states.ACTIVE)]
    return Q(pk__in=keys)


def _address_of(connection: str) -> str:
    """The URL of a connection; empty for that of the environment, whose variables only change with a restart."""
    return Connection.objects.filter(name=connection).values_list("url", flat=True).first() or ""


def _is_current(standing: StandingApproval, snapshot: Snapshot | None) -> bool:
    if not _keeps_address(standing):
        return False
    entry = (catalog.current() if snapshot is None else snapshot).find(standing.tool_name)
    return (
        entry is not None
        and entry.definition_hash == standing.definition_hash
        and identity_text(entry.identity) == standing.identity
    )


def _keeps_address(standing: StandingApproval) -> bool:
    if hasattr(standing, "keeps_address"):
        return bool(standing.keeps_address)
    return not standing.address or standing.address == _address_of(standing.connection)


def constraint(
    arguments: Mapping[str, Any], free: Collection[str], limits: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """The JSON Schema of the calls that are covered.

    Raises: ValidationError.
    """
    problems = [
        Problem(f"/limits/{name}", words) for name, limit in limits.items() if (words := _problem_of(limit)) is not None
    ]
    problems += [Problem("/free", f"{name} is both free and limited") for name in sorted(set(free) & set(limits))]
    if problems:
        raise ValidationError(problems=problems)
    same = {name: {"const": value} for name, value in arguments.items() if name not in free and name not in limits}
    limited = {name: dict(limit) for name, limit in limits.items()}
    for limit in limited.values():
        if "enum" not in limit:
            limit["type"] = "number"
    properties = {**same, **limited, **{name: {} for name in free}}
    required = [*same, *(name for name in limited if name in arguments)]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _problem_of(limit: Mapping[str, Any]) -> str | None:
    if not limit or not limit.keys() <= _LIMITS:
        return "A limit has enum, or minimum and maximum"
    if "enum" in limit:
        values = limit["enum"]
        if len(limit) > 1 or not isinstance(values, list) or not 1 <= len(values) <= MOST_VALUES:
            return f"enum is a list of 1 to {MOST_VALUES} values, without minimum or maximum"
        return None
    bounds = list(limit.values())
    if not all(_is_number(bound) for bound in bounds):
        return "minimum and maximum are numbers"
    if len(bounds) == 2 and limit["minimum"] > limit["maximum"]:
        return "minimum is above maximum"
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value - value == 0


def _check_names(names: Set[str], known: Set[str]) -> None:
    """Raises: ValidationError: a name is misspelt, so that the standing approval would not cover what it should."""
    if unknown := sorted(names - known):
        message = f"The tool has no argument {shortened(unknown[0])!r}: it has {', '.join(sorted(known)) or 'none'}"
        raise ValidationError(problems=[Problem("", message)])


def _check_room(standing: StandingApproval, active: QuerySet[StandingApproval]) -> None:
    """Raises: ConflictError."""
    of_caller = active.filter(
        caller_id=standing.caller_id, tool_name=standing.tool_name, definition_hash=standing.definition_hash
    )
    if of_caller.count() >= MOST_ACTIVE:
        raise ConflictError(
            f"This caller has {MOST_ACTIVE} standing approvals of {standing.tool_name} already",
            next_step="Revoke one of them, or give one wider limits.",
        )
    if active.count() >= MOST_ACTIVE_IN_ALL:
        raise ConflictError(
            f"This hub has {MOST_ACTIVE_IN_ALL:,} standing approvals already", next_step="Revoke some of them."
        )


def _check_extent(uses: int, lasts: timedelta) -> None:
    problems = []
    if not 1 <= uses <= MOST_USES:
        problems.append(Problem("/uses", f"1 to {MOST_USES:,} calls"))
    if not SHORTEST <= lasts <= LONGEST:
        problems.append(Problem("/seconds", f"A minute to {LONGEST.days} days"))
    if problems:
        raise ValidationError(problems=problems)


def _current_entry(approval: Approval, arguments: Mapping[str, Any]) -> Entry:
    """Raises: ConflictError."""
    entry = catalog.current().find(approval.tool_name)
    if (
        entry is None
        or entry.definition_hash != approval.definition_hash
        or digest_of(approval, arguments, entry.identity) != approval.request_hash
    ):
        raise ConflictError(
            f"{approval.tool_name} has changed since this call was requested",
            next_step="Decide about a call of its current version.",
        )
    return entry


def _sealed(schema: Mapping[str, Any]) -> bytes:
    """Raises: ValidationError."""
    text = json.dumps(schema, separators=(",", ":")).encode()
    if len(text) > MOST_BYTES:
        message = f"The limits are too large: at most {MOST_BYTES // 1024} KiB. Let long arguments be free"
        raise ValidationError(problems=[Problem("/limits", message)])
    return sealed(text)
