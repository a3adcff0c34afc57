"""The tools: list them, look at one, call one."""

from __future__ import annotations

import math
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from tools_app import access, catalog, engine
from tools_app.api.answers import answer, timestamp
from tools_app.api.authentication import caller_of
from tools_app.api.bodies import Body
from tools_app.api.errors import DOOR, REPLAYED, Failure
from tools_app.api.queries import Flag, Limit, Page, QueryString, Word, optional
from tools_app.catalog import Entry
from tools_app.errors import ToolNotFoundError
from tools_app.models.tools import (
    MAX_RETRIES,
    MAX_RETRY_DELAY_MS,
    MAX_TIMEOUT_MS,
    MIN_RETRY_DELAY_MS,
    MIN_TIMEOUT_MS,
)

router = Router(tags=["tools"])

_REFUSED: Final = {(400, 401, 403, 500, 503): Failure}
_FAILED: Final = {(400, 401, 403, 404, 408, 413, 415, 422, 429, 500, 502, 503): Failure}


class Shown(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel)


class Parameter(Shown):
    name: str
    type: str
    description: str
    required: bool
    default: Any = None
    enum: list[Any] | None = None
    pattern: str | None = None
    minimum: float | None = None
    maximum: float | None = None


class ToolItem(Shown):
    """A tool as lists show it. What this process has not loaded has no schema."""

    name: str
    title: str
    description: str
    parameters: list[Parameter]
    version: str
    category: str
    tags: list[str]
    author: str
    enabled: bool
    registered_at: str
    available: bool
    unavailable_reason: str | None = None
    annotations: dict[str, bool] | None
    input_schema: dict[str, Any] | None


class Example(Shown):
    description: str
    parameters: dict[str, Any]
    expected_result: Any = None


class Rate(Shown):
    max: int
    time_window: float = Field(description="Milliseconds")


class Policy(Shown):
    """How the tool is called, and who decided each part."""

    timeout_ms: int
    retries: int
    retry_delay_ms: int
    rate_limit: Rate | None
    cache_seconds: int
    origins: dict[str, str]


class ToolDetail(ToolItem):
    aliases: list[str]
    examples: list[Example]
    dependencies: list[str]
    pack: str
    output_schema: dict[str, Any] | None
    policy: Policy
    definition_hash: str


class Pagination(Shown):
    page: int
    limit: int
    total: int
    total_pages: int


class ToolPage(Shown):
    tools: list[ToolItem]
    pagination: Pagination


class ListQuery(QueryString):
    category: Word | None = optional()
    tag: Word | None = optional()
    enabled: Flag | None = optional()
    page: Page = 1
    limit: Limit = 50

    def fits(self, entry: Entry) -> bool:
        return (
            (self.category is None or entry.category == self.category)
            and (self.tag is None or self.tag in entry.tags)
            and (self.enabled is None or entry.enabled == self.enabled)
        )


class CallOptions(Body):
    timeout: int | None = Field(
        default=None, description=f"Milliseconds after which to give up, {MIN_TIMEOUT_MS} to {MAX_TIMEOUT_MS}"
    )
    retry: int | None = Field(
        default=None, description=f"How often to try again when that can help and does no harm, 0 to {MAX_RETRIES}"
    )
    retry_delay: int | None = Field(
        default=None,
        description=f"Milliseconds before the first new try, {MIN_RETRY_DELAY_MS} to {MAX_RETRY_DELAY_MS}",
    )
    dry_run: bool = Field(default=False, description="Check everything and tell what would be done, and do nothing")


class CallRequest(Body):
    name: str = Field(min_length=1)
    parameters: dict[str, Any] = {}
    options: CallOptions = CallOptions()


class CallAnswer(Shown):
    success: bool
    result: Any
    execution_time: int = Field(description="Milliseconds")
    timestamp: str
    call_id: str
    dry_run: bool | None = Field(default=None, description="Nothing was done: the result says what would have been")
    cached: bool | None = Field(default=None, description="An answer that was given before, for the same parameters")


@router.get("", response={200: ToolPage, **_REFUSED}, url_name="tools")
async def list_tools(request: HttpRequest, query: Query[ListQuery]) -> HttpResponse:
    """List the tools by name, a page at a time. All filters must fit."""
    caller = caller_of(request)
    access.require(caller, "tools:list")
    found = [entry for entry in (await catalog.fresh()).seen_by(caller).all if query.fits(entry)]
    first = (query.page - 1) * query.limit
    return answer(
        {
            "tools": [_item(entry) for entry in found[first : first + query.limit]],
            "pagination": {
                "page": query.page,
                "limit": query.limit,
                "total": len(found),
                "totalPages": math.ceil(len(found) / query.limit),
            },
        }
    )


# Before the address with a name in it, which would take "call" for one.
@router.post("/call", response={200: CallAnswer, **_FAILED}, url_name="call")
async def call_tool(request: HttpRequest, body: CallRequest) -> HttpResponse:
    """Call a tool and wait for its answer."""
    asked = body.options
    options = engine.Options(
        timeout_ms=asked.timeout,
        retries=asked.retry,
        retry_delay_ms=asked.retry_delay,
        dry_run=asked.dry_run,
        idempotency_key=request.headers.get("Idempotency-Key"),
    )
    result = await engine.call(body.name, body.parameters, caller_of(request), door=DOOR, options=options)
    told: dict[str, Any] = {
        "success": True,
        "result": result.answer.value,
        "executionTime": result.duration_ms,
        "timestamp": timestamp(),
        "callId": result.call_id,
    }
    if result.dry_run:
        told["dryRun"] = True
    if result.answered_by == "cache":
        told["cached"] = True
    made = answer(told)
    if result.answered_by == "replay":
        made[REPLAYED] = "true"
    return made


@router.get("/{name}", response={200: ToolDetail, **_REFUSED, 404: Failure}, url_name="tool")
async def show_tool(request: HttpRequest, name: str) -> HttpResponse:
    """Show everything there is to know about one tool."""
    caller = caller_of(request)
    access.require(caller, "tools:read")
    entry = (await catalog.fresh()).seen_by(caller).find(name)
    if entry is None:
        raise ToolNotFoundError.named(name)
    return answer(_detail(entry))


def _item(entry: Entry) -> dict[str, Any]:
    tool = entry.tool
    shown: dict[str, Any] = {
        "name": entry.name,
        "title": entry.title,
        "description": entry.description,
        "parameters": [parameter.as_dict() for parameter in tool.parameters] if tool else [],
        "version": entry.version,
        "category": entry.category,
        "tags": entry.tags,
        "author": entry.author,
        "enabled": entry.enabled,
        "registeredAt": timestamp(entry.registered_at),
        "available": entry.callable,
        "annotations": tool.hints.as_dict() if tool else None,
        "inputSchema": tool.input_schema if tool else None,
    }
    if entry.refusal is not None:
        shown["unavailableReason"] = entry.refusal.reason
    return shown


def _detail(entry: Entry) -> dict[str, Any]:
    tool = entry.tool
    return {
        **_item(entry),
        "aliases": list(tool.aliases) if tool else [],
        "examples": [example.as_dict() for example in tool.examples] if tool else [],
        "dependencies": list(tool.dependencies) if tool else [],
        "pack": entry.pack,
        "outputSchema": tool.output_schema if tool else None,
        "policy": entry.policy.as_dict(),
        "definitionHash": entry.definition_hash,
    }
