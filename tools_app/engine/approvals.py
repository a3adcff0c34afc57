"""Approvals: requests an operator's approval for a call, and consumes it for the one run that was approved.

No call waits. A call without an approval is refused with the id of the approval request; when the caller repeats the
call, it gets the operator's decision. An approval is bound to the caller, the definition of the tool and the
arguments. Repeating exactly that call needs no id, since most agents have no field for one. All functions are for
threads, except the two coroutines.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets as random
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Final, TypeVar

from django.db import DatabaseError, InterfaceError, transaction
from django.db.models import QuerySet

from tools_app.base import conf, database, ports
from tools_app.catalog.entry import READER, Entry
from tools_app.engine.standing import covering, return_use, spend
from tools_app.journal.writer import PATIENCE
from tools_app.models import Approval, Call, Chore
from tools_app.models.alerts import Event, note_alert
from tools_app.models.approvals import sealed
from tools_app.models.keys import Asks
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import Problem, RateLimitError, ValidationError
from tools_app.sdk.hub_errors import (
    ApprovalInvalidError,
    ApprovalRefusedError,
    ApprovalRequiredError,
    StorageBusyError,
)
from tools_app.text import json_text

R = TypeVar("R")

log = logging.getLogger("tools_app.calls")

# Limits on pending requests: per caller, and for all callers together.
MOST_WAITING: Final = 20
MOST_WAITING_IN_ALL: Final = 1_000
# What each caller may have even when the hub is full: others must not block it completely.
MOST_WAITING_WHEN_FULL: Final = 2
# Expired requests that are kept per caller, for the operators' records.
MOST_LAPSED: Final = 50
# Arguments larger than this cannot be reviewed by a person.
MOST_BYTES: Final = 256 * 1024
UNKNOWN: Final = "this caller has no approval with that id"
_ID: Final = re.compile("[0-9a-f]{32}")
_HANDLE: Final = re.compile("(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])")
# A lock: the holder of this row creates requests, so that the same call is not requested twice.
_CHORE: Final = "approvals"
# Keeps references to background tasks so that they are not garbage-collected.
_returning: set[asyncio.Task[None]] = set()


@dataclass(frozen=True)
class Request:
    """The parts of a call that an approval is bound to."""

    call: Call
    arguments: Mapping[str, Any]
    # Of the tool's source, as in `Entry`.
    identity: tuple[str, int] | tuple[()] = ()

    @cached_property
    def hash(self) -> str:
        return digest_of(self.call, self.arguments, self.identity)


def digest_of(call: Call | Approval, arguments: Mapping[str, Any], identity: tuple[str, int] | tuple[()]) -> str:
    """What has to be the same for an approval to be of this call."""
    return json_text.digest([call.tool_name, call.definition_hash, call.connection, arguments, *identity])


def kept_values(arguments: Mapping[str, Any], tool: str, caller_id: str) -> dict[str, Any]:
    """The kept answers of the caller that the arguments name, by handle: the call would be given them as well.

    Such as a workflow that is to be put back. They cannot change. `read_result` only reads them: its calls are approved
    without.

    Raises:
        ValidationError: they are too large to be shown.
    """
    handles = set() if tool == READER else set(_HANDLE.findall(json.dumps(arguments, default=str)))
    found, size = {}, 0
    for handle, content, is_text in ports.shelf().contents(handles, caller_id):
        if (size := size + len(content)) > MOST_BYTES:
            raise _too_large("The kept answers that the arguments name")
        found[handle] = content.decode() if is_text else json.loads(content)
    return found


def needed(entry: Entry, caller: Caller) -> bool:
    """True if an operator has to approve the call of this tool by this caller. Reads only what is in memory."""
    if entry.ask:
        return True
    if not caller.asks:
        return False
    return entry.hints.writes if caller.asks == Asks.WRITES else entry.hints.destroys


def check(approval_id: object) -> None:
    """Raises: ApprovalInvalidError: the text cannot be the id of an approval."""
    if not isinstance(approval_id, str) or not _ID.fullmatch(approval_id):
        raise ApprovalInvalidError.because(UNKNOWN)


async def take(request: Request, approval_id: str | None) -> Approval:
    """Take the approval of this call; no other call can use it from then on. For coroutines.

    Raises:
        ApprovalRequiredError: there is no decision yet.
        ApprovalRefusedError: an operator refused the call.
        ApprovalInvalidError: the approval is for another call, used or expired.
        RateLimitError: too many approval requests are pending.
        StorageBusyError, ValidationError
    """
    taking = database.start(_take, request, approval_id)
    try:
        return await _in_time(taking)
    except BaseException:
        # A thread cannot be cancelled: if it takes the approval after the caller has gone, the approval is given back.
        asyncio.wrap_future(taking).add_done_callback(_give_back_later)
        raise


async def give_back(approval: Approval) -> None:
    """Make the approval usable again, after a call that did nothing. For coroutines."""
    try:
        await _in_time(database.start(_give_back, approval))
    except StorageBusyError:
        log.warning("approval %s stays used, although its call did nothing", approval.pk)


async def _in_time(running: Future[R]) -> R:
    try:
        return await database.outcome(running, PATIENCE)
    except (TimeoutError, DatabaseError, InterfaceError) as error:
        raise StorageBusyError(detail=error) from error


def _give_back_later(taking: asyncio.Future[Approval]) -> None:
    if taking.cancelled() or taking.exception() is not None:
        return
    returning = asyncio.ensure_future(give_back(taking.result()))
    _returning.add(returning)
    returning.add_done_callback(_returning.discard)


def _take(request: Request, approval_id: str | None) -> Approval:
    if approval_id is not None:
        approval = Approval.objects.filter(pk=approval_id, caller_id=request.call.caller_id).first()
        _check_fits(approval, request)
    else:
        approval = _find_current(request)
    if approval is not None and _mark_used(approval, request.call):
        return approval
    if (covered := _take_standing(request, approval)) is not None:
        return covered
    if approval is not None and approval_id is not None:
        # Race condition: since it was read, it may have been used, decided or given back.
        approval.refresh_from_db()
        _check_holds(approval)
        raise _error_for(approval)
    # If another call took it meanwhile, this call needs an approval of its own.
    raise _error_for(_request_approval(request))


def _take_standing(request: Request, pending: Approval | None) -> Approval | None:
    """Assign a use of a standing approval to this call, which may be pending. None if the call is not covered."""
    if pending is not None and pending.state != Approval.State.PENDING:
        return None
    now = _now()
    for standing in covering(request.call, request.arguments, request.identity, now):
        decision: dict[str, Any] = {
            "state": Approval.State.USED,
            "call_id": request.call.id,
            "standing_id": standing.pk,
            "decided_at": now,
            "decided_by": standing.created_by,
        }
        with transaction.atomic():
            if not spend(standing, now):
                continue
            if pending is None:
                return _create(request, now, arguments=_sealed(request.arguments), **decision)
            if Approval.objects.waiting(now).filter(pk=pending.pk).update(**decision):
                pending.refresh_from_db()
                return pending
            # Race condition: an operator has decided about the pending call, and that decision applies.
            transaction.set_rollback(True)
            return None
    return None


def _mark_used(approval: Approval, call: Call) -> bool:
    """Assign an approved request to this call. Of concurrent calls, exactly one gets True."""
    rows = Approval.objects.filter(pk=approval.pk, state=Approval.State.APPROVED, expires_at__gt=_now())
    is_ours = bool(rows.update(state=Approval.State.USED, call_id=call.id))
    if is_ours:
        approval.state, approval.call_id = Approval.State.USED, call.id
    return is_ours


def _give_back(approval: Approval) -> None:
    rows = Approval.objects.filter(pk=approval.pk, state=Approval.State.USED, call_id=approval.call_id)
    if not approval.standing_id:
        rows.update(state=Approval.State.APPROVED, call_id="")
        return
    with transaction.atomic():
        # A call that waited for a decision before it was covered waits again: its caller may send its id.
        if approval.asked_at != approval.decided_at:
            returned = rows.update(
                state=Approval.State.PENDING, call_id="", standing_id="", decided_at=None, decided_by=""
            )
        else:
            returned, _ = rows.delete()
        if returned:
            return_use(approval.standing_id)


def _check_fits(approval: Approval | None, request: Request) -> None:
    """Raises: ApprovalInvalidError."""
    if approval is None:
        raise ApprovalInvalidError.because(UNKNOWN)
    if approval.tool_name != request.call.tool_name:
        raise ApprovalInvalidError.because("it is for a call of another tool")
    if approval.definition_hash != request.call.definition_hash:
        raise ApprovalInvalidError.because("the tool has changed since")
    if approval.request_hash != request.hash:
        raise ApprovalInvalidError.because("it is for a call with other arguments")
    _check_holds(approval)


def _check_holds(approval: Approval) -> None:
    """Raises: ApprovalInvalidError."""
    state = approval.state_at(_now())
    if state == Approval.State.USED:
        raise ApprovalInvalidError.because("it has been used: it was for one call")
    if state == Approval.EXPIRED:
        raise ApprovalInvalidError.because("it has expired")


def _error_for(approval: Approval) -> ApprovalRequiredError | ApprovalRefusedError:
    if approval.state == Approval.State.REFUSED:
        return ApprovalRefusedError.of(approval.tool_name, approval.pk, approval.reason)
    until = f"{approval.expires_at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    return ApprovalRequiredError.of(approval.tool_name, approval.pk, until)


def _request_approval(request: Request) -> Approval:
    """The open approval request for this call; created if there is none."""
    encrypted_arguments = _sealed(request.arguments)
    kept_values(request.arguments, request.call.tool_name, request.call.caller_id)
    Chore.objects.get_or_create(name=_CHORE, defaults={"done_at": _now()})
    with transaction.atomic():
        Chore.objects.select_for_update().get(name=_CHORE)
        now = _now()
        if (existing := _find_current(request)) is not None:
            return existing
        _check_room(Approval.objects.waiting(now), request.call)
        _delete_lapsed(request.call.caller_id, now)
        approval = _create(request, now, arguments=encrypted_arguments)
        note_alert(Event.APPROVAL_REQUESTED, approval.pk, now, **approval.about)
        return approval


def _create(request: Request, now: datetime, **fields: Any) -> Approval:
    """Raises: ValidationError."""
    call = request.call
    return Approval.objects.create(
        id=random.token_hex(16),
        tool_name=call.tool_name,
        definition_hash=call.definition_hash,
        connection=call.connection,
        request_hash=request.hash,
        door=call.door,
        caller_kind=call.caller_kind,
        caller_id=call.caller_id,
        caller_name=call.caller_name,
        asked_at=now,
        expires_at=now + timedelta(seconds=conf.value("TOOLHUB_APPROVAL_SECONDS")),
        **fields,
    )


def _find_current(request: Request) -> Approval | None:
    """The request for exactly this call that is still valid. A refused one counts: operators are not asked again.

    There may be two: one was given back after another call, which found it used, had created a new one. A refusal takes
    precedence over an approval, and an approval over a pending request.
    """
    rows = Approval.objects.filter(caller_id=request.call.caller_id, request_hash=request.hash, expires_at__gt=_now())
    by_state = {approval.state: approval for approval in rows.exclude(state=Approval.State.USED)}
    states = (Approval.State.REFUSED, Approval.State.APPROVED, Approval.State.PENDING)
    return next((by_state[state] for state in states if state in by_state), None)


def _check_room(waiting: QuerySet[Approval], call: Call) -> None:
    """Raises: RateLimitError."""
    pending = waiting.filter(caller_id=call.caller_id).count()
    if pending < MOST_WAITING_WHEN_FULL or (pending < MOST_WAITING and waiting.count() < MOST_WAITING_IN_ALL):
        return
    oldest = waiting.order_by("expires_at").first()
    seconds = (oldest.expires_at - _now()).total_seconds() if oldest is not None else 0
    raise RateLimitError(
        "Too many calls are already waiting for an operator's approval",
        retry_after=max(1, round(seconds)),
        next_step="Wait until an operator of this hub has decided on those.",
    )


def _delete_lapsed(caller_id: str, now: datetime) -> None:
    """Otherwise a caller that keeps requesting could fill the disk, as expired requests count against no limit."""
    lapsed = Approval.objects.filter(caller_id=caller_id, state=Approval.State.PENDING, expires_at__lte=now)
    surplus = list(lapsed.order_by("-asked_at").values_list("pk", flat=True)[MOST_LAPSED : MOST_LAPSED + MOST_WAITING])
    if surplus:
        Approval.objects.filter(pk__in=surplus).delete()


def _sealed(arguments: Mapping[str, Any]) -> bytes:
    """Raises: ValidationError."""
    text = json.dumps(arguments, separators=(",", ":"), default=str).encode()
    if len(text) > MOST_BYTES:
        raise _too_large("The arguments")
    return sealed(text)


def _too_large(what: str) -> ValidationError:
    message = f"{what} are too large for an operator to approve: at most {MOST_BYTES // 1024} KiB"
    return ValidationError(problems=[Problem("", message)])


def _now() -> datetime:
    return datetime.now(UTC)
