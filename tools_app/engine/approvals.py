"""Calls that an operator has to approve: asked for here, and taken here for the one run that was approved.

Nothing waits. A call that is not approved yet is refused, with the id of what was asked for; when the caller repeats
it, it finds what has been decided. It is bound to the caller, the tool as it was, and the arguments: whoever repeats
exactly that call needs no id, since most agents have no place to put one. All functions but two are for threads.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets as random
import zlib
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

from django.db import DatabaseError, InterfaceError, transaction
from django.db.models import QuerySet

from tools_app.base import conf, database, secrets
from tools_app.catalog.entry import READER, Entry
from tools_app.engine import shelf
from tools_app.journal.writer import PATIENCE
from tools_app.models import Approval, Call, Chore, StoredAnswer
from tools_app.models.keys import Asks
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import Problem, RateLimitError, ValidationError
from tools_app.sdk.hub_errors import (
    AnswerNotFoundError,
    ApprovalInvalidError,
    ApprovalRefusedError,
    ApprovalRequiredError,
    StorageBusyError,
)
from tools_app.text import json_text

R = TypeVar("R")

log = logging.getLogger("tools_app.calls")

# What a caller that nobody answers can leave behind, and all of them together.
MOST_WAITING: Final = 20
MOST_WAITING_IN_ALL: Final = 1_000
# What each caller can leave behind even then: others must not keep it from asking at all.
MOST_WAITING_WHEN_FULL: Final = 2
# Of those of a caller that nobody answered in time, so many are kept to be looked at.
MOST_LAPSED: Final = 50
# What is larger, nobody reads before saying yes.
MOST_BYTES: Final = 256 * 1024
UNKNOWN: Final = "there is none of that id for this caller"
_ID: Final = re.compile("[0-9a-f]{32}")
_HANDLE: Final = re.compile("(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])")
# Whoever holds this row asks; one at a time, so that the same call is asked for once.
_CHORE: Final = "approvals"
# What is on its way back; a task that nobody holds might not come to its end.
_returning: set[asyncio.Task[None]] = set()


@dataclass(frozen=True, slots=True)
class Request:
    """A call, as far as an approval is bound to it."""

    call: Call
    arguments: Mapping[str, Any]

    @property
    def hash(self) -> str:
        call = self.call
        return json_text.digest([call.tool_name, call.definition_hash, call.connection, self.arguments])


def kept_values(arguments: Mapping[str, Any], tool: str, caller_id: str) -> dict[str, Any]:
    """The kept answers of the caller that the arguments name, by handle: the call would be given them as well.

    Such as a workflow that is to be put back. They cannot change. `read_result` only reads them: its calls are approved
    without.

    Raises:
        ValidationError: they are too large to be shown.
    """
    handles = set() if tool == READER else set(_HANDLE.findall(json.dumps(arguments, default=str)))
    found, size = {}, 0
    rows = StoredAnswer.objects.filter(pk__in=handles, caller_id=caller_id, expires_at__gt=_now()) if handles else ()
    for answer in rows:
        try:
            content = shelf.content_of(answer)
        except AnswerNotFoundError:
            continue
        if (size := size + len(content)) > MOST_BYTES:
            raise _too_large("The kept answers that the arguments name")
        found[answer.pk] = content.decode() if answer.is_text else json.loads(content)
    return found


def needed(entry: Entry, caller: Caller) -> bool:
    """Whether an operator has to approve what this caller does with the tool. Nobody is asked for that."""
    if entry.ask:
        return True
    if not caller.asks:
        return False
    return entry.hints.writes if caller.asks == Asks.WRITES else entry.hints.destroys


def check(approval_id: object) -> None:
    """Raises: ApprovalInvalidError, for what can be the id of none."""
    if not isinstance(approval_id, str) or not _ID.fullmatch(approval_id):
        raise ApprovalInvalidError.because(UNKNOWN)


async def taken(request: Request, approval_id: str | None) -> Approval:
    """The approval of this call, which nobody else can take any more. For coroutines.

    Raises:
        ApprovalRequiredError: nobody has decided yet.
        ApprovalRefusedError: somebody has, against it.
        ApprovalInvalidError: that of this id is not for this call, or has been used, or has expired.
        RateLimitError: too much waits already.
        StorageBusyError, ValidationError
    """
    taking = asyncio.ensure_future(database.run(_take, request, approval_id))
    try:
        return await _in_time(asyncio.shield(taking))
    except BaseException:
        # A thread cannot be cancelled: what it takes although nobody waits any more goes back.
        taking.add_done_callback(_nobody_waits)
        raise


async def give_back(approval: Approval) -> None:
    """After a call that did nothing: what was approved may still be done. For coroutines."""
    try:
        await _in_time(database.run(_give_back, approval))
    except StorageBusyError:
        log.warning("approval %s counts as used, although its call did nothing", approval.pk)


async def _in_time(work: Awaitable[R]) -> R:
    try:
        async with asyncio.timeout(PATIENCE):
            return await work
    except (TimeoutError, DatabaseError, InterfaceError) as error:
        raise StorageBusyError(detail=error) from error


def _nobody_waits(taking: asyncio.Future[Approval]) -> None:
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
        approval = _standing(request)
    if approval is not None:
        if _won(approval, request.call):
            return approval
        if approval_id is not None:
            # Between the two looks it may have been used, decided or given back.
            approval.refresh_from_db()
            _check_holds(approval)
            raise _told(approval)
    # What another call has taken meanwhile is not this one's: it is asked for anew.
    raise _told(_asked(request))


def _won(approval: Approval, call: Call) -> bool:
    """Whether it was approved and is now this call's: of all who try, one wins."""
    rows = Approval.objects.filter(pk=approval.pk, state=Approval.State.APPROVED, expires_at__gt=_now())
    won = bool(rows.update(state=Approval.State.USED, call_id=call.id))
    if won:
        approval.state, approval.call_id = Approval.State.USED, call.id
    return won


def _give_back(approval: Approval) -> None:
    rows = Approval.objects.filter(pk=approval.pk, state=Approval.State.USED, call_id=approval.call_id)
    rows.update(state=Approval.State.APPROVED, call_id="")


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


def _told(approval: Approval) -> ApprovalRequiredError | ApprovalRefusedError:
    if approval.state == Approval.State.REFUSED:
        return ApprovalRefusedError.of(approval.tool_name, approval.pk, approval.reason)
    until = f"{approval.expires_at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    return ApprovalRequiredError.of(approval.tool_name, approval.pk, until)


def _asked(request: Request) -> Approval:
    """What was asked for this call before, or is asked for now."""
    sealed = _sealed(request.arguments)
    kept_values(request.arguments, request.call.tool_name, request.call.caller_id)
    Chore.objects.get_or_create(name=_CHORE, defaults={"done_at": _now()})
    with transaction.atomic():
        Chore.objects.select_for_update().get(name=_CHORE)
        now = _now()
        if (same := _standing(request)) is not None:
            return same
        _check_room(Approval.objects.waiting(now), request.call)
        _forget_lapsed(request.call.caller_id, now)
        call = request.call
        return Approval.objects.create(
            id=random.token_hex(16),
            tool_name=call.tool_name,
            definition_hash=call.definition_hash,
            connection=call.connection,
            request_hash=request.hash,
            arguments=sealed,
            door=call.door,
            caller_kind=call.caller_kind,
            caller_id=call.caller_id,
            caller_name=call.caller_name,
            asked_at=now,
            expires_at=now + timedelta(seconds=conf.value("TOOLHUB_APPROVAL_SECONDS")),
        )


def _standing(request: Request) -> Approval | None:
    """What was asked for exactly this call and still counts. What was refused does, too: nobody is asked again.

    There may be two: one was given back after another call, which found it taken, had asked anew. A refusal goes before
    an approval, and that before a question.
    """
    rows = Approval.objects.filter(caller_id=request.call.caller_id, request_hash=request.hash, expires_at__gt=_now())
    found = {approval.state: approval for approval in rows.exclude(state=Approval.State.USED)}
    states = (Approval.State.REFUSED, Approval.State.APPROVED, Approval.State.PENDING)
    return next((found[state] for state in states if state in found), None)


def _check_room(waiting: QuerySet[Approval], call: Call) -> None:
    """Raises: RateLimitError."""
    own = waiting.filter(caller_id=call.caller_id).count()
    if own < MOST_WAITING_WHEN_FULL or (own < MOST_WAITING and waiting.count() < MOST_WAITING_IN_ALL):
        return
    oldest = waiting.order_by("expires_at").first()
    seconds = (oldest.expires_at - _now()).total_seconds() if oldest is not None else 0
    raise RateLimitError(
        "Too many calls wait for an operator already",
        retry_after=max(1, round(seconds)),
        next_step="Wait until an operator of this hub has decided about those.",
    )


def _forget_lapsed(caller_id: str, now: datetime) -> None:
    """Otherwise whoever goes on asking could fill the disk, as nobody has to answer for that."""
    lapsed = Approval.objects.filter(caller_id=caller_id, state=Approval.State.PENDING, expires_at__lte=now)
    gone = list(lapsed.order_by("-asked_at").values_list("pk", flat=True)[MOST_LAPSED : MOST_LAPSED + MOST_WAITING])
    if gone:
        Approval.objects.filter(pk__in=gone).delete()


def _sealed(arguments: Mapping[str, Any]) -> bytes:
    """Raises: ValidationError."""
    text = json.dumps(arguments, separators=(",", ":"), default=str).encode()
    if len(text) > MOST_BYTES:
        raise _too_large("The arguments")
    return secrets.encrypted(zlib.compress(text))


def _too_large(what: str) -> ValidationError:
    message = f"{what} are too large for an operator to approve: at most {MOST_BYTES // 1024} KiB"
    return ValidationError(problems=[Problem("", message)])


def _now() -> datetime:
    return datetime.now(UTC)
