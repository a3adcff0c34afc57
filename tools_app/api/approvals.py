"""Calls that need an operator's approval. Callers see their own, operators all of them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Literal

from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Query
from pydantic import Field

from tools_app import governance
from tools_app.access import access
from tools_app.api.answers import Shown, answer, timestamp
from tools_app.api.authentication import caller_of
from tools_app.api.bodies import Body, Reason
from tools_app.api.calls import CallerShown
from tools_app.api.cursors import Pages
from tools_app.api.errors import failures
from tools_app.api.queries import Cursor, Limit, QueryString, Word, narrowed, optional
from tools_app.api.routing import StrictRouter
from tools_app.base import database
from tools_app.catalog import catalog
from tools_app.governance import disclosure
from tools_app.models import Approval
from tools_app.sdk.errors import NotFoundError

router = StrictRouter(tags=["approvals"])

State = Literal["pending", "approved", "refused", "used", "expired"]
MANAGE = "tools:manage"


class ApprovalItem(Shown):
    id: str
    state: State
    tool: str
    connection: str | None
    door: str
    caller: CallerShown
    asked_at: str
    expires_at: str = Field(description="When it expires, decided or not; a decision restarts the period")
    decided_at: str | None
    decided_by: str | None = Field(description="Visible to operators only")
    reason: str | None
    call_id: str | None = Field(description="The call that used the approval")


class ApprovalDetail(ApprovalItem):
    arguments: Any = Field(
        description="All arguments of the call; null if they cannot be read. A secret that is a single token is masked "
        "and replaced by its length and a hash; nothing else is omitted"
    )
    kept_answers: dict[str, Any] = Field(
        description="Stored results that the arguments name by handle, such as a workflow to restore; masked like the "
        "arguments"
    )
    masked_parts: int = Field(description="Number of masked parts in all of this")


class ApprovalPage(Shown):
    approvals: list[ApprovalItem]
    next_cursor: str | None


class ApprovalsQuery(QueryString):
    state: State | None = optional()
    tool: Word | None = optional("Only calls of this tool (full name)")
    caller: Word | None = optional("Only calls of this caller id, for example `key:3`")
    cursor: Cursor | None = optional()
    limit: Limit = 50

    def filtered(self, rows: QuerySet[Approval]) -> QuerySet[Approval]:
        rows = narrowed(rows, {"tool_name": self.tool, "caller_id": self.caller})
        return rows if self.state is None else rows.filter(_in_state(self.state, timezone.now()))


class Decision(Body):
    reason: Reason = Field(default="", description="Shown to the caller if the call is rejected")


@router.get("", response={200: ApprovalPage, **failures()}, url_name="approvals")
async def list_approvals(request: HttpRequest, query: Query[ApprovalsQuery]) -> HttpResponse:
    """List approvals, pending and decided, newest first.

    Returns the caller's own approvals; with `tools:manage` those of all callers.
    """
    caller = caller_of(request)
    pages = Pages("approvals", caller, query, moment="asked_at")
    rows = query.filtered(await _visible(request)).defer("arguments")
    page, cursor = await database.run(pages.cut, rows, query.cursor, query.limit)
    items = [_item(approval, operator=caller.may(MANAGE)) for approval in page]
    return answer({"approvals": items, "nextCursor": cursor})


@router.get("/{approval_id}", response={200: ApprovalDetail, **failures(404)}, url_name="approval")
async def show_approval(request: HttpRequest, approval_id: str) -> HttpResponse:
    """Show an approval. Callers can see their own; `tools:manage` can see any."""
    visible, operator = await _visible(request), caller_of(request).may(MANAGE)
    return answer(await database.run(_detail, visible, approval_id, operator=operator))


@router.post("/{approval_id}/approve", response={200: ApprovalDetail, **failures(404, 408, 409, 413, 415)})
async def approve_call(request: HttpRequest, approval_id: str, body: Decision) -> HttpResponse:
    """Approve a call. Requires `tools:manage`. A key cannot approve its own calls.

    The caller can run the call once by repeating it.
    """
    return await _decide(request, approval_id, governance.approve_call, body)


@router.post("/{approval_id}/refuse", response={200: ApprovalDetail, **failures(404, 408, 409, 413, 415)})
async def refuse_call(request: HttpRequest, approval_id: str, body: Decision) -> HttpResponse:
    """Reject a call. The caller sees the reason. Requires `tools:manage`."""
    return await _decide(request, approval_id, governance.refuse_call, body)


async def _decide(
    request: HttpRequest, approval_id: str, decide: Callable[..., Approval], body: Decision
) -> HttpResponse:
    caller = caller_of(request)
    access.require(caller, MANAGE)
    visible = await _visible(request)

    def decide_and_show() -> dict[str, Any]:
        decide(_get(visible, approval_id).pk, actor=str(caller), caller_id=caller.id, reason=body.reason)
        return _detail(visible, approval_id, operator=True)

    return answer(await database.run(decide_and_show))


async def _visible(request: HttpRequest) -> QuerySet[Approval]:
    """The caller's own approvals; with `tools:manage`, also those of all tools in its toolsets."""
    caller = caller_of(request)
    own = Q(caller_id=caller.id)
    if not caller.may(MANAGE):
        return Approval.objects.filter(own)
    if caller.reach.toolsets is None:
        return Approval.objects.all()
    view = (await catalog.fresh()).seen_by(caller)
    return Approval.objects.filter(own | Q(tool_name__in=[entry.name for entry in view.all]))


def _get(visible: QuerySet[Approval], approval_id: str) -> Approval:
    approval = visible.filter(pk=approval_id).first() if approval_id.isalnum() else None
    if approval is None:
        raise NotFoundError("There is no such approval", next_step="The approvals are at /v1/approvals.")
    return approval


def _in_state(state: str, now: datetime) -> Q:
    lapses = (Approval.State.PENDING, Approval.State.APPROVED)
    if state == Approval.EXPIRED:
        return Q(state__in=lapses, expires_at__lte=now)
    return Q(state=state, expires_at__gt=now) if state in lapses else Q(state=state)


def _item(approval: Approval, *, operator: bool) -> dict[str, Any]:
    return {
        "id": approval.pk,
        "state": approval.state_at(timezone.now()),
        "tool": approval.tool_name,
        "connection": approval.connection or None,
        "door": approval.door,
        "caller": {"kind": approval.caller_kind, "id": approval.caller_id, "name": approval.caller_name},
        "askedAt": timestamp(approval.asked_at),
        "expiresAt": timestamp(approval.expires_at),
        "decidedAt": timestamp(approval.decided_at) if approval.decided_at else None,
        "decidedBy": (approval.decided_by or None) if operator else None,
        "reason": approval.reason or None,
        "callId": approval.call_id or None,
    }


def _detail(visible: QuerySet[Approval], approval_id: str, *, operator: bool) -> dict[str, Any]:
    approval = _get(visible, approval_id)
    disclosed = disclosure.of_approval(approval) or disclosure.of(None)
    details = {"arguments": disclosed.arguments, "keptAnswers": disclosed.kept, "maskedParts": disclosed.masked}
    return {**_item(approval, operator=operator), **details}
