"""The outcome of a call in the console: the answer as agents and services receive it, or the error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from tools_app import governance
from tools_app.access import actions
from tools_app.admin import links
from tools_app.admin.console.fields import readable
from tools_app.answers import tokens_of
from tools_app.engine import Result
from tools_app.governance.approvals import require_may_approve
from tools_app.models import Approval, Call
from tools_app.sdk.errors import AuthorizationError, Problem, ToolError
from tools_app.sdk.hub_errors import ApprovalRequiredError, IdempotencyInProgressError

# Longer texts take browsers too long to lay out; the caller received the whole text.
MOST_SHOWN: Final = 200_000
MOST_PICTURE: Final = 2 * 1024 * 1024
MOST_PIECES: Final = 50
# The journal names these origins in English.
ORIGINS: Final = {
    Call.Origin.CACHE: gettext_lazy("the cache"),
    Call.Origin.REPLAY: gettext_lazy("an earlier call with the same Idempotency-Key"),
}
# Formats that are nothing but pictures: not SVG, which is a document.
PICTURES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


@dataclass(frozen=True, slots=True)
class View:
    """One representation of an answer, possibly truncated."""

    id: str
    title: str
    text: str
    hidden_characters: int = 0


@dataclass(frozen=True, slots=True)
class Piece:
    """A content block of an answer: a picture, or a line that describes it."""

    words: str
    picture: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class ConsoleOutcome:
    title: str
    tone: str
    facts: Sequence[tuple[str, object]]
    views: Sequence[View] = ()
    pieces: Sequence[Piece] = ()
    error: ToolError | None = None
    problems: Sequence[Problem] = ()
    context: str = ""
    # Label of the button that resends a confirmed call. The idempotency key prevents a second run.
    repeat: str = ""
    # Where this user can decide about the call, or why not.
    decide_address: str = ""
    decide_note: str = ""


def outcome_of(result: Result | ToolError, user: actions.User) -> ConsoleOutcome:
    """Pages that the user may not see are not linked."""
    return _failure(result, user) if isinstance(result, ToolError) else _success(result, user)


def _success(result: Result, user: actions.User) -> ConsoleOutcome:
    answer = result.answer
    envelope: dict[str, Any] = {"success": True, "result": answer.value, "executionTime": result.duration_ms}
    envelope |= {"dryRun": True} if result.dry_run else {"callId": result.call_id}
    views = [_view("text", _("Text"), answer.text)]
    if answer.structured is not None:
        views.append(_view("structured", _("Structured"), readable(answer.structured)))
    views.append(_view("raw", _("Raw"), readable(envelope)))
    if result.dry_run:
        title, facts = _("Dry run: nothing was executed"), []
        views.reverse()
    else:
        title, facts = _("Succeeded"), _facts(result.call_id, result.duration_ms, user)
        size = _("%(bytes)s bytes, about %(tokens)s tokens") % {
            "bytes": f"{answer.size:,}",
            "tokens": f"{tokens_of(answer.size):,}",
        }
        facts.insert(0, (_("Response"), size))
        if answer.untrusted:
            facts.append(_untrusted_fact())
        if answer.left_out:
            facts.append((_("Invisible characters removed"), f"{answer.left_out:,}"))
        if result.answered_by:
            facts.append((_("Response from"), str(ORIGINS[Call.Origin(result.answered_by)])))
    pieces = [_piece(piece) for piece in (answer.content or ())[:MOST_PIECES]]
    return ConsoleOutcome(title, "good", facts, views, pieces)


def _failure(error: ToolError, user: actions.User) -> ConsoleOutcome:
    facts = _facts(error.call_id or "", error.duration_ms, user)
    if error.untrusted:
        facts.append(_untrusted_fact())
    if error.retry_after is not None:
        facts.append((_("Retry after"), f"{error.retry_after:g} s"))
    if approval_id := error.context.get("approvalId"):
        may_see_link = actions.APPROVALS_READ.permits(user)
        facts.append((_("Approval"), links.to_subject(f"approval:{approval_id}") if may_see_link else approval_id))
    if error.error_id:
        may_see_link = actions.ERROR_EVENTS_READ.permits(user)
        facts.append((_("Error event"), links.to_error(error.error_id) if may_see_link else error.error_id))
    decide_address, decide_note = _decision(error, user)
    return ConsoleOutcome(
        error.code,
        "bad",
        facts,
        [_view("raw", _("Raw"), readable(error.as_dict()))],
        error=error,
        problems=error.details,
        context=readable(error.context) if error.context else "",
        repeat=_repeat(error),
        decide_address=decide_address,
        decide_note=decide_note,
    )


def _decision(error: ToolError, user: actions.User) -> tuple[str, str]:
    """The page on which this user can approve the call; or why someone else has to."""
    if not isinstance(error, ApprovalRequiredError) or not actions.CALL_APPROVE.permits(user):
        return "", ""
    approval = Approval.objects.defer("arguments").filter(pk=error.context.get("approvalId", "")).first()
    if approval is None:
        return "", ""
    try:
        require_may_approve(approval, governance.of_user(user))
    except AuthorizationError as refusal:
        return "", f"{refusal.message}. {refusal.next_step or ''}".strip()
    return links.address("approval", "change", approval.pk), ""


def _repeat(error: ToolError) -> str:
    if isinstance(error, IdempotencyInProgressError):
        return _("Get its result")
    return _("Run if approved") if isinstance(error, ApprovalRequiredError) else ""


def _facts(call_id: str, duration_ms: int | None, user: actions.User) -> list[tuple[str, object]]:
    facts: list[tuple[str, object]] = []
    if duration_ms is not None:
        facts.append((_("Duration"), f"{duration_ms:,} ms"))
    # Calls are committed before the answer is sent; an early refusal may have no row of its own.
    call = Call.objects.filter(pk=call_id).only("attempts", "connection").first() if call_id else None
    if call is not None:
        facts.append((_("Attempts"), call.attempts))
        if call.connection:
            facts.append((_("Connection"), call.connection))
        facts.append((_("Call"), links.to_call(call_id) if actions.CALLS_READ.permits(user) else call_id))
    return facts


def _untrusted_fact() -> tuple[str, object]:
    return _("Contains external content"), _("It may contain text from outside this hub. Agents see this notice too.")


def _view(name: str, title: str, text: str) -> View:
    return View(f"view-{name}", title, text[:MOST_SHOWN], max(0, len(text) - MOST_SHOWN))


def _piece(wire: Mapping[str, Any]) -> Piece:
    match wire:
        case {"type": "text", "text": str(text)}:
            return Piece(_("Text"), text=text[:MOST_SHOWN])
        case {"type": "image", "data": str(data), "mimeType": str(kind)}:
            is_picture = kind in PICTURES and len(data) <= MOST_PICTURE
            return Piece(f"{kind}, {_size(data)}", picture=f"data:{kind};base64,{data}" if is_picture else "")
        case {"type": "audio", "data": str(data), "mimeType": str(kind)}:
            return Piece(f"{kind}, {_size(data)}")
        case {"type": "resource", "resource": {"uri": str(uri), **more}}:
            text = str(more.get("text", ""))[:MOST_SHOWN]
            return Piece(" ".join(filter(None, (uri, str(more.get("mimeType", ""))))), text=text)
        case {"type": "resource_link", "uri": str(uri), "name": str(name)}:
            return Piece(f"{wire.get('title') or name}: {uri}")
    return Piece(str(wire.get("type", "")))


def _size(data: str) -> str:
    return _("%(bytes)s bytes") % {"bytes": f"{len(data) * 3 // 4:,}"}
