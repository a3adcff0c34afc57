"""Tools: list, show, enable or disable, and set policies."""

from __future__ import annotations

import math
from typing import Annotated, Any, Final, Self

from django.http import HttpRequest
from ninja import Query
from pydantic import AliasChoices, AliasPath, BeforeValidator, ConfigDict, Field, WithJsonSchema

from tools_app import governance
from tools_app.access import actions
from tools_app.api.answers import (
    AsIs,
    ResponseSchema,
    Timestamp,
    omitted_if_empty,
)
from tools_app.api.authentication import actor_of, caller_of, require
from tools_app.api.bodies import Body, Reason, without_default
from tools_app.api.errors import Failure
from tools_app.api.queries import Flag, Limit, Page, Paged, QueryString, Removal, Text, Word, optional, rows_of
from tools_app.api.routing import StrictRouter
from tools_app.base import database
from tools_app.catalog import catalog, listed, projection
from tools_app.catalog.entry import Entry
from tools_app.catalog.snapshot import Snapshot
from tools_app.models.tools import POLICY
from tools_app.sdk.errors import ToolNotFoundError
from tools_app.sdk.names import NAME
from tools_app.sdk.parameters import ToolParameter

router = StrictRouter(tags=["tools"])

EXAMPLE: Final = "echo"


class Parameter(ResponseSchema):
    name: str
    type: str
    description: str
    required: bool
    default: Any = None
    enum: list[Any] | None = None
    pattern: str | None = None
    minimum: float | None = None
    maximum: float | None = None


class ToolItem(ResponseSchema):
    """A tool in a list. If this process has not loaded it, its last known values are shown."""

    name: str = Field(validation_alias="shown_name", examples=[EXAMPLE])
    title: str
    description: str
    parameters: AsIs[list[Parameter]]
    version: str
    category: str
    tags: list[str]
    author: str = Field(validation_alias=AliasPath("spec", "author"))
    enabled: bool
    registered_at: Timestamp
    available: bool = Field(validation_alias="callable")
    unavailable_reason: str | None = omitted_if_empty()
    deprecated: str | None = omitted_if_empty(
        "Set if the tool is deprecated: what to use instead", validation_alias=AliasPath("spec", "deprecated")
    )
    annotations: dict[str, bool] | None
    input_schema: dict[str, Any] | None = Field(
        description="In lists and searches as agents read it; the details of one tool have the full one"
    )
    tokens: int | None = Field(description="Estimated tokens of its entry in the MCP tool list")

    @classmethod
    def shown(cls, entry: Entry, **details: Any) -> Self:
        return cls.of(
            entry,
            parameters=[parameter.as_dict() for parameter in ToolParameter.all_of(entry.input_schema)],
            unavailable_reason=entry.refusal.reason if entry.refusal is not None else None,
            annotations=entry.hints.as_dict(),
            tokens=listed.cost(entry),
            **{"input_schema": listed.input_of(entry) or None, **details},
        )


class ToolExample(ResponseSchema):
    description: str
    parameters: dict[str, Any]
    expected_result: Any = None


# Described as a number, of which only whole ones are sent.
Milliseconds = Annotated[
    int, BeforeValidator(lambda seconds: round(seconds * 1000)), WithJsonSchema({"type": "number"})
]


# Read from a `Rate`, or from the columns of a row.
class RateLimit(ResponseSchema):
    max: int = Field(validation_alias=AliasChoices("most", "rate_calls"))
    time_window: Milliseconds = Field(
        validation_alias=AliasChoices("seconds", "rate_seconds"), description="Milliseconds"
    )


class ToolPolicy(ResponseSchema):
    """Effective limits of the tool's calls.

    `origins` says where each comes from: `operator`, `source`, `tool`, `pack` or `settings`. Callers cannot raise those
    that an operator has set for the tool or its source.
    """

    timeout_ms: int
    retries: int
    retry_delay_ms: int
    rate_limit: RateLimit | None
    cache_seconds: int
    answer_tokens: int
    origins: dict[str, str]


class ToolDetail(ToolItem):
    aliases: list[str] = Field(validation_alias=AliasPath("spec", "aliases"))
    examples: AsIs[list[ToolExample]]
    dependencies: list[str]
    pack: str
    output_schema: dict[str, Any] | None = Field(validation_alias=AliasPath("spec", "output_schema"))
    policy: AsIs[ToolPolicy]
    ask: bool = Field(description="Every call requires an operator's approval")
    definition_hash: str
    clients: list[str] = Field(description="MCP clients that do not accept the tool as it is listed, and why")

    @classmethod
    def in_full(cls, entry: Entry, view: Snapshot, **details: Any) -> Self:
        return cls.shown(
            entry,
            examples=entry.spec.body.get("examples", []),
            dependencies=_dependencies(entry, view),
            policy=entry.policy.as_dict(),
            input_schema=entry.input_schema or None,
            clients=[str(finding) for finding in projection.findings(entry.shown_name, entry.input_schema)],
            **details,
        )


class ChangedTool(ToolDetail):
    warnings: list[str] | None = omitted_if_empty("Side effects of the change")


class Pagination(ResponseSchema):
    page: int
    limit: int
    total: int
    total_pages: int

    @classmethod
    def over(cls, query: Paged, *, total: int) -> Pagination:
        return cls(page=query.page, limit=query.limit, total=total, total_pages=math.ceil(total / query.limit))


class ToolPage(ResponseSchema):
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
    """Omitted fields are unchanged; null inherits the value from the source, the tool, its pack or the settings."""

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


class HintDecision(Body):
    """What a call of a tool from outside does. Omitted fields are unchanged; null: not known, the worst is assumed."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None


class ToolChange(Body):
    """Decisions of operators about a tool. Omitted fields are unchanged."""

    enabled: bool = Field(default=True, json_schema_extra=without_default)
    ask: bool = Field(
        default=False,
        description="Whether every call requires an operator's approval",
        json_schema_extra=without_default,
    )
    hints: HintDecision = Field(
        default=HintDecision(),
        description="Only for tools of sources outside: those of Python code are declared by their authors",
        json_schema_extra=without_default,
    )
    policy: PolicyDecision = Field(default=PolicyDecision(), json_schema_extra=without_default)
    reason: Reason = ""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"enabled": False, "reason": "The tracker is being moved"},
                {"hints": {"readOnly": True}, "reason": "It was tried against a copy"},
                {"policy": {"timeoutMs": 5000, "rateLimit": {"max": 60, "timeWindow": 60_000}, "retries": None}},
            ]
        }
    )


@router.get("", response={200: ToolPage, 304: None}, url_name="tools")
async def list_tools(request: HttpRequest, query: Query[ListQuery]) -> ToolPage:
    """List the tools by name, in pages. Filters are combined (AND)."""
    require(request, actions.TOOLS_LIST)
    snapshot = await _view(request)
    candidates = snapshot.all if query.q is None else sorted(snapshot.matching(query.q), key=lambda entry: entry.name)
    matching_entries = [entry for entry in candidates if query.fits(entry)]
    return ToolPage(
        tools=[ToolItem.shown(entry) for entry in matching_entries[rows_of(query)]],
        pagination=Pagination.over(query, total=len(matching_entries)),
        listed_tokens=listed.cost_of_list(snapshot),
    )


@router.get("/{name}", response={200: ToolDetail, 304: None}, url_name="tool")
async def show_tool(request: HttpRequest, name: str) -> ToolDetail:
    """Show a tool in full. Its aliases are accepted, and `a-b` for `a_b`."""
    require(request, actions.TOOLS_READ)
    view = await _view(request)
    return ToolDetail.in_full(_find(view, name), view)


@router.patch("/{name}", response={200: ChangedTool, 409: Failure})
async def change_tool(request: HttpRequest, name: str, body: ToolChange) -> ChangedTool:
    """Enable or disable a tool and set its policy, atomically. Requires `tools:manage`.

    Omitted fields are unchanged. A policy field that is null is inherited from its source, the tool, its pack or the
    settings. The change takes effect on the next call, through every door. Only people and keys with `admin:*` can turn
    off required approval (`ask`) and set hints that declare a tool less dangerous.
    """
    caller = require(request, actions.TOOL_CHANGE)
    entry = _find(await _view(request), name)
    if entry.ask and "ask" in body.model_fields_set and not body.ask:
        actions.TOOL_ASK_NOT.require(caller, entry.shown_name)
    await database.run(
        governance.change_tool,
        entry.name,
        enabled=body.enabled if "enabled" in body.model_fields_set else None,
        ask=body.ask if "ask" in body.model_fields_set else None,
        hints=body.hints.model_dump(exclude_unset=True),
        policy=body.policy.as_columns(),
        actor=governance.of_caller(caller),
        reason=body.reason,
    )
    view = await _view(request)
    entry = _find(view, entry.name)
    warnings = [] if entry.enabled else governance.consequences([entry.name], view)
    return ChangedTool.in_full(entry, view, warnings=warnings)


@router.delete("/{name}", response={204: None, 409: Failure})
async def delete_tool(request: HttpRequest, name: str, query: Query[Removal]) -> None:
    """Delete a tool that no source provides any more, with its definitions and all decisions. Requires `tools:manage`.

    Its name can be used by another tool then. Only people and keys with `admin:*` can do this, as the restrictions of
    the tool are deleted too. Its calls stay in the journal.
    """
    actor = actor_of(request, actions.TOOL_DELETE)
    if not NAME.fullmatch(name):
        raise ToolNotFoundError.named(name)
    await database.run(governance.delete_tool, name, actor=actor, reason=query.reason or "")


def serve_tool_named(name: str, beside: StrictRouter) -> None:
    """Show and change the tool `name` at a path where `POST` means something else.

    Agents expect some tools to be called `search`: the hub's own paths reserve no names.
    """

    async def show(request: HttpRequest) -> ToolDetail:
        return await show_tool(request, name)

    async def change(request: HttpRequest, body: ToolChange) -> ChangedTool:
        return await change_tool(request, name, body)

    async def delete(request: HttpRequest, query: Query[Removal]) -> None:
        await delete_tool(request, name, query)

    beside.get(f"/{name}", response={200: ToolDetail, 304: None}, include_in_schema=False)(show)
    beside.patch(f"/{name}", response=ChangedTool, include_in_schema=False)(change)
    beside.delete(f"/{name}", response={204: None}, include_in_schema=False)(delete)


async def _view(request: HttpRequest) -> Snapshot:
    return (await catalog.fresh()).seen_by(caller_of(request))


def _find(view: Snapshot, name: str) -> Entry:
    """Raises: ToolNotFoundError."""
    entry = view.find(name)
    if entry is None:
        raise ToolNotFoundError.named(name)
    return entry


def _dependencies(entry: Entry, view: Snapshot) -> list[str]:
    """Dependencies as the author wrote them, only those that the caller can see."""
    visible = view.needs(entry)
    dependencies = entry.spec.body.get("dependencies", ())
    return [text for text, need in zip(dependencies, entry.spec.needs, strict=True) if need in visible]
