"""Agents: the connected MCP clients."""

from __future__ import annotations

from typing import Any, Literal

from django.db.models import Q, QuerySet, Value
from django.db.models.functions import Concat
from django.http import HttpRequest, HttpResponse
from ninja import Query
from pydantic import Field

from tools_app.access import access
from tools_app.api.answers import Shown, answer, timestamp
from tools_app.api.authentication import caller_of
from tools_app.api.calls import CallerShown
from tools_app.api.cursors import Pages
from tools_app.api.errors import failures
from tools_app.api.queries import Cursor, Limit, QueryString, Word, narrowed, optional
from tools_app.api.routing import StrictRouter
from tools_app.base import database
from tools_app.models import Agent
from tools_app.sdk.context import Caller

router = StrictRouter(tags=["agents"])


# Not `Agent.Door`: its schema name in OpenAPI would clash with the door of a call.
Door = Literal["stdio", "http"]


class ProcessShown(Shown):
    id: str
    kind: str
    host: str
    pid: int


class AgentItem(Shown):
    id: str
    client: str | None = Field(description="Client name as reported by the client")
    version: str | None
    door: Door
    era: Agent.Era = Field(description="MCP with sessions (handshake) or stateless MCP (modern)")
    protocol: str | None = Field(description="MCP protocol revision", examples=["2025-11-25"])
    toolsets: list[str] = Field(description="Toolsets that the agent is restricted to; empty: all tools")
    caller: CallerShown
    connected_at: str
    seen_at: str = Field(description="Time of the last request")
    last_call_at: str | None
    calls: int = Field(description="Number of calls since it connected")
    process: ProcessShown


class AgentPage(Shown):
    agents: list[AgentItem]
    next_cursor: str | None


class AgentsQuery(QueryString):
    caller: Word | None = optional("Only agents of this caller id, for example `key:3`")
    door: Door | None = optional()
    cursor: Cursor | None = optional()
    limit: Limit = 50


@router.get("", response={200: AgentPage, **failures()}, url_name="agents")
async def list_agents(request: HttpRequest, query: Query[AgentsQuery]) -> HttpResponse:
    """List connected MCP clients, newest first. Requires `tools:manage`.

    Call counts lag by a few seconds. A key restricted to toolsets sees only the agents of those toolsets.
    """
    caller = caller_of(request)
    access.require(caller, "tools:manage")
    pages = Pages("agents", caller, query, moment="since")
    rows = narrowed(_visible(caller), {"caller_id": query.caller, "door": query.door})
    agents, cursor = await database.run(pages.cut, rows, query.cursor, query.limit)
    return answer({"agents": [_item(agent, caller) for agent in agents], "nextCursor": cursor})


def _visible(caller: Caller) -> QuerySet[Agent]:
    rows = Agent.objects.connected().select_related("process")
    if caller.reach.toolsets is None:
        return rows
    # Toolset names are stored as one string, so that they remain readable after a toolset is deleted.
    condition = Q(pk__in=[])
    for name in caller.reach.toolsets:
        condition |= Q(listed__contains=f", {name}, ")
    return rows.annotate(listed=Concat(Value(", "), "toolset", Value(", "))).filter(condition)


def _item(agent: Agent, caller: Caller) -> dict[str, Any]:
    process = agent.process
    toolsets = agent.toolset.split(", ") if agent.toolset else []
    own = caller.reach.toolsets
    return {
        "id": agent.id,
        "client": agent.client or None,
        "version": agent.version or None,
        "door": agent.door,
        "era": agent.era,
        "protocol": agent.protocol or None,
        "toolsets": [name for name in toolsets if own is None or name in own],
        "caller": {"kind": agent.caller_kind, "id": agent.caller_id, "name": agent.caller_name},
        "connectedAt": timestamp(agent.since),
        "seenAt": timestamp(agent.seen_at),
        "lastCallAt": timestamp(agent.called_at) if agent.called_at else None,
        "calls": agent.calls,
        "process": {"id": process.id, "kind": process.kind, "host": process.host, "pid": process.pid},
    }
