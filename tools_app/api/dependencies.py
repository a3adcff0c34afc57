"""Dependencies between tools."""

from __future__ import annotations

from django.http import HttpRequest
from pydantic import Field

from tools_app.access import actions
from tools_app.api.answers import ResponseSchema, omitted_if_empty
from tools_app.api.authentication import require
from tools_app.api.routing import StrictRouter
from tools_app.catalog import catalog
from tools_app.catalog.snapshot import Snapshot
from tools_app.sdk import dependencies
from tools_app.sdk.dependencies import Dependency

router = StrictRouter(tags=["tools"])


class ToolRequirement(ResponseSchema):
    name: str
    range: str | None = omitted_if_empty("Accepted versions; omitted if every version is accepted", examples=["^1.2"])
    optional: bool
    met: bool = Field(description="True if a callable tool of an accepted version exists")


class Node(ResponseSchema):
    name: str
    version: str
    needs: list[ToolRequirement]
    needed_by: list[str]


class Graph(ResponseSchema):
    """Tools that have dependencies or dependents."""

    tools: list[Node]
    cycles: list[list[str]] = Field(description="Dependency cycles; their tools cannot be called")


@router.get("", response={200: Graph, 304: None}, url_name="dependencies")
async def list_dependencies(request: HttpRequest) -> Graph:
    """Show the dependencies between the tools that the key can see."""
    caller = require(request, actions.TOOLS_LIST)
    return _graph((await catalog.fresh()).seen_by(caller))


def _graph(snapshot: Snapshot) -> Graph:
    users: dict[str, list[str]] = {}
    required_by_tool: dict[str, list[str]] = {}
    for entry in snapshot.all:
        for need in snapshot.needs(entry):
            dependency = snapshot.find(need.name)
            users.setdefault(dependency.name if dependency else need.name, []).append(entry.name)
            if dependency is not None and not need.optional:
                required_by_tool.setdefault(entry.name, []).append(dependency.name)
    entries_in_graph = [entry for entry in snapshot.all if entry.name in users or snapshot.needs(entry)]
    nodes = [
        Node.of(
            entry,
            needs=[ToolRequirement.of(need, met=_is_met(need, snapshot)) for need in snapshot.needs(entry)],
            needed_by=users.get(entry.name, []),
        )
        for entry in entries_in_graph
    ]
    return Graph(tools=nodes, cycles=dependencies.cycles(required_by_tool))


def _is_met(need: Dependency, snapshot: Snapshot) -> bool:
    dependency = snapshot.find(need.name)
    return dependency is not None and dependency.callable and need.accepts(dependency.version)
