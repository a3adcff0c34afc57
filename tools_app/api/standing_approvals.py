"""Standing approvals: calls that an operator has approved in advance. Callers see theirs, operators all of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal, Self

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from ninja import Query
from pydantic import Field

from tools_app import governance
from tools_app.access import actions
from tools_app.api import approvals
from tools_app.api.answers import AsIs, ResponseSchema, TextOrNone, Timestamp
from tools_app.api.approvals import visible
from tools_app.api.authentication import actor_of, caller_of
from tools_app.api.bodies import Body, Reason
from tools_app.api.calls import CallerSummary
from tools_app.api.cursors import Pages
from tools_app.api.errors import Failure
from tools_app.api.queries import Cursor, Limit, QueryString, Word, apply_filters, optional
from tools_app.api.routing import StrictRouter
from tools_app.base import database
from tools_app.governance import disclosure
from tools_app.governance.standing import LONGEST, MOST_USES, MOST_VALUES, SHORTEST, in_state, state_of
from tools_app.models import StandingApproval
from tools_app.sdk.errors import NotFoundError

router = StrictRouter(tags=["approvals"])

State = Literal["active", "revoked", "expired", "used_up", "void"]
Argument = Annotated[str, Field(min_length=1, max_length=256)]
Bound = int | float


class ArgumentLimit(Body):
    """One of some values, or a number within bounds."""

    enum: list[Any] = Field(default=[], max_length=MOST_VALUES, description="The value is one of these")
    minimum: Bound = Field(default=0, description="The value is a number, and not less. Omitted: no lower bound")
    maximum: Bound = Field(default=0, description="The value is a number, and not more. Omitted: no upper bound")


class StandingApprovalRequest(Body):
    """Arguments that are neither free nor limited have to be the same as in the call."""

    free: list[Argument] = Field(
        default=[], max_length=100, description="Arguments that can have any value, or be omitted"
    )
    limits: dict[Argument, ArgumentLimit] = Field(
        default={}, max_length=100, description="Arguments that can have other values within limits"
    )
    uses: int = Field(ge=1, le=MOST_USES, description="How many calls are covered")
    seconds: int = Field(
        ge=int(SHORTEST.total_seconds()), le=int(LONGEST.total_seconds()), description="How long it is valid"
    )
    reason: Reason = ""


class StandingApprovalItem(ResponseSchema):
    id: str
    state: AsIs[State] = Field(description="`void`: the tool or the address of its connection is another one now")
    tool: str = Field(validation_alias="tool_name")
    connection: TextOrNone
    caller: CallerSummary
    uses: int = Field(description="How many calls it covers")
    used: int
    created_at: Timestamp
    expires_at: Timestamp
    revoked_at: Timestamp | None
    created_by: TextOrNone = Field(description="Visible to operators only")
    revoked_by: TextOrNone = Field(description="Visible to operators only")
    reason: TextOrNone = Field(description="Visible to operators only")

    @classmethod
    def shown(cls, standing: StandingApproval, *, operator: bool, **details: Any) -> Self:
        people = {} if operator else {"created_by": None, "revoked_by": None, "reason": None}
        return cls.of(standing, caller=standing, state=state_of(standing, timezone.now()), **people, **details)


class StandingApprovalDetail(StandingApprovalItem):
    is_readable: bool = Field(description="False: its encryption key is no longer configured, so it covers nothing")
    same: dict[str, Any] = Field(description="Arguments that have to have this value; secrets are masked")
    limits: dict[str, Any] = Field(description="Arguments with limits, as in the request; secrets are masked")
    free: list[str] = Field(description="Arguments that can have any value, or be omitted")
    masked_parts: int


class StandingApprovalPage(ResponseSchema):
    standing_approvals: list[StandingApprovalItem]
    next_cursor: str | None


class StandingApprovalsQuery(QueryString):
    state: State | None = optional()
    tool: Word | None = optional("Only those of this tool (full name)")
    caller: Word | None = optional("Only those of this caller id, for example `key:3`")
    cursor: Cursor | None = optional()
    limit: Limit = 50

    def filter(self, rows: QuerySet[StandingApproval]) -> QuerySet[StandingApproval]:
        rows = apply_filters(rows, {"tool_name": self.tool, "caller_id": self.caller})
        return rows if self.state is None else rows.filter(in_state(self.state, timezone.now()))


class Revocation(Body):
    reason: Reason = ""


@approvals.router.post(
    "/{approval_id}/standing", response={201: StandingApprovalDetail, 409: Failure}, url_name="approval_standing"
)
async def grant_standing_approval(
    request: HttpRequest, approval_id: str, body: StandingApprovalRequest
) -> StandingApprovalDetail:
    """Approve calls like this one in advance. Requires `tools:manage`. A key cannot do so for its own calls.

    Covers calls by the same caller, of the same definition of the tool, through the same connection. The call itself,
    if it is pending, runs when its caller repeats it.
    """
    actor = actor_of(request, actions.STANDING_GRANT)
    rows = await approvals.visible_approvals(request)
    limits = {name: limit.model_dump(exclude_unset=True) for name, limit in body.limits.items()}

    def grant() -> StandingApprovalDetail:
        standing = governance.grant_standing(
            approvals.approval_of(rows, approval_id).pk,
            free=body.free,
            limits=limits,
            uses=body.uses,
            lasts=timedelta(seconds=body.seconds),
            actor=actor,
            reason=body.reason,
        )
        return _detail(standing, operator=True)

    return await database.run(grant)


@router.get("", response=StandingApprovalPage, url_name="standing_approvals")
async def list_standing_approvals(request: HttpRequest, query: Query[StandingApprovalsQuery]) -> StandingApprovalPage:
    """List standing approvals, newest first.

    Returns those of the caller; with `tools:manage` those of all callers.
    """
    caller = caller_of(request)
    pages = Pages("standing-approvals", caller, query, moment="created_at")
    rows, operator = await _visible(request), actions.STANDING_READ.permits(caller)

    def page() -> StandingApprovalPage:
        found, cursor = pages.page(query.filter(rows).defer("constraint"), query.cursor, query.limit)
        items = [StandingApprovalItem.shown(standing, operator=operator) for standing in found]
        return StandingApprovalPage(standing_approvals=items, next_cursor=cursor)

    return await database.run(page)


@router.get("/{standing_id}", response=StandingApprovalDetail, url_name="standing_approval")
async def show_standing_approval(request: HttpRequest, standing_id: str) -> StandingApprovalDetail:
    """Show a standing approval and what it covers. Callers can see theirs; `tools:manage` can see any."""
    rows, operator = await _visible(request), actions.STANDING_READ.permits(caller_of(request))
    return await database.run(lambda: _detail(_get(rows, standing_id), operator=operator))


@router.post("/{standing_id}/revoke", response=StandingApprovalDetail)
async def revoke_standing_approval(request: HttpRequest, standing_id: str, body: Revocation) -> StandingApprovalDetail:
    """Revoke a standing approval. Requires `tools:manage`. From the next call on, each needs an approval of its own.

    One that is no longer active is left as it is.
    """
    actor = actor_of(request, actions.STANDING_REVOKE)
    rows = await _visible(request)

    def revoke() -> StandingApprovalDetail:
        governance.revoke_standing(_get(rows, standing_id).pk, actor=actor, reason=body.reason)
        return _detail(_get(rows, standing_id), operator=True)

    return await database.run(revoke)


async def _visible(request: HttpRequest) -> QuerySet[StandingApproval]:
    return await visible(request, StandingApproval.objects.with_address(), actions.STANDING_READ)


def _get(rows: QuerySet[StandingApproval], standing_id: str) -> StandingApproval:
    standing = rows.filter(pk=standing_id).first() if standing_id.isalnum() else None
    if standing is None:
        raise NotFoundError(
            "There is no such standing approval", next_step="The standing approvals are at /v1/standing-approvals."
        )
    return standing


def _detail(standing: StandingApproval, *, operator: bool) -> StandingApprovalDetail:
    coverage = disclosure.of_standing(standing)
    shown = coverage or disclosure.Coverage()
    return StandingApprovalDetail.shown(
        standing,
        operator=operator,
        is_readable=coverage is not None,
        same=shown.same,
        limits=shown.limits,
        free=shown.free,
        masked_parts=shown.masked_count,
    )
