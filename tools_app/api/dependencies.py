"""Dependencies between tools."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from pydantic import Field

from tools_app.access import access
from tools_app.api.answers import Shown, answer_unless_known
from tools_app.api.authentication import caller_of
from tools_app.api.errors import failures
from tools_app.api.routing import StrictRouter
from tools_app.catalog import catalog
from tools_app.catalog.entry import Entry
from tools_app.catalog.snapshot import Snapshot
from tools_app.sdk import dependencies

router = StrictRouter(tags=["tools"])


class Need(Shown):
    name: str
    range: str | None = Field(
        default=None, description="Accepted versions; omitted if every version is accepted", examples=["^1.2"]
    )
    optional: bool
    met: bool = Field(description="True if a callable tool of an accepted version exists")


class Node(Shown):
    name: str
    version: str
    needs: list[Need]
    needed_by: list[str]


class Graph(Shown):
    """Tools that have dependencies or dependents."""

    tools: list[Node]
    cycles: list[list[str]] = Field(description="Dependency cycles; their tools cannot be called")


@router.get("", response={200: Graph, 304: None, **failures()}, url_name="dependencies")
async def list_dependencies(request: HttpRequest) -> HttpResponse:
    """Show the dependencies between the tools that the key can see."""
    caller = caller_of(request)
    access.require(caller, "tools:list")
    return answer_unless_known(request, _graph((await catalog.fresh()).seen_by(caller)))


def _graph(snapshot: Snapshot) -> dict[str, Any]:
    users: dict[str, list[str]] = {}
    required: dict[str, list[str]] = {}
    for entry in snapshot.all:
        for need in snapshot.needs(entry):
            needed = snapshot.find(need.name)
            users.setdefault(needed.name if needed else need.name, []).append(entry.name)
            if needed is not None and not need.optional:
                required.setdefault(entry.name, []).append(needed.name)
    involved = [entry for entry in snapshot.all if entry.name in users or snapshot.needs(entry)]
    return {
        "tools": [_node(entry, snapshot, users.get(entry.name, [])) for entry in involved],
        "cycles": dependencies.cycles(required),
    }


def _node(entry: Entry, snapshot: Snapshot, users: list[str]) -> dict[str, Any]:
    return {
        "name": entry.name,
        "version": entry.version,
        "needs": [
            {
                "name": need.name,
                **({"range": need.range} if need.range else {}),
                "optional": need.optional,
                "met": (needed := snapshot.find(need.name)) is not None
                and needed.callable
                and need.accepts(needed.version),
            }
            for need in snapshot.needs(entry)
        ],
        "neededBy": users,
    }
