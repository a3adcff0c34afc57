"""The call history: a key sees its own calls, one with `admin:*` all calls."""

from __future__ import annotations

from typing import Annotated, Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from ninja import Query
from pydantic import Field

from tools_app.access import access
from tools_app.api.answers import Shown, answer, timestamp
from tools_app.api.authentication import caller_of
from tools_app.api.cursors import Pages
from tools_app.api.errors import failures
from tools_app.api.queries import WHOLE, Cursor, Limit, Moment, QueryString, Word, narrowed, optional
from tools_app.api.routing import StrictRouter
from tools_app.base import database
from tools_app.models import Call
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import NotFoundError

router = StrictRouter(tags=["calls"])

ALL = "admin:*"

Milliseconds = Annotated[int, Field(ge=0, le=86_400_000), WHOLE]

_HEAVY = ("arguments", "result")


class CallerShown(Shown):
    kind: str
    id: str
    name: str


class CallItem(Shown):
    id: str
    tool: str
    tool_version: str
    connection: str | None = Field(description="Connection to the upstream that the call used")
    via: str | None = Field(description="Tool through which this tool was called, for example call_tool")
    door: Call.Door
    caller: CallerShown
    address: str | None = Field(description="IP address, only of a request that was refused before it reached a tool")
    client: str | None = Field(description="User agent, only of a request that was refused before it reached a tool")
    key_prefix: str | None = Field(
        description="Prefix of the key (not secret), only of a request that was refused before it reached a tool"
    )
    status: Call.Status
    code: str | None = Field(description="Error code, if the call failed or was refused")
    error: str | None
    error_id: str | None = Field(description="Id under which operators find the cause")
    answered_by: str | None = Field(description="`cache` or `replay`, if the tool did not run")
    count: int = Field(description="Number of identical refusals within one minute; 1 for every other call")
    attempts: int
    argument_bytes: int
    result_bytes: int
    started_at: str
    finished_at: str | None
    duration_ms: int | None
    queued_ms: int | None = Field(description="Time until the tool first ran: checks and waiting in the queue")
    upstream_ms: int | None = Field(description="Total duration of its requests to the upstream")


class CallDetail(CallItem):
    definition_hash: str
    result_hash: str | None
    arguments: str | None = Field(
        default=None,
        description="Only for your own calls: the stored arguments, with secrets masked, truncated if long",
    )
    result: str | None = Field(
        default=None, description="Only for your own calls: the stored result, with secrets masked, truncated if long"
    )


class CallPage(Shown):
    calls: list[CallItem]
    next_cursor: str | None = Field(description="Cursor of the next page; null on the last page")


class CallsQuery(QueryString):
    tool: Word | None = optional("Only calls of this tool (full name)")
    status: Call.Status | None = optional()
    code: Word | None = optional("Only calls that ended with this error code")
    door: Call.Door | None = optional()
    connection: Word | None = optional("Only calls that used this connection")
    caller: Word | None = optional("Only calls of this caller id, for example `key:3`; requires `admin:*`")
    since: Moment | None = optional("Only calls that started at or after this time")
    until: Moment | None = optional("Only calls that started before this time")
    slower_than: Milliseconds | None = optional("Only calls that took at least this many milliseconds")
    cursor: Cursor | None = optional()
    limit: Limit = 50

    def filtered(self, rows: QuerySet[Call]) -> QuerySet[Call]:
        filters = {
            "tool_name": self.tool,
            "status": self.status,
            "code": self.code,
            "door": self.door,
            "connection": self.connection,
            "caller_id": self.caller,
            "started_at__gte": self.since,
            "started_at__lt": self.until,
            "duration_ms__gte": self.slower_than,
        }
        return narrowed(rows, filters)


@router.get("", response={200: CallPage, **failures()}, url_name="calls")
async def list_calls(request: HttpRequest, query: Query[CallsQuery]) -> HttpResponse:
    """List calls, newest first. Filters are combined (AND).

    Returns the calls of this key; with `admin:*` those of all callers. A call is listed when it has ended, a call of a
    tool that writes as soon as it starts. New calls between two pages never cause duplicates.
    """
    caller = caller_of(request)
    if query.caller is not None and query.caller != caller.id:
        access.require(caller, ALL)
    pages = Pages("calls", caller, query, moment="started_at")
    rows = query.filtered(_visible(caller)).defer(*_HEAVY)
    calls, cursor = await database.run(pages.cut, rows, query.cursor, query.limit)
    return answer({"calls": [_item(call) for call in calls], "nextCursor": cursor})


@router.get("/{call_id}", response={200: CallDetail, **failures(404)}, url_name="call_record")
async def show_call(request: HttpRequest, call_id: str) -> HttpResponse:
    """Show a call. Arguments and result are included only for the caller who made it."""
    caller = caller_of(request)
    call = await database.run(_visible(caller).filter(pk=call_id).first) if call_id.isalnum() else None
    if call is None:
        raise NotFoundError("There is no such call", next_step="Your calls are at /v1/calls.")
    return answer(_detail(call, caller))


def _visible(caller: Caller) -> QuerySet[Call]:
    return Call.objects.all() if caller.may(ALL) else Call.objects.filter(caller_id=caller.id)


def _item(call: Call) -> dict[str, Any]:
    return {
        "id": call.id,
        "tool": call.tool_name,
        "toolVersion": call.tool_version,
        "connection": call.connection or None,
        "via": call.via or None,
        "door": call.door,
        "caller": {"kind": call.caller_kind, "id": call.caller_id, "name": call.caller_name},
        "address": call.address or None,
        "client": call.client or None,
        "keyPrefix": call.key_prefix or None,
        "status": call.status,
        "code": call.code or None,
        "error": call.error or None,
        "errorId": call.error_id or None,
        "answeredBy": call.answered_by or None,
        "count": call.count,
        "attempts": call.attempts,
        "argumentBytes": call.argument_bytes,
        "resultBytes": call.result_bytes,
        "startedAt": timestamp(call.started_at),
        "finishedAt": timestamp(call.finished_at) if call.finished_at else None,
        "durationMs": call.duration_ms,
        "queuedMs": call.queued_ms,
        "upstreamMs": call.upstream_ms,
    }


def _detail(call: Call, caller: Caller) -> dict[str, Any]:
    detail = {**_item(call), "definitionHash": call.definition_hash, "resultHash": call.result_hash or None}
    if call.caller_id == caller.id:
        detail |= {"arguments": call.arguments or None, "result": call.result or None}
    return detail
