"""Error groups, which people resolve. Stack traces are shown in the admin only."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Literal

from django.contrib.auth import get_user_model
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from ninja import Query
from pydantic import Field

from tools_app import governance
from tools_app.access import actions
from tools_app.api.answers import AsIs, ResponseSchema, TextOrNone, Timestamp
from tools_app.api.authentication import caller_of, require
from tools_app.api.bodies import NOT_BLANK, Body, Reason
from tools_app.api.cursors import Pages
from tools_app.api.queries import Cursor, Limit, Moment, QueryString, Text, Word, apply_filters, optional
from tools_app.api.routing import StrictRouter
from tools_app.base import database
from tools_app.catalog import catalog
from tools_app.models import ErrorGroup, ErrorNote
from tools_app.models.calls import ErrorGroupQuerySet
from tools_app.sdk.errors import NotFoundError

router = StrictRouter(tags=["errors"])

LATEST = 20


ErrorState = Literal["open", "ignored", "snoozed", "resolved"]


class ErrorGroupItem(ResponseSchema):
    id: str = Field(validation_alias="fingerprint")
    tool: TextOrNone = Field(validation_alias="tool_name")
    code: str
    place: TextOrNone = Field(description="Code location, if known")
    message: str = Field(description="Message of the latest error")
    count: int
    state: AsIs[ErrorState]
    assignee: TextOrNone = Field(validation_alias="assignee_name", description="The user who takes care of it")
    first_seen_at: Timestamp
    last_seen_at: Timestamp
    last_call_id: TextOrNone
    resolved_at: Timestamp | None
    resolved_by: TextOrNone
    reopened_at: Timestamp | None = Field(
        description="When the error recurred after the group was resolved, or after a mute had ended"
    )
    muted_at: Timestamp | None = Field(description="When it was ignored or snoozed")
    muted_by: TextOrNone
    mute_reason: TextOrNone
    snoozed_until: Timestamp | None = Field(validation_alias="muted_until")
    ignored_until_count: int | None = Field(
        validation_alias="muted_until_count", description="The `count` from which on it is no longer ignored"
    )


class ErrorItem(ResponseSchema):
    id: str = Field(description="The `errorId` in the response to the caller")
    call_id: TextOrNone
    door: str
    caller: TextOrNone = Field(validation_alias="caller_name")
    message: str
    created_at: Timestamp


class NoteItem(ResponseSchema):
    at: Timestamp
    author: str
    text: str


class ErrorGroupDetail(ErrorGroupItem):
    notes: list[NoteItem] = Field(description="Notes by operators, newest first")
    latest: list[ErrorItem] = Field(description=f"Latest errors of the group, at most {LATEST}")


class ErrorGroupPage(ResponseSchema):
    errors: list[ErrorGroupItem]
    next_cursor: str | None


class ErrorsQuery(QueryString):
    tool: Word | None = optional("Only errors of this tool (full name)")
    code: Word | None = optional("Only errors with this code")
    state: ErrorState | None = optional()
    assignee: Annotated[Text, Field(max_length=150)] | None = optional("Only errors that are assigned to this user")
    since: Moment | None = optional("Only groups whose latest error occurred at or after this time")
    cursor: Cursor | None = optional()
    limit: Limit = 50

    def filter(self, rows: ErrorGroupQuerySet) -> QuerySet[ErrorGroup]:
        values = {"tool_name": self.tool, "code": self.code, "last_seen_at__gte": self.since}
        in_state = rows if self.state is None else rows.in_state(self.state, timezone.now())
        return apply_filters(in_state, {**values, f"assignee__{get_user_model().USERNAME_FIELD}": self.assignee})


class ErrorGroupDecision(Body):
    reason: Reason = ""


class ErrorGroupIgnore(Body):
    reason: str = Field(
        min_length=1,
        max_length=500,
        description="Why; shown with it, and in the audit trail",
        json_schema_extra=NOT_BLANK,
    )
    occurrences: int | None = Field(
        None,
        ge=1,
        le=governance.MOST_OCCURRENCES,
        description="Ignore only until as many more errors have occurred. Null: for good",
    )


class ErrorGroupSnooze(Body):
    until: Moment = Field(description="When it is open again")
    reason: Reason = ""


class ErrorGroupAssign(Body):
    user: Annotated[str, Field(min_length=1, max_length=150)] | None = Field(description="A username; null: unassigned")
    reason: Reason = ""


class Note(Body):
    text: str = Field(min_length=1, max_length=ErrorNote.MOST_CHARACTERS, json_schema_extra=NOT_BLANK)


@router.get("", response=ErrorGroupPage, url_name="errors")
async def list_errors(request: HttpRequest, query: Query[ErrorsQuery]) -> ErrorGroupPage:
    """List error groups, most recent first. Requires `tools:manage`. Filters are combined (AND)."""
    pages = Pages("errors", caller_of(request), query, moment="last_seen_at")
    rows = query.filter(await _visible(request))
    groups, cursor = await database.run(pages.page, rows, query.cursor, query.limit)
    return ErrorGroupPage(errors=groups, next_cursor=cursor)


@router.get("/{group_id}", response=ErrorGroupDetail, url_name="error")
async def show_error(request: HttpRequest, group_id: str) -> ErrorGroupDetail:
    """Show an error group and its latest errors. Requires `tools:manage`."""
    return await database.run(_detail, await _visible(request), group_id)


@router.post("/{group_id}/resolve", response=ErrorGroupDetail)
async def resolve_error(request: HttpRequest, group_id: str, body: ErrorGroupDecision) -> ErrorGroupDetail:
    """Resolve an error group. It reopens if the error recurs. Requires `tools:manage`."""
    return await _decide(request, group_id, governance.resolve_errors, body)


@router.post("/{group_id}/reopen", response=ErrorGroupDetail)
async def reopen_error(request: HttpRequest, group_id: str, body: ErrorGroupDecision) -> ErrorGroupDetail:
    """Reopen a resolved, ignored or snoozed error group. Requires `tools:manage`."""
    return await _decide(request, group_id, governance.reopen_errors, body)


@router.post("/{group_id}/ignore", response=ErrorGroupDetail)
async def ignore_error(request: HttpRequest, group_id: str, body: ErrorGroupIgnore) -> ErrorGroupDetail:
    """Ignore an error group: it is not open, and sends no alerts. Requires `tools:manage`."""
    return await _decide(request, group_id, partial(governance.ignore_errors, occurrences=body.occurrences), body)


@router.post("/{group_id}/snooze", response=ErrorGroupDetail)
async def snooze_error(request: HttpRequest, group_id: str, body: ErrorGroupSnooze) -> ErrorGroupDetail:
    """Snooze an error group: as ignored until that time, then open again. Requires `tools:manage`."""
    return await _decide(request, group_id, partial(governance.snooze_errors, until=body.until), body)


@router.post("/{group_id}/assign", response=ErrorGroupDetail)
async def assign_error(request: HttpRequest, group_id: str, body: ErrorGroupAssign) -> ErrorGroupDetail:
    """Assign an error group to a user who may resolve it, or unassign it. Requires `tools:manage`."""
    return await _decide(request, group_id, partial(governance.assign_errors, username=body.user), body)


@router.post("/{group_id}/notes", response={201: ErrorGroupDetail})
async def add_note(request: HttpRequest, group_id: str, body: Note) -> ErrorGroupDetail:
    """Add a note to an error group. Requires `tools:manage`."""
    visible, actor = await _visible(request), governance.of_caller(caller_of(request))

    def add_and_show() -> ErrorGroupDetail:
        governance.add_error_note(_get(visible, group_id).pk, body.text, actor=actor)
        return _detail(visible, group_id)

    return await database.run(add_and_show)


async def _decide(
    request: HttpRequest,
    group_id: str,
    decide: Callable[..., list[str]],
    body: ErrorGroupDecision | ErrorGroupIgnore | ErrorGroupSnooze | ErrorGroupAssign,
) -> ErrorGroupDetail:
    visible, actor = await _visible(request), governance.of_caller(caller_of(request))

    def decide_and_show() -> ErrorGroupDetail:
        decide([_get(visible, group_id).pk], actor=actor, reason=body.reason)
        return _detail(visible, group_id)

    return await database.run(decide_and_show)


async def _visible(request: HttpRequest) -> ErrorGroupQuerySet:
    """The error groups of the tools in the caller's toolsets.

    Raises:
        AuthorizationError: the caller does not manage tools.
    """
    caller = require(request, actions.ERRORS_READ)
    if caller.reach.toolsets is None:
        return ErrorGroup.objects.select_related("assignee")
    view = (await catalog.fresh()).seen_by(caller)
    return ErrorGroup.objects.select_related("assignee").filter(tool_name__in=[entry.name for entry in view.all])


def _get(visible: QuerySet[ErrorGroup], group_id: str) -> ErrorGroup:
    group = visible.filter(pk=group_id).first() if group_id.isalnum() else None
    if group is None:
        raise NotFoundError("There is no such error", next_step="The errors are at /v1/errors.")
    return group


def _detail(visible: QuerySet[ErrorGroup], group_id: str) -> ErrorGroupDetail:
    group = _get(visible, group_id)
    latest = group.errors.defer("detail").order_by("-created_at", "-pk")[:LATEST]
    return ErrorGroupDetail.of(group, notes=list(group.notes.all()), latest=list(latest))
