"""Tools: list, show, enable or disable, and set policies."""

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
    """A tool in a list. If this process has not loaded it, its last known values are shown."""

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
    deprecated: str | None = Field(default=None, description="Set if the tool is deprecated: what to use instead")
    annotations: dict[str, bool] | None
    input_schema: dict[str, Any] | None
    tokens: int | None = Field(description="Estimated tokens of its entry in the MCP tool list")


class Example(Shown):
    description: str
    parameters: dict[str, Any]
    expected_result: Any = None


class Rate(Shown):
    max: int
    time_window: float = Field(description="Milliseconds")


class Policy(Shown):
    """Effective limits of the tool's calls, and where each comes from."""

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
    ask: bool = Field(description="Every call requires an operator's approval")
    definition_hash: str


class ChangedTool(ToolDetail):
    warnings: list[str] | None = Field(default=None, description="Side effects of the change")


class Pagination(Shown):
    page: int
    limit: int
    total: int
    total_pages: int


class ToolPage(Shown):
    tools: list[ToolItem]
    pagination: Pagination
    listed_tokens: int = Field(description="Estimated tokens of the MCP tool list for this key")


class ListQuery(QueryString):
    category: Word | None = optional("Only tools of this category")
    tag: Word | None = optional("Only tools with this tag")
    pack: Word | None = optional("Only tools of this pack")
    enabled: Flag | None = optional("Only enabled tools, or only disabled ones")
    q: Annotated[Text, Field(max_length=500)] | None = optional(
        "Only tools that contain all of these words in name, title, description, category or tags"
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


def _policy_field(part: str, description: str) -> Any:
    """A policy value within its bounds; null inherits it."""
    low, high = POLICY[part]
    return Field(default=None, ge=low, le=high, description=description)


class RateDecision(Body):
    max: int = Field(
        ge=POLICY["rate_calls"][0], le=POLICY["rate_calls"][1], description="Maximum number of calls per period"
    )
    time_window: int = Field(
        ge=POLICY["rate_seconds"][0] * 1000,
        le=POLICY["rate_seconds"][1] * 1000,
        multiple_of=1000,
        description="Period in milliseconds, whole seconds only",
    )


class PolicyDecision(Body):
    """Omitted fields are unchanged; null inherits the value from the tool, its pack or the settings."""

    timeout_ms: int | None = _policy_field(
        "timeout_ms", "Timeout of a call in milliseconds; callers can request less, not more"
    )
    retries: int | None = _policy_field("retries", "Maximum number of retries")
    retry_delay_ms: int | None = _policy_field(
        "retry_delay_ms", "Minimum delay before the first retry in milliseconds; doubles for each further one"
    )
    rate_limit: RateDecision | None = None
    cache_seconds: int | None = _policy_field(
        "cache_seconds", "How long to cache results of identical calls; read-only tools only"
    )
    answer_tokens: int | None = _policy_field(
        "answer_tokens", "Maximum size of a result in tokens; a larger one is stored and its outline returned"
    )

    def as_columns(self) -> dict[str, int | None]:
        columns: dict[str, int | None] = self.model_dump(exclude_unset=True, exclude={"rate_limit"})
        if "rate_limit" in self.model_fields_set:
            rate = self.rate_limit
            columns["rate_calls"] = rate.max if rate else None
            columns["rate_seconds"] = rate.time_window // 1000 if rate else None
        return columns


class Change(Body):
    """Decisions of operators about a tool. Omitted fields are unchanged."""

    enabled: bool = Field(default=True, json_schema_extra=without_default)
    ask: bool = Field(
        default=False,
        description="Whether every call requires an operator's approval",
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
    """List the tools by name, in pages. Filters are combined (AND)."""
    caller = caller_of(request)
    access.require(caller, "tools:list")
    snapshot = (await catalog.fresh()).seen_by(caller)
    candidates = snapshot.all if query.q is None else sorted(snapshot.matching(query.q), key=lambda entry: entry.name)
    matching = [entry for entry in candidates if query.fits(entry)]
    first = (query.page - 1) * query.limit
    page = {
        "tools": [shown(entry) for entry in matching[first : first + query.limit]],
        "pagination": {
            "page": query.page,
            "limit": query.limit,
            "total": len(matching),
            "totalPages": math.ceil(len(matching) / query.limit),
        },
        "listedTokens": listed.cost_of_list(snapshot),
    }
    return answer_unless_known(request, page)


@router.get("/{name}", response={200: ToolDetail, 304: None, **failures(404)}, url_name="tool")
async def show_tool(request: HttpRequest, name: str) -> HttpResponse:
    """Show a tool in full. Its aliases are accepted, and `a-b` for `a_b`."""
    access.require(caller_of(request), "tools:read")
    return answer_unless_known(request, await _detail(request, name))


@router.patch("/{name}", response={200: ChangedTool, **failures(404, 408, 413, 415)})
async def change_tool(request: HttpRequest, name: str, body: Change) -> HttpResponse:
    """Enable or disable a tool and set its policy, atomically. Requires `tools:manage`.

    Omitted fields are unchanged. A policy field that is null is inherited from the tool, its pack or the settings. The
    change takes effect on the next call, through every door. Required approval (`ask`) can be turned off only by
    people and by keys with `admin:*`.
    """
    caller = caller_of(request)
    access.require(caller, "tools:manage")
    entry = await seen(request, name)
    if entry.ask and "ask" in body.model_fields_set and not body.ask and not access.may_lift(caller):
        raise AuthorizationError(
            f"Permission denied: your key cannot turn off the required approval of {entry.shown_name}",
            next_step="Ask an operator to turn it off in the admin, or use a key with admin:*.",
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
    """Show and change the tool `name` at a path where `POST` means something else.

    Agents expect some tools to be called `search`: the hub's own paths reserve no names.
    """

    async def show(request: HttpRequest) -> HttpResponse:
        return await show_tool(request, name)

    async def change(request: HttpRequest, body: Change) -> HttpResponse:
        return await change_tool(request, name, body)

    beside.get(f"/{name}", include_in_schema=False)(show)
    beside.patch(f"/{name}", include_in_schema=False)(change)


async def seen(request: HttpRequest, name: str) -> Entry:
    """The tool, if it exists for this caller.

    Raises:
        ToolNotFoundError
    """
    entry = (await catalog.fresh()).seen_by(caller_of(request)).find(name)
    if entry is None:
        raise ToolNotFoundError.named(name)
    return entry


def shown(entry: Entry) -> dict[str, Any]:
    """A tool in a list."""
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
    """Dependencies as the author wrote them, only those that the caller can see."""
    visible = view.needs(entry)
    return [dependency for dependency, need in zip(entry.dependencies, entry.needs, strict=True) if need in visible]


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
