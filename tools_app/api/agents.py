"""Agents: the connected MCP clients."""

from __future__ import annotations

from typing import Literal

from django.db.models import Q, QuerySet, Value
from django.db.models.functions import Concat
from django.http import HttpRequest
from ninja import Query
from pydantic import Field

from tools_app.access import actions
from tools_app.api.answers import AsIs, ResponseSchema, TextOrNone, Timestamp
from tools_app.api.authentication import require
from tools_app.api.calls import CallerSummary
from tools_app.api.cursors import Pages
from tools_app.api.queries import Cursor, Limit, QueryString, Word, apply_filters, optional
from tools_app.api.routing import StrictRouter
from tools_app.base import database
from tools_app.models import Agent
from tools_app.sdk.context import Caller

router = StrictRouter(tags=["agents"])


# Not `Agent.Door`: its schema name in OpenAPI would clash with the door of a call.
Door = Literal["stdio", "http"]


class ProcessSummary(ResponseSchema):
    id: str
    kind: str
    host: str
    pid: int


class AgentItem(ResponseSchema):
    id: str
    client: TextOrNone = Field(description="Client name as reported by the client")
    version: TextOrNone
    door: AsIs[Door]
    era: AsIs[Agent.Era] = Field(description="MCP with sessions (handshake) or stateless MCP (modern)")
    protocol: TextOrNone = Field(description="MCP protocol revision", examples=["2025-11-25"])
    toolsets: list[str] = Field(description="Toolsets that the agent is restricted to; empty: all tools")
    caller: CallerSummary
    connected_at: Timestamp = Field(validation_alias="since")
    seen_at: Timestamp = Field(description="Time of the last request")
    last_call_at: Timestamp | None = Field(validation_alias="called_at")
    calls: int = Field(description="Number of calls since it connected")
    process: ProcessSummary


class AgentPage(ResponseSchema):
    agents: list[AgentItem]
    next_cursor: str | None


class AgentsQuery(QueryString):
    caller: Word | None = optional("Only agents of this caller id, for example `key:3`")
    door: Door | None = optional()
    cursor: Cursor | None = optional()
    limit: Limit = 50


@router.get("", response=AgentPage, url_name="agents")
async def list_agents(request: HttpRequest, query: Query[AgentsQuery]) -> AgentPage:
    """List connected MCP clients, newest first. Requires `tools:manage`.

    Call counts lag by a few seconds. A key restricted to toolsets sees only the agents of those toolsets.
    """
    caller = require(request, actions.AGENTS_READ)
    pages = Pages("agents", caller, query, moment="since")
    rows = apply_filters(_visible(caller), {"caller_id": query.caller, "door": query.door})
    agents, cursor = await database.run(pages.page, rows, query.cursor, query.limit)
    return AgentPage(agents=[_item(agent, caller) for agent in agents], next_cursor=cursor)


def _visible(caller: Caller) -> QuerySet[Agent]:
    rows = Agent.objects.connected().select_related("process")
    if caller.reach.toolsets is None:
        return rows
    # Toolset names are stored as one string, so that they remain readable after a toolset is deleted.
    condition = Q(pk__in=[])
    for name in caller.reach.toolsets:
        condition |= Q(listed__contains=f", {name}, ")
    return rows.annotate(listed=Concat(Value(", "), "toolset", Value(", "))).filter(condition)


def _item(agent: Agent, caller: Caller) -> AgentItem:
    toolsets = agent.toolset.split(", ") if agent.toolset else []
    own = caller.reach.toolsets
    return AgentItem.of(agent, caller=agent, toolsets=[name for name in toolsets if own is None or name in own])
