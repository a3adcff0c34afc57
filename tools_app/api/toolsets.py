"""Toolsets: named selections of tools, to which keys can be restricted."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse
from ninja import Query
from pydantic import ConfigDict, Field

from tools_app import governance
from tools_app.access import access
from tools_app.api.answers import Shown, answer, timestamp
from tools_app.api.authentication import caller_of
from tools_app.api.bodies import NOT_BLANK, Body, Reason
from tools_app.api.errors import failures
from tools_app.api.queries import Removal
from tools_app.api.routing import StrictRouter
from tools_app.base import database
from tools_app.catalog import catalog, listed
from tools_app.models import Toolset
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import NotFoundError
from tools_app.sdk.names import NAME

router = StrictRouter(tags=["toolsets"])

Named = Annotated[str, Field(min_length=1, max_length=64, json_schema_extra=NOT_BLANK)]
Selector = Annotated[list[Named], Field(max_length=1000)]


_MODE = (
    "How agents get these tools over MCP: as a full list (direct), through a search tool (search), or through a search "
    "tool if the list is long (auto); empty: the default from the settings"
)
_OVERRIDES = "Other names and descriptions of tools in this toolset, by tool name"


class Override(Body):
    """Omitted fields keep the tool's own value."""

    name: str = Field(default="", max_length=64)
    description: str = Field(default="", max_length=1024)


class ToolsetItem(Shown):
    """The tools that match any of the selectors; all tools if there are none."""

    name: str
    description: str
    packs: list[str]
    categories: list[str]
    tags: list[str]
    names: list[str]
    read_only: bool = Field(description="Only read-only tools from the selection")
    mode: Literal["", "direct", "search", "auto"] = Field(description=_MODE)
    overrides: dict[str, Override] = Field(description=_OVERRIDES)
    keys: int = Field(description="Number of keys restricted to it, including revoked ones")
    created_at: str
    updated_at: str


class ToolsetDetail(ToolsetItem):
    tools: list[str] = Field(description="Tools that currently match")
    tokens: int = Field(description="Estimated tokens of the full list of these tools")
    listed_tokens: int = Field(description="Estimated tokens of the MCP tool list in the toolset's mode")


class Toolsets(Shown):
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
    mode: Literal["", "direct", "search", "auto"] = Field(default="", description=_MODE)
    overrides: dict[str, Override] = Field(default={}, max_length=1000, description=_OVERRIDES)
    reason: Reason = ""

    def values(self) -> dict[str, Any]:
        return self.model_dump(exclude_unset=True, exclude={"name", "reason"})


class ToolsetRequest(ToolsetChange):
    """A new toolset."""

    name: str = Field(pattern=f"^{NAME.pattern}$")

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "support", "tags": ["tracker"], "names": ["echo"], "readOnly": True}]}
    )


@router.get("", response={200: Toolsets, **failures()}, url_name="toolsets")
async def list_toolsets(request: HttpRequest) -> HttpResponse:
    """List the toolsets by name. Requires `admin:*`."""
    _administrator(request)
    items = [_item(toolset) for toolset in await database.run(list, _rows())]
    return answer({"toolsets": items, "total": len(items)})


@router.post("", response={201: ToolsetDetail, **failures(408, 409, 413, 415)})
async def create_toolset(request: HttpRequest, body: ToolsetRequest) -> HttpResponse:
    """Create a toolset. Requires `admin:*`. It includes all tools that match a selector, also future ones."""
    caller = _administrator(request)
    await database.run(governance.create_toolset, body.name, actor=str(caller), reason=body.reason, **body.values())
    return answer(await _detail(body.name), 201)


@router.get("/{name}", response={200: ToolsetDetail, **failures(404)}, url_name="toolset")
async def show_toolset(request: HttpRequest, name: str) -> HttpResponse:
    """Show a toolset and its current tools. Requires `admin:*`."""
    _administrator(request)
    return answer(await _detail(name))


@router.patch("/{name}", response={200: ToolsetDetail, **failures(404, 408, 413, 415)})
async def change_toolset(request: HttpRequest, name: str, body: ToolsetChange) -> HttpResponse:
    """Change a toolset. Requires `admin:*` and a key not restricted to toolsets.

    Takes effect on the next request of every key restricted to it.
    """
    caller = caller_of(request)
    access.require_all_tools(caller, "admin:*")
    await database.run(
        governance.change_toolset, _checked(name), actor=str(caller), reason=body.reason, **body.values()
    )
    return answer(await _detail(name))


@router.delete("/{name}", response={204: None, **failures(404, 409)})
async def delete_toolset(request: HttpRequest, name: str, query: Query[Removal]) -> HttpResponse:
    """Delete a toolset. Requires `admin:*`. Refused while a key is restricted to it, even a revoked one."""
    caller = _administrator(request)
    await database.run(governance.delete_toolset, _checked(name), actor=str(caller), reason=query.reason or "")
    response = HttpResponse(status=204)
    del response["Content-Type"]
    return response


def _administrator(request: HttpRequest) -> Caller:
    caller = caller_of(request)
    access.require(caller, "admin:*")
    return caller


def _checked(name: str) -> str:
    """The name if it is well-formed; the database is not queried for any other."""
    if not NAME.fullmatch(name):
        raise _not_found()
    return name


def _not_found() -> NotFoundError:
    return NotFoundError("There is no such toolset", next_step="The toolsets are at /v1/toolsets.")


def _rows() -> QuerySet[Toolset]:
    return Toolset.objects.annotate(number_of_keys=Count("keys")).order_by("name")


def _item(toolset: Any) -> dict[str, Any]:
    return {
        "name": toolset.name,
        "description": toolset.description,
        "packs": toolset.packs,
        "categories": toolset.categories,
        "tags": toolset.tags,
        "names": toolset.names,
        "readOnly": toolset.read_only,
        "mode": toolset.mode,
        "overrides": toolset.overrides,
        "keys": toolset.number_of_keys,
        "createdAt": timestamp(toolset.created_at),
        "updatedAt": timestamp(toolset.updated_at),
    }


async def _detail(name: str) -> dict[str, Any]:
    toolset = await database.run(_rows().filter(name=_checked(name)).first)
    if toolset is None:
        raise _not_found()
    choice = toolset.choice()
    snapshot = await catalog.fresh()
    entries = [entry for entry in snapshot.all if choice.holds(entry)]
    costs = listed.costs(snapshot)
    return {
        **_item(toolset),
        "tools": [entry.name for entry in entries],
        "tokens": sum(costs.get(entry.name, 0) for entry in entries if entry.callable and not entry.is_finder),
        "listedTokens": listed.cost_of_list(snapshot.within(name)),
    }
