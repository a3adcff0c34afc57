"""The call history: a key sees its own calls, one with `admin:*` all calls."""

from __future__ import annotations

from typing import Annotated

from django.db.models import QuerySet
from django.http import HttpRequest
from ninja import Query
from pydantic import Field

from tools_app.access import actions
from tools_app.api.answers import AsIs, ResponseSchema, TextOrNone, Timestamp, omitted_if_empty
from tools_app.api.authentication import caller_of
from tools_app.api.cursors import Pages
from tools_app.api.queries import INTEGER, Cursor, Limit, Moment, QueryString, Word, apply_filters, optional
from tools_app.api.routing import StrictRouter
from tools_app.base import database
from tools_app.models import Call
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import NotFoundError

router = StrictRouter(tags=["calls"])


Milliseconds = Annotated[int, Field(ge=0, le=86_400_000), INTEGER]

_HEAVY = ("arguments", "result")


# Read from the row of which it is a part.
class CallerSummary(ResponseSchema):
    kind: str = Field(validation_alias="caller_kind")
    id: str = Field(validation_alias="caller_id")
    name: str = Field(validation_alias="caller_name")


class CallItem(ResponseSchema):
    id: str
    tool: str = Field(validation_alias="tool_name")
    tool_version: str
    connection: TextOrNone = Field(description="Connection to the upstream that the call used")
    via: TextOrNone = Field(description="Tool through which this tool was called, for example call_tool")
    door: AsIs[Call.Door]
    caller: CallerSummary
    address: TextOrNone = Field(
        description="IP address of the client; null: a call on the hub's own machine, without HTTP"
    )
    client: TextOrNone = Field(description="User agent, only of a request that was refused before it reached a tool")
    key_prefix: TextOrNone = Field(
        description="Prefix of the key (not secret), only of a request that was refused before it reached a tool"
    )
    status: AsIs[Call.Status]
    code: TextOrNone = Field(description="Error code, if the call failed or was refused")
    error: TextOrNone
    error_id: TextOrNone = Field(description="Id under which operators find the cause")
    answered_by: TextOrNone = Field(description="`cache` or `replay`, if the tool did not run")
    count: int = Field(description="Number of identical refusals within one minute; 1 for every other call")
    attempts: int
    argument_bytes: int
    result_bytes: int
    started_at: Timestamp
    finished_at: Timestamp | None
    duration_ms: int | None
    queued_ms: int | None = Field(description="Time until the tool first ran: checks and waiting in the queue")
    upstream_ms: int | None = Field(description="Total duration of its requests to the upstream")


class CallDetail(CallItem):
    definition_hash: str
    result_hash: TextOrNone
    arguments: str | None = omitted_if_empty(
        "Only for your own calls: the stored arguments, with secrets masked, truncated if long"
    )
    result: str | None = omitted_if_empty(
        "Only for your own calls: the stored result, with secrets masked, truncated if long"
    )


class OwnCallDetail(CallDetail):
    arguments: TextOrNone
    result: TextOrNone


class CallPage(ResponseSchema):
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

    def filter(self, rows: QuerySet[Call]) -> QuerySet[Call]:
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
        return apply_filters(rows, filters)


@router.get("", response=CallPage, url_name="calls")
async def list_calls(request: HttpRequest, query: Query[CallsQuery]) -> CallPage:
    """List calls, newest first. Filters are combined (AND).

    Returns the calls of this key; with `admin:*` those of all callers. A call is listed when it has ended, a call of a
    tool that writes as soon as it starts. New calls between two pages never cause duplicates.
    """
    caller = caller_of(request)
    if query.caller is not None and query.caller != caller.id:
        actions.CALLS_READ.require(caller)
    pages = Pages("calls", caller, query, moment="started_at")
    rows = query.filter(_visible(caller)).defer(*_HEAVY)
    calls, cursor = await database.run(pages.page, rows, query.cursor, query.limit)
    return CallPage(calls=[CallItem.of(call, caller=call) for call in calls], next_cursor=cursor)


@router.get("/{call_id}", response=CallDetail, url_name="call_record")
async def show_call(request: HttpRequest, call_id: str) -> CallDetail:
    """Show a call. Arguments and result are included only for the caller who made it."""
    caller = caller_of(request)
    call = await database.run(_visible(caller).filter(pk=call_id).first) if call_id.isalnum() else None
    if call is None:
        raise NotFoundError("There is no such call", next_step="Your calls are at /v1/calls.")
    if call.caller_id == caller.id:
        return OwnCallDetail.of(call, caller=call)
    return CallDetail.of(call, caller=call, arguments=None, result=None)


def _visible(caller: Caller) -> QuerySet[Call]:
    return Call.objects.all() if actions.CALLS_READ.permits(caller) else Call.objects.filter(caller_id=caller.id)
