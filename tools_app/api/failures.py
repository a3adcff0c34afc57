"""Error groups, which people resolve. Stack traces are shown in the admin only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from ninja import Query
from pydantic import Field

from tools_app import governance
from tools_app.access import access
from tools_app.api.answers import Shown, answer, timestamp
from tools_app.api.authentication import caller_of
from tools_app.api.bodies import NOT_BLANK, Body, Reason
from tools_app.api.cursors import Pages
from tools_app.api.errors import failures
from tools_app.api.queries import Cursor, Limit, Moment, QueryString, Word, narrowed, optional
from tools_app.api.routing import StrictRouter
from tools_app.base import database
from tools_app.catalog import catalog
from tools_app.models import ErrorGroup, ErrorNote
from tools_app.sdk.errors import NotFoundError

router = StrictRouter(tags=["errors"])

LATEST = 20


class ErrorGroupItem(Shown):
    id: str
    tool: str | None
    code: str
    place: str | None = Field(description="Code location, if known")
    message: str = Field(description="Message of the latest error")
    count: int
    state: Literal["open", "resolved"]
    first_seen_at: str
    last_seen_at: str
    last_call_id: str | None
    resolved_at: str | None
    resolved_by: str | None
    reopened_at: str | None = Field(description="When the error recurred after the group was resolved")


class ErrorShown(Shown):
    id: str = Field(description="The `errorId` in the response to the caller")
    call_id: str | None
    door: str
    caller: str | None
    message: str
    created_at: str


class NoteShown(Shown):
    at: str
    author: str
    text: str


class ErrorGroupDetail(ErrorGroupItem):
    notes: list[NoteShown] = Field(description="Notes by operators, newest first")
    latest: list[ErrorShown] = Field(description=f"Latest errors of the group, at most {LATEST}")


class ErrorGroupPage(Shown):
    errors: list[ErrorGroupItem]
    next_cursor: str | None


class ErrorsQuery(QueryString):
    tool: Word | None = optional("Only errors of this tool (full name)")
    code: Word | None = optional("Only errors with this code")
    state: Literal["open", "resolved"] | None = optional()
    since: Moment | None = optional("Only groups whose latest error occurred at or after this time")
    cursor: Cursor | None = optional()
    limit: Limit = 50

    def filtered(self, rows: QuerySet[ErrorGroup]) -> QuerySet[ErrorGroup]:
        rows = narrowed(rows, {"tool_name": self.tool, "code": self.code, "last_seen_at__gte": self.since})
        return rows if self.state is None else rows.filter(resolved_at__isnull=self.state == "open")


class Decision(Body):
    reason: Reason = ""


class Note(Body):
    text: str = Field(min_length=1, max_length=ErrorNote.MOST_CHARACTERS, json_schema_extra=NOT_BLANK)


@router.get("", response={200: ErrorGroupPage, **failures()}, url_name="errors")
async def list_errors(request: HttpRequest, query: Query[ErrorsQuery]) -> HttpResponse:
    """List error groups, most recent first. Requires `tools:manage`. Filters are combined (AND)."""
    pages = Pages("errors", caller_of(request), query, moment="last_seen_at")
    rows = query.filtered(await _visible(request))
    groups, cursor = await database.run(pages.cut, rows, query.cursor, query.limit)
    return answer({"errors": [_item(group) for group in groups], "nextCursor": cursor})


@router.get("/{group_id}", response={200: ErrorGroupDetail, **failures(404)}, url_name="error")
async def show_error(request: HttpRequest, group_id: str) -> HttpResponse:
    """Show an error group and its latest errors. Requires `tools:manage`."""
    return answer(await database.run(_detail, await _visible(request), group_id))


@router.post("/{group_id}/resolve", response={200: ErrorGroupDetail, **failures(404, 408, 413, 415)})
async def resolve_error(request: HttpRequest, group_id: str, body: Decision) -> HttpResponse:
    """Resolve an error group. It reopens if the error recurs. Requires `tools:manage`."""
    return await _decide(request, group_id, governance.resolve_errors, body)


@router.post("/{group_id}/reopen", response={200: ErrorGroupDetail, **failures(404, 408, 413, 415)})
async def reopen_error(request: HttpRequest, group_id: str, body: Decision) -> HttpResponse:
    """Reopen a resolved error group. Requires `tools:manage`."""
    return await _decide(request, group_id, governance.reopen_errors, body)


@router.post("/{group_id}/notes", response={201: ErrorGroupDetail, **failures(404, 408, 413, 415)})
async def add_note(request: HttpRequest, group_id: str, body: Note) -> HttpResponse:
    """Add a note to an error group. Requires `tools:manage`."""
    visible, actor = await _visible(request), str(caller_of(request))

    def add_and_show() -> dict[str, Any]:
        governance.add_error_note(_get(visible, group_id).pk, body.text, actor=actor)
        return _detail(visible, group_id)

    return answer(await database.run(add_and_show), 201)


async def _decide(
    request: HttpRequest, group_id: str, decide: Callable[..., list[str]], body: Decision
) -> HttpResponse:
    visible, actor = await _visible(request), str(caller_of(request))

    def decide_and_show() -> dict[str, Any]:
        decide([_get(visible, group_id).pk], actor=actor, reason=body.reason)
        return _detail(visible, group_id)

    return answer(await database.run(decide_and_show))


async def _visible(request: HttpRequest) -> QuerySet[ErrorGroup]:
    """The error groups of the tools in the caller's toolsets.

    Raises:
        AuthorizationError: the caller does not manage tools.
    """
    caller = caller_of(request)
    access.require(caller, "tools:manage")
    if caller.reach.toolsets is None:
        return ErrorGroup.objects.all()
    view = (await catalog.fresh()).seen_by(caller)
    return ErrorGroup.objects.filter(tool_name__in=[entry.name for entry in view.all])


def _get(visible: QuerySet[ErrorGroup], group_id: str) -> ErrorGroup:
    group = visible.filter(pk=group_id).first() if group_id.isalnum() else None
    if group is None:
        raise NotFoundError("There is no such error", next_step="The errors are at /v1/errors.")
    return group


def _item(group: ErrorGroup) -> dict[str, Any]:
    return {
        "id": group.fingerprint,
        "tool": group.tool_name or None,
        "code": group.code,
        "place": group.place or None,
        "message": group.message,
        "count": group.count,
        "state": "resolved" if group.resolved_at else "open",
        "firstSeenAt": timestamp(group.first_seen_at),
        "lastSeenAt": timestamp(group.last_seen_at),
        "lastCallId": group.last_call_id or None,
        "resolvedAt": timestamp(group.resolved_at) if group.resolved_at else None,
        "resolvedBy": group.resolved_by or None,
        "reopenedAt": timestamp(group.reopened_at) if group.reopened_at else None,
    }


def _detail(visible: QuerySet[ErrorGroup], group_id: str) -> dict[str, Any]:
    group = _get(visible, group_id)
    latest = group.errors.defer("detail").order_by("-created_at", "-pk")[:LATEST]
    return {
        **_item(group),
        "notes": [{"at": timestamp(note.at), "author": note.author, "text": note.text} for note in group.notes.all()],
        "latest": [
            {
                "id": error.id,
                "callId": error.call_id or None,
                "door": error.door,
                "caller": error.caller_name or None,
                "message": error.message,
                "createdAt": timestamp(error.created_at),
            }
            for error in latest
        ],
    }
