"""Calls that need an operator's approval. Callers see their own, operators all of them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Literal, Self

from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from ninja import Query
from pydantic import Field

from tools_app import governance
from tools_app.access import actions
from tools_app.access.actions import Action
from tools_app.api.answers import AsIs, ResponseSchema, TextOrNone, Timestamp
from tools_app.api.authentication import actor_of, caller_of
from tools_app.api.bodies import Body, Reason
from tools_app.api.calls import CallerSummary
from tools_app.api.cursors import Pages
from tools_app.api.errors import Failure
from tools_app.api.queries import Cursor, Limit, QueryString, Row, Word, apply_filters, optional
from tools_app.api.routing import StrictRouter
from tools_app.base import database
from tools_app.catalog import catalog
from tools_app.governance import disclosure
from tools_app.models import Approval
from tools_app.sdk.errors import NotFoundError

router = StrictRouter(tags=["approvals"])

State = Literal["pending", "approved", "refused", "used", "expired"]


class ApprovalItem(ResponseSchema):
    id: str
    state: AsIs[State]
    tool: str = Field(validation_alias="tool_name")
    connection: TextOrNone
    door: str
    caller: CallerSummary
    asked_at: Timestamp
    expires_at: Timestamp = Field(description="When it expires, decided or not; a decision restarts the period")
    decided_at: Timestamp | None
    decided_by: TextOrNone = Field(description="Visible to operators only")
    reason: TextOrNone
    call_id: TextOrNone = Field(description="The call that used the approval")
    standing_approval_id: TextOrNone = Field(
        validation_alias="standing_id", description="The standing approval that permitted the call"
    )

    @classmethod
    def shown(cls, approval: Approval, *, operator: bool, **details: Any) -> Self:
        state = approval.state_at(timezone.now())
        decided_by = approval.decided_by if operator else None
        return cls.of(approval, caller=approval, state=state, decided_by=decided_by, **details)


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


class ApprovalPage(ResponseSchema):
    approvals: list[ApprovalItem]
    next_cursor: str | None


class ApprovalsQuery(QueryString):
    state: State | None = optional()
    tool: Word | None = optional("Only calls of this tool (full name)")
    caller: Word | None = optional("Only calls of this caller id, for example `key:3`")
    cursor: Cursor | None = optional()
    limit: Limit = 50

    def filter(self, rows: QuerySet[Approval]) -> QuerySet[Approval]:
        rows = apply_filters(rows, {"tool_name": self.tool, "caller_id": self.caller})
        return rows if self.state is None else rows.filter(_in_state(self.state, timezone.now()))


class ApprovalDecision(Body):
    reason: Reason = Field(default="", description="Shown to the caller if the call is rejected")


@router.get("", response=ApprovalPage, url_name="approvals")
async def list_approvals(request: HttpRequest, query: Query[ApprovalsQuery]) -> ApprovalPage:
    """List approvals, pending and decided, newest first.

    Returns the caller's own approvals; with `tools:manage` those of all callers.
    """
    caller = caller_of(request)
    pages = Pages("approvals", caller, query, moment="asked_at")
    rows = query.filter(await visible_approvals(request)).defer("arguments")
    page, cursor = await database.run(pages.page, rows, query.cursor, query.limit)
    items = [ApprovalItem.shown(approval, operator=actions.APPROVALS_READ.permits(caller)) for approval in page]
    return ApprovalPage(approvals=items, next_cursor=cursor)


@router.get("/{approval_id}", response=ApprovalDetail, url_name="approval")
async def show_approval(request: HttpRequest, approval_id: str) -> ApprovalDetail:
    """Show an approval. Callers can see their own; `tools:manage` can see any."""
    caller, rows = caller_of(request), await visible_approvals(request)
    is_operator = actions.APPROVALS_READ.permits(caller)

    def note_and_show() -> ApprovalDetail:
        approval = approval_of(rows, approval_id)
        if approval.caller_id != caller.id:
            governance.note_arguments_read(approval.pk, actor=governance.of_caller(caller))
        return _detail(rows, approval_id, operator=is_operator)

    return await database.run(note_and_show)


@router.post("/{approval_id}/approve", response={200: ApprovalDetail, 409: Failure})
async def approve_call(request: HttpRequest, approval_id: str, body: ApprovalDecision) -> ApprovalDetail:
    """Approve a call. Requires `tools:manage`. A key cannot approve its own calls.

    The caller can run the call once by repeating it.
    """
    return await _decide(request, approval_id, governance.approve_call, body)


@router.post("/{approval_id}/refuse", response={200: ApprovalDetail, 409: Failure})
async def refuse_call(request: HttpRequest, approval_id: str, body: ApprovalDecision) -> ApprovalDetail:
    """Reject a call. The caller sees the reason. Requires `tools:manage`."""
    return await _decide(request, approval_id, governance.refuse_call, body)


async def _decide(
    request: HttpRequest, approval_id: str, decide: Callable[..., Approval], body: ApprovalDecision
) -> ApprovalDetail:
    actor = actor_of(request, actions.CALL_APPROVE)
    rows = await visible_approvals(request)

    def decide_and_show() -> ApprovalDetail:
        decide(approval_of(rows, approval_id).pk, actor=actor, reason=body.reason)
        return _detail(rows, approval_id, operator=True)

    return await database.run(decide_and_show)


async def visible_approvals(request: HttpRequest) -> QuerySet[Approval]:
    return await visible(request, Approval.objects.all(), actions.APPROVALS_READ)


async def visible(request: HttpRequest, rows: QuerySet[Row], reading: Action) -> QuerySet[Row]:
    """The caller's own rows; with the permission to read, also those of all tools in its toolsets."""
    caller = caller_of(request)
    own = Q(caller_id=caller.id)
    if not reading.permits(caller):
        return rows.filter(own)
    if caller.reach.toolsets is None:
        return rows
    view = (await catalog.fresh()).seen_by(caller)
    return rows.filter(own | Q(tool_name__in=[entry.name for entry in view.all]))


def approval_of(rows: QuerySet[Approval], approval_id: str) -> Approval:
    """Raises: NotFoundError."""
    approval = rows.filter(pk=approval_id).first() if approval_id.isalnum() else None
    if approval is None:
        raise NotFoundError("There is no such approval", next_step="The approvals are at /v1/approvals.")
    return approval


def _in_state(state: str, now: datetime) -> Q:
    lapses = (Approval.State.PENDING, Approval.State.APPROVED)
    if state == Approval.EXPIRED:
        return Q(state__in=lapses, expires_at__lte=now)
    return Q(state=state, expires_at__gt=now) if state in lapses else Q(state=state)


def _detail(rows: QuerySet[Approval], approval_id: str, *, operator: bool) -> ApprovalDetail:
    approval = approval_of(rows, approval_id)
    view = disclosure.of_approval(approval) or disclosure.of(None)
    return ApprovalDetail.shown(
        approval,
        operator=operator,
        arguments=view.arguments,
        kept_answers=view.stored_results,
        masked_parts=view.masked_count,
    )
