"""Toolsets: named selections of tools, to which keys can be restricted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal

from django.db.models import Count, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from ninja import Query
from pydantic import ConfigDict, Field

from tools_app import governance
from tools_app.access import actions
from tools_app.api import budgets
from tools_app.api.answers import AsIs, ResponseSchema, Timestamp
from tools_app.api.authentication import actor_of, require
from tools_app.api.bodies import NOT_BLANK, Body, Reason
from tools_app.api.budgets import BudgetDecision, BudgetItem, LimitItem
from tools_app.api.errors import Failure
from tools_app.api.queries import Removal
from tools_app.api.routing import StrictRouter
from tools_app.base import database
from tools_app.catalog import catalog, listed
from tools_app.journal.budgets import limits
from tools_app.models import Toolset
from tools_app.sdk.budgets import Budget, Limit
from tools_app.sdk.errors import NotFoundError
from tools_app.sdk.names import NAME

router = StrictRouter(tags=["toolsets"])

Named = Annotated[str, Field(min_length=1, max_length=64, json_schema_extra=NOT_BLANK)]
Selector = Annotated[list[Named], Field(max_length=1000)]
Mode = Literal["", "direct", "search", "auto"]
Detail = Literal["", "full", "lean", "minimal"]

_MODE = (
    "How agents get these tools over MCP: as a full list (direct), through a search tool (search), or through a search "
    "tool if the list is long (auto); empty: the default from the settings"
)
_DETAIL = (
    "How much of each tool agents read in lists: its whole definition (full), what they need of it (lean), or that "
    "without the form of its answers and without labels (minimal); empty: the default from the settings"
)
_OVERRIDES = "Other names and descriptions of tools in this toolset, by tool name"
_BUDGET = f"For all calls through the toolset together. {budgets.DECISION}"


class ToolOverride(Body):
    """Omitted fields keep the tool's own value."""

    name: str = Field(default="", max_length=64)
    description: str = Field(default="", max_length=1024)


class ToolsetItem(ResponseSchema):
    """The tools that match any of the selectors; all tools if there are none, except those of sources outside."""

    name: str
    description: str
    packs: list[str]
    categories: list[str]
    tags: list[str]
    names: list[str]
    read_only: bool = Field(description="Only read-only tools from the selection")
    mode: AsIs[Mode] = Field(description=_MODE)
    detail: AsIs[Detail] = Field(description=_DETAIL)
    overrides: AsIs[dict[str, ToolOverride]] = Field(description=_OVERRIDES)
    budget: BudgetItem | None = Field(description=_BUDGET)
    budget_use: list[LimitItem] = Field(description=budgets.USE)
    keys: int = Field(
        validation_alias="number_of_keys", description="Number of keys restricted to it, including revoked ones"
    )
    created_at: Timestamp
    updated_at: Timestamp


class ToolsetDetail(ToolsetItem):
    tools: list[str] = Field(description="Tools that currently match")
    tokens: int = Field(description="Estimated tokens of the full list of these tools")
    listed_tokens: int = Field(description="Estimated tokens of the MCP tool list in the toolset's mode")


class Toolsets(ResponseSchema):
    toolsets: list[ToolsetItem]
    total: int


class ToolsetChange(Body):
    """Omitted fields are unchanged."""

    description: str = Field(default="", max_length=500)
    packs: Selector = Field(default=[], description="All tools of these packs")
    categories: Selector = Field(default=[], description="All tools of these categories")
    tags: Selector = Field(default=[], description="All tools with one of these tags")
    names: Selector = Field(default=[], description="These tools")
    read_only: bool = False
    mode: Mode = Field(default="", description=_MODE)
    detail: Detail = Field(default="", description=_DETAIL)
    overrides: dict[str, ToolOverride] = Field(default={}, max_length=1000, description=_OVERRIDES)
    budget: BudgetDecision | None = Field(default=None, description=_BUDGET)
    reason: Reason = ""

    def values(self) -> dict[str, Any]:
        values = self.model_dump(exclude_unset=True, exclude={"name", "reason", "budget"})
        if "budget" in self.model_fields_set:
            values |= asdict(self.budget.budget() if self.budget else Budget())
        return values


class ToolsetRequest(ToolsetChange):
    """A new toolset."""

    name: str = Field(pattern=f"^{NAME.pattern}$")

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "support", "tags": ["tracker"], "names": ["echo"], "readOnly": True}]}
    )


@router.get("", response=Toolsets, url_name="toolsets")
async def list_toolsets(request: HttpRequest) -> Toolsets:
    """List the toolsets by name. Requires `admin:*`."""
    require(request, actions.TOOLSETS_READ)

    def all_items() -> list[ToolsetItem]:
        toolsets = list(_rows())
        uses = _uses(toolsets)
        return [ToolsetItem.of(toolset, budget_use=uses[f"toolset:{toolset.name}"]) for toolset in toolsets]

    items = await database.run(all_items)
    return Toolsets(toolsets=items, total=len(items))


@router.post("", response={201: ToolsetDetail, 409: Failure})
async def create_toolset(request: HttpRequest, body: ToolsetRequest) -> ToolsetDetail:
    """Create a toolset. Requires `admin:*`. It includes all tools that match a selector, also future ones."""
    actor = actor_of(request, actions.TOOLSET_CREATE)
    await database.run(governance.create_toolset, body.name, actor=actor, reason=body.reason, **body.values())
    return await _detail(body.name)


@router.get("/{name}", response=ToolsetDetail, url_name="toolset")
async def show_toolset(request: HttpRequest, name: str) -> ToolsetDetail:
    """Show a toolset and its current tools. Requires `admin:*`."""
    require(request, actions.TOOLSETS_READ)
    return await _detail(name)


@router.patch("/{name}", response=ToolsetDetail)
async def change_toolset(request: HttpRequest, name: str, body: ToolsetChange) -> ToolsetDetail:
    """Change a toolset. Requires `admin:*` and a key not restricted to toolsets.

    Takes effect on the next request of every key restricted to it.
    """
    actor = actor_of(request, actions.TOOLSET_CHANGE)
    await database.run(governance.change_toolset, _valid_name(name), actor=actor, reason=body.reason, **body.values())
    return await _detail(name)


@router.delete("/{name}", response={204: None, 409: Failure})
async def delete_toolset(request: HttpRequest, name: str, query: Query[Removal]) -> None:
    """Delete a toolset. Requires `admin:*`. Refused while a key is restricted to it, even a revoked one."""
    actor = actor_of(request, actions.TOOLSET_DELETE)
    await database.run(governance.delete_toolset, _valid_name(name), actor=actor, reason=query.reason or "")


def _valid_name(name: str) -> str:
    """The name if it is well-formed; the database is not queried for any other."""
    if not NAME.fullmatch(name):
        raise _not_found()
    return name


def _not_found() -> NotFoundError:
    return NotFoundError("There is no such toolset", next_step="The toolsets are at /v1/toolsets.")


def _rows() -> QuerySet[Toolset]:
    return Toolset.objects.annotate(number_of_keys=Count("keys")).order_by("name")


def _uses(toolsets: Sequence[Toolset]) -> dict[str, Sequence[Limit]]:
    return limits({f"toolset:{toolset.name}": toolset.budget for toolset in toolsets}, timezone.now())


async def _detail(name: str) -> ToolsetDetail:
    toolsets = await database.run(list, _rows().filter(name=_valid_name(name)))
    if not toolsets:
        raise _not_found()
    toolset = toolsets[0]
    uses = await database.run(_uses, toolsets)
    choice = toolset.choice()
    snapshot = await catalog.fresh()
    entries = [entry for entry in snapshot.all if choice.holds(entry)]
    view = snapshot.within(name)
    costs = listed.costs(view)
    return ToolsetDetail.of(
        toolset,
        budget_use=uses[f"toolset:{name}"],
        tools=[entry.name for entry in entries],
        tokens=sum(costs.get(entry.name, 0) for entry in entries if entry.callable and not entry.is_finder),
        listed_tokens=listed.cost_of_list(view),
    )
