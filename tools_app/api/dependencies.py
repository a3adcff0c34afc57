"""Which tools need which others."""

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
    range: str | None = Field(default=None, description="The versions that will do; without it all", examples=["^1.2"])
    optional: bool
    met: bool = Field(description="Whether there is such a tool, of such a version, that can be called")


class Node(Shown):
    name: str
    version: str
    needs: list[Need]
    needed_by: list[str]


class Graph(Shown):
    """Every tool that needs others, or is needed."""

    tools: list[Node]
    cycles: list[list[str]] = Field(description="Tools that need each other; none of them can be called")


@router.get("", response={200: Graph, 304: None, **failures()}, url_name="dependencies")
async def list_dependencies(request: HttpRequest) -> HttpResponse:
    """Show which tools need which others, as far as the key can see them."""
    caller = caller_of(request)
    access.require(caller, "tools:list")
    return answer_unless_known(request, _graph((await catalog.fresh()).seen_by(caller)))


def _graph(snapshot: Snapshot) -> dict[str, Any]:
    users: dict[str, list[str]] = {}
    required: dict[str, list[str]] = {}
    for entry in snapshot.all:
        for need in snapshot.needs(entry):
            found = snapshot.find(need.name)
            users.setdefault(found.name if found else need.name, []).append(entry.name)
            if found is not None and not need.optional:
                required.setdefault(entry.name, []).append(found.name)
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
                "met": (found := snapshot.find(need.name)) is not None
                and found.callable
                and need.accepts(found.version),
            }
            for need in snapshot.needs(entry)
        ],
        "neededBy": users,
    }
