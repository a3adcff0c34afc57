"""The tools: list them, look at one, switch one and set its policy."""

from __future__ import annotations

import math
from typing import Annotated, Any, Final

from django.http import HttpRequest, HttpResponse
from ninja import Query
from pydantic import ConfigDict, Field

from tools_app import governance
from tools_app.access import access
from tools_app.api.answers import Shown, answer, answer_unless_known, timestamp
from tools_app.api.authentication import caller_of
from tools_app.api.bodies import Body, Reason, without_default
from tools_app.api.errors import failures
from tools_app.api.queries import Flag, Limit, Page, QueryString, Text, Word, optional
from tools_app.api.routing import StrictRouter
from tools_app.base import database
from tools_app.catalog import catalog, listed
from tools_app.catalog.entry import Entry
from tools_app.catalog.snapshot import Snapshot
from tools_app.models.tools import POLICY
from tools_app.sdk.errors import AuthorizationError, ToolNotFoundError
from tools_app.sdk.parameters import ToolParameter

router = StrictRouter(tags=["tools"])

EXAMPLE: Final = "echo"


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
    """A tool as lists show it. What this process has not loaded is shown as it was seen last."""

    name: str = Field(examples=[EXAMPLE])
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
    deprecated: str | None = Field(default=None, description="What to use instead")
    annotations: dict[str, bool] | None
    input_schema: dict[str, Any] | None
    tokens: int | None = Field(description="About how many tokens it takes in the lists that agents are sent")


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
    answer_tokens: int
    origins: dict[str, str]


class ToolDetail(ToolItem):
    aliases: list[str]
    examples: list[Example]
    dependencies: list[str]
    pack: str
    output_schema: dict[str, Any] | None
    policy: Policy
    ask: bool = Field(description="Every call waits until an operator approves it")
    definition_hash: str


class ChangedTool(ToolDetail):
    warnings: list[str] | None = Field(default=None, description="What else the change means, in words")


class Pagination(Shown):
    page: int
    limit: int
    total: int
    total_pages: int


class ToolPage(Shown):
    tools: list[ToolItem]
    pagination: Pagination
    listed_tokens: int = Field(description="About how many the list takes that an agent with this key is sent over MCP")


class ListQuery(QueryString):
    category: Word | None = optional("Only tools of this category")
    tag: Word | None = optional("Only tools with this tag")
    pack: Word | None = optional("Only tools of this pack")
    enabled: Flag | None = optional("Only tools that are switched on, or off")
    q: Annotated[Text, Field(max_length=500)] | None = optional(
        "Only tools in whose name, title, description, category or tags all of these words occur"
    )
    page: Page = 1
    limit: Limit = 50

    def fits(self, entry: Entry) -> bool:
        return (
            (self.category is None or entry.category == self.category)
            and (self.tag is None or self.tag in entry.tags)
            and (self.pack is None or entry.pack == self.pack)
            and (self.enabled is None or entry.enabled == self.enabled)
        )


def _decided(part: str, description: str) -> Any:
    """A part of the policy that may be decided, within its bounds, or left to others with null."""
    low, high = POLICY[part]
    return Field(default=None, ge=low, le=high, description=description)


class RateDecision(Body):
    max: int = Field(ge=POLICY["rate_calls"][0], le=POLICY["rate_calls"][1], description="So many calls …")
    time_window: int = Field(
        ge=POLICY["rate_seconds"][0] * 1000,
        le=POLICY["rate_seconds"][1] * 1000,
        multiple_of=1000,
        description="… in so many milliseconds, full seconds",
    )


class PolicyDecision(Body):
    """What is left out stays as it is; null lets the tool, its pack and the settings decide."""

    timeout_ms: int | None = _decided(
        "timeout_ms", "Milliseconds after which a call ends; callers can ask for less, not for more"
    )
    retries: int | None = _decided("retries", "How often to try again at most")
    retry_delay_ms: int | None = _decided("retry_delay_ms", "Milliseconds before the first new try at least")
    rate_limit: RateDecision | None = None
    cache_seconds: int | None = _decided("cache_seconds", "How long to give an answer again; read-only tools only")
    answer_tokens: int | None = _decided("answer_tokens", "How large an answer may be; a larger one is outlined")

    def as_columns(self) -> dict[str, int | None]:
        columns: dict[str, int | None] = self.model_dump(exclude_unset=True, exclude={"rate_limit"})
        if "rate_limit" in self.model_fields_set:
            rate = self.rate_limit
            columns["rate_calls"] = rate.max if rate else None
            columns["rate_seconds"] = rate.time_window // 1000 if rate else None
        return columns


class Change(Body):
    """What operators decide about a tool. What is left out stays as it is."""

    enabled: bool = Field(default=True, json_schema_extra=without_default)
    ask: bool = Field(
        default=False,
        description="Whether every call waits until an operator approves it",
        json_schema_extra=without_default,
    )
    policy: PolicyDecision = Field(default=PolicyDecision(), json_schema_extra=without_default)
    reason: Reason = ""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"enabled": False, "reason": "The tracker is being moved"},
                {"policy": {"timeoutMs": 5000, "rateLimit": {"max": 60, "timeWindow": 60_000}, "retries": None}},
            ]
        }
    )


@router.get("", response={200: ToolPage, 304: None, **failures()}, url_name="tools")
async def list_tools(request: HttpRequest, query: Query[ListQuery]) -> HttpResponse:
    """List the tools by name, a page at a time. All filters must fit."""
    caller = caller_of(request)
    access.require(caller, "tools:list")
    snapshot = (await catalog.fresh()).seen_by(caller)
    asked = snapshot.all if query.q is None else sorted(snapshot.matching(query.q), key=lambda entry: entry.name)
    found = [entry for entry in asked if query.fits(entry)]
    first = (query.page - 1) * query.limit
    page = {
        "tools": [shown(entry) for entry in found[first : first + query.limit]],
        "pagination": {
            "page": query.page,
            "limit": query.limit,
            "total": len(found),
            "totalPages": math.ceil(len(found) / query.limit),
        },
        "listedTokens": listed.cost_of_list(snapshot),
    }
    return answer_unless_known(request, page)


@router.get("/{name}", response={200: ToolDetail, 304: None, **failures(404)}, url_name="tool")
async def show_tool(request: HttpRequest, name: str) -> HttpResponse:
    """Show everything there is to know about one tool. An alias and `a-b` for `a_b` find it, too."""
    access.require(caller_of(request), "tools:read")
    return answer_unless_known(request, await _detail(request, name))


@router.patch("/{name}", response={200: ChangedTool, **failures(404, 408, 413, 415)})
async def change_tool(request: HttpRequest, name: str, body: Change) -> HttpResponse:
    """Switch a tool on or off and decide how it is called, all of it or nothing. Needs `tools:manage`.

    What is left out stays as it is. A part of the policy that is null is decided by the tool, its pack and the
    settings again. The change counts from the very next call, through every door. That calls wait for an operator
    (`ask`) is lifted by people, and by keys with `admin:*`.
    """
    caller = caller_of(request)
    access.require(caller, "tools:manage")
    entry = await seen(request, name)
    if entry.ask and "ask" in body.model_fields_set and not body.ask and not access.may_lift(caller):
        raise AuthorizationError(
            f"Permission denied: that calls of {entry.shown_name} wait for an operator cannot be lifted with your key",
            next_step="Ask an operator to lift it in the admin, or use a key with admin:*.",
        )
    await database.run(
        governance.change_tool,
        entry.name,
        enabled=body.enabled if "enabled" in body.model_fields_set else None,
        ask=body.ask if "ask" in body.model_fields_set else None,
        policy=body.policy.as_columns(),
        actor=str(caller),
        reason=body.reason,
    )
    changed = await _detail(request, entry.name)
    if not changed["enabled"]:
        snapshot = (await catalog.fresh()).seen_by(caller)
        if warnings := governance.consequences([entry.name], snapshot):
            changed["warnings"] = warnings
    return answer(changed)


def serve_tool_named(name: str, beside: StrictRouter) -> None:
    """Show and change the tool `name` although `POST` at that address means something else.

    `search` is what agents expect some tools to be called: no name is taken from tools because the hub uses it.
    """

    async def show(request: HttpRequest) -> HttpResponse:
        return await show_tool(request, name)

    async def change(request: HttpRequest, body: Change) -> HttpResponse:
        return await change_tool(request, name, body)

    beside.get(f"/{name}", include_in_schema=False)(show)
    beside.patch(f"/{name}", include_in_schema=False)(change)


async def seen(request: HttpRequest, name: str) -> Entry:
    """The tool, if it is there for this caller.

    Raises:
        ToolNotFoundError
    """
    entry = (await catalog.fresh()).seen_by(caller_of(request)).find(name)
    if entry is None:
        raise ToolNotFoundError.named(name)
    return entry


def shown(entry: Entry) -> dict[str, Any]:
    """A tool as lists show it."""
    tool = entry.tool
    item: dict[str, Any] = {
        "name": entry.shown_name,
        "title": entry.title,
        "description": entry.description,
        "parameters": [parameter.as_dict() for parameter in ToolParameter.all_of(entry.input_schema)],
        "version": entry.version,
        "category": entry.category,
        "tags": entry.tags,
        "author": entry.author,
        "enabled": entry.enabled,
        "registeredAt": timestamp(entry.registered_at),
        "available": entry.callable,
        "annotations": entry.annotations,
        "inputSchema": entry.input_schema or None,
        "tokens": listed.cost(entry) if tool else None,
    }
    if entry.refusal is not None:
        item["unavailableReason"] = entry.refusal.reason
    if tool is not None and tool.deprecated:
        item["deprecated"] = tool.deprecated
    return item


def _dependencies(entry: Entry, view: Snapshot) -> list[str]:
    """In the words of the tool's author, as far as the caller may know of it."""
    known = view.needs(entry)
    return [said for said, need in zip(entry.dependencies, entry.needs, strict=True) if need in known]


async def _detail(request: HttpRequest, name: str) -> dict[str, Any]:
    """Raises: ToolNotFoundError."""
    entry = await seen(request, name)
    view = (await catalog.fresh()).seen_by(caller_of(request))
    return {
        **shown(entry),
        "aliases": entry.aliases,
        "examples": entry.examples,
        "dependencies": _dependencies(entry, view),
        "pack": entry.pack,
        "outputSchema": entry.output_schema,
        "policy": entry.policy.as_dict(),
        "ask": entry.ask,
        "definitionHash": entry.definition_hash,
    }
