"""Workflows: which there are, and what is in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import Field

from tools_app.packs.n8n import Id, WorkflowId, pack
from tools_app.packs.n8n.graph import graph
from tools_app.packs.n8n.originals import as_shown
from tools_app.packs.n8n.runs import listed, mapped
from tools_app.packs.n8n.secrecy import readable
from tools_app.packs.n8n.sizes import ANSWER, fitted, size, words
from tools_app.packs.n8n.summary import quoted
from tools_app.sdk.context import Context
from tools_app.sdk.errors import ConflictError, NotFoundError, UpstreamInvalidResponseError
from tools_app.sdk.examples import Example
from tools_app.sdk.signatures import Says
from tools_app.sdk.tool import Hints

_READS: Final = Hints(read_only=True)
_TAGS: Final = ("n8n", "workflow")
_WHOLE: Final = (
    *("id", "name", "active", "isArchived", "description", "createdAt", "updatedAt", "versionId"),
    *("nodes", "connections", "settings"),
)
# n8n sends whole workflows, nodes and all: more at once could be too large to be read.
_PAGE: Final = 100
_MOST_PAGES: Final = 50

_SHOWN: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "name": {"type": "string"},
        "active": {"type": "boolean"},
        "nodeCount": {"type": "integer"},
        "tags": {"type": "string"},
        "nodes": {"type": "array"},
        "connections": {"type": "object"},
        "settings": {"type": "object"},
        "_guidance": {"type": "object"},
    },
    "required": ["id", "name"],
}


async def fetched(ctx: Context, workflow_id: str, operation: str = "get workflow") -> Mapping[str, Any]:
    """A workflow as n8n has it.

    Raises:
        NotFoundError: n8n has no such workflow.
    """
    told = await ctx.http.get("workflows", workflow_id, operation=operation, resource="Workflow")
    return checked(told, operation)


async def fetched_to_change(ctx: Context, workflow_id: str) -> Mapping[str, Any]:
    """The same, to be sent back as a whole.

    Raises:
        NotFoundError: n8n has no such workflow.
        ConflictError: the hub does not see all of it.
    """
    response = await ctx.http.request("GET", "workflows", workflow_id, operation="update workflow", resource="Workflow")
    if response.masked:
        raise ConflictError(
            f"Workflow '{workflow_id}' holds the API key of this connection, which the hub hides from tools",
            next_step="Updating it here would replace that key by asterisks. Move the key into a credential of n8n, or "
            "edit the workflow in n8n.",
        )
    return checked(response.data, "update workflow")


def checked(told: Any, operation: str) -> Mapping[str, Any]:
    if not isinstance(told, Mapping):
        raise UpstreamInvalidResponseError(
            f"Failed to {operation}: n8n answered with something else than it should",
            context={"operation": operation},
            next_step="An operator should check the base URL of this connection, and the version of n8n behind it.",
        )
    return told


def whole(workflow: Mapping[str, Any]) -> dict[str, Any]:
    """A workflow for an agent: without people, versions and what n8n keeps for itself."""
    shown = {key: workflow[key] for key in _WHOLE if workflow.get(key) is not None}
    shown |= {"id": str(workflow.get("id", "")), "name": str(workflow.get("name", "")), "tags": _tags(workflow)}
    shown |= {"active": workflow.get("active") is True, "nodeCount": len(_nodes(workflow))}
    if pinned := mapped(workflow.get("pinData")):
        shown["pinnedNodes"] = list(pinned)
    return readable(shown)


def brief(workflow: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """Of a workflow what is asked for, and what has to be said of it in any case."""
    found = {key: workflow[key] for key in (*keys, "warnings") if key in workflow}
    return {key: words(value, 1_000) if isinstance(value, str) else value for key, value in found.items()}


def _nodes(workflow: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [node for node in listed(workflow.get("nodes")) if isinstance(node, Mapping)]


def _tags(workflow: Mapping[str, Any]) -> str:
    return ", ".join(str(mapped(tag).get("name", "")) for tag in listed(workflow.get("tags")))


# ---- lists


def _listed(workflow: Mapping[str, Any]) -> dict[str, Any]:
    shown = {
        "id": str(workflow.get("id", "")),
        "name": words(str(workflow.get("name", "")), 400),
        "active": workflow.get("active") is True,
        "tags": words(_tags(workflow), 150),
        "createdAt": workflow.get("createdAt"),
        "updatedAt": workflow.get("updatedAt"),
        "nodeCount": len(_nodes(workflow)),
    }
    return readable(shown)


def _short_list(full: dict[str, Any]) -> dict[str, Any]:
    return full | {"workflows": [brief(each, "id", "name", "active") for each in full["workflows"]]}


def _listing_guidance(data: dict[str, Any]) -> dict[str, str]:
    if not data["workflows"]:
        return {"message": "Nothing found: ask for less.", "example": "list_workflows(limit: 20)"}
    more = "; nextCursor leads to the next page" if data.get("nextCursor") else ""
    first = quoted(data["workflows"][0]["id"])
    return {
        "message": f"get_workflow tells more of one, list_executions what it did{more}.",
        "example": f"get_workflow(id: {first})",
    }


@pack.tool(
    title="List workflows",
    category="workflows",
    tags=(*_TAGS, "list"),
    keywords=("automations, flows, which there are", "ワークフロー一覧 フロー一覧 自動化の一覧"),
    hints=_READS,
    minimal=_short_list,
    done="Workflows retrieved",
    guidance=_listing_guidance,
    examples=[
        Example(
            "Active workflows with a word in their name",
            {"active": True, "name": "invoice"},
            {"count": "<integer>", "workflows": "<array>"},
        )
    ],
    output_schema={
        "type": "object",
        "properties": {
            "count": {"type": "integer"},
            "workflows": {"type": "array", "items": {"type": "object"}},
            "nextCursor": {"type": ["string", "null"]},
            "nextOffset": {"type": ["integer", "null"]},
            "_guidance": {"type": "object"},
        },
        "required": ["count", "workflows"],
    },
)
async def list_workflows(
    ctx: Context,
    active: Annotated[bool | None, "Only active ones, or only others"] = None,
    tags: Annotated[list[Annotated[str, Field(min_length=1)]] | None, "Only those with all of these tags"] = None,
    name: Annotated[str, Field(max_length=128), "Only those with this in their name"] = "",
    limit: Annotated[int, Field(ge=1, le=100), "How many at most"] = 50,
    offset: Annotated[int, Field(ge=0, le=4_900), "How many to leave out; cursor is quicker"] = 0,
    cursor: Annotated[str, Field(max_length=2048), "The nextCursor of the page before"] = "",
) -> dict[str, Any]:
    """List workflows of n8n."""
    asked = {
        "active": None if active is None else str(active).lower(),
        "tags": ",".join(tags) if tags else None,
        "name": name or None,
        "excludePinnedData": "true",
    }
    if offset and not cursor:
        return await _after(ctx, asked, offset, limit)
    page = await _page(ctx, asked | {"limit": limit, "cursor": cursor or None})
    found = [_listed(mapped(each)) for each in listed(page.get("data"))[:limit]]
    return {"count": len(found), "workflows": found, "nextCursor": page.get("nextCursor")}


async def _page(ctx: Context, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    return checked(await ctx.http.get("workflows", operation="list workflows", params=dict(asked)), "list workflows")


async def _after(ctx: Context, asked: Mapping[str, Any], offset: int, limit: int) -> dict[str, Any]:
    """n8n turns pages by cursor only: those before are read and let go of."""
    seen: list[dict[str, Any]] = []
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        page = await _page(ctx, {**asked, "limit": min(_PAGE, offset + limit), "cursor": cursor})
        seen += [_listed(mapped(each)) for each in listed(page.get("data"))[:_PAGE]]
        cursor = page.get("nextCursor")
        if not cursor or len(seen) >= offset + limit:
            break
    found = seen[offset : offset + limit]
    more = bool(cursor) or len(seen) > offset + limit
    return {"count": len(found), "workflows": found, "nextOffset": offset + len(found) if more else None}


# ---- one workflow


def _outlined(full: dict[str, Any]) -> dict[str, Any]:
    return brief(full, "id", "name", "active", "nodeCount", "tags")


def _reading_guidance(data: dict[str, Any]) -> dict[str, str]:
    name = quoted(data["id"])
    return {
        "message": "raw: true adds all nodes, connections and settings; get_workflow_node has one node; "
        "get_workflow_connections has the graph; list_executions has what it did.",
        "example": f"list_executions(workflowId: {name})",
    }


@pack.tool(
    title="Get workflow",
    category="workflows",
    tags=_TAGS,
    keywords=(
        "what an automation looks like inside, content of a flow",
        "フローの中身 ワークフローの内容 自動化の内容",
    ),
    hints=_READS,
    minimal=_outlined,
    done="Workflow retrieved",
    guidance=_reading_guidance,
    examples=[Example("A workflow in short", {"id": "TanEWv6Q7n5v83dy"}, shown_only=True)],
    output_schema=_SHOWN,
)
async def get_workflow(ctx: Context, workflow_id: WorkflowId) -> dict[str, Any]:
    """Get a workflow: whether it is active, its tags and its size.

    With raw, also all of its nodes, with parameters and credentials' ids, its connections and settings: update_workflow
    takes these as they are.
    """
    return whole(await fetched(ctx, workflow_id))


def _without_looks(node: dict[str, Any]) -> dict[str, Any]:
    """A node as it works: where it stands on the canvas is of no matter. Long scripts end where room does."""
    shown = {key: value for key, value in node.items() if key not in ("position", "notesInFlow", "_guidance")}
    if size(shown) > ANSWER:
        less = fitted(shown, ANSWER - 1_000)
        shown = less if isinstance(less, dict) else {"name": words(str(node.get("name")), 1_000)}
        shown["truncated"] = True
    return shown | {"_guidance": node["_guidance"]}


@pack.tool(
    title="Get workflow node",
    category="workflows",
    tags=(*_TAGS, "node"),
    keywords=("settings of a step, parameters of a step", "ステップの設定 ノードの設定 パラメーター"),
    hints=_READS,
    minimal=_without_looks,
    done="Node retrieved",
    examples=[
        Example("How a node is set up", {"workflowId": "TanEWv6Q7n5v83dy", "nodeId": "HTTP Request"}, shown_only=True)
    ],
    output_schema={
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "name": {"type": "string"},
            "type": {"type": "string"},
            "parameters": {"type": "object"},
            "_guidance": {"type": "object"},
        },
        "required": ["name"],
    },
)
async def get_workflow_node(
    ctx: Context,
    workflow_id: Annotated[Id, Field(alias="workflowId"), "Id of the workflow", Says("Workflow ID is required")],
    node_id: Annotated[
        str, Field(min_length=1, max_length=256, alias="nodeId"), "Id or name of the node", Says("Node ID is required")
    ],
) -> dict[str, Any]:
    """Get one node of a workflow with its parameters."""
    nodes = _nodes(await fetched(ctx, workflow_id))
    found = next((node for node in nodes if node.get("id") == node_id), None)
    found = found or next((node for node in nodes if str(node.get("name")) == node_id), None)
    found = found or next((node for node in nodes if as_shown(str(node.get("name"))) == node_id), None)
    if found is None:
        known = ", ".join(words(as_shown(str(node.get("name"))), 100) for node in nodes[:10])
        raise NotFoundError(
            f"Node '{node_id}' not found in workflow '{workflow_id}'",
            context={"operation": "get workflow", "resourceType": "Node", "resourceId": node_id},
            next_step=f"It has: {known}." if known else "It has no nodes.",
        )
    change = f"nodes: [{{name: {quoted(words(as_shown(str(found.get('name'))), 240))}, parameters: {{…}}}}, …]"
    guidance = {
        "message": "update_workflow changes it: send what changes of this node, and of each other node its name.",
        "example": f"update_workflow(id: {quoted(workflow_id)}, {change})",
    }
    return readable({**found, "_guidance": guidance})


# ---- the graph


def _graph_guidance(data: dict[str, Any]) -> dict[str, str]:
    said = "output and input are left out where they are the first, type where it is main."
    if not data["graph"]:
        return {"message": "It has no nodes.", "example": f"get_workflow(id: {quoted(data['id'])})"}
    node = quoted(words(str(mapped(data["graph"][0]).get("node", "")), 240))
    return {"message": said, "example": f"get_workflow_node(workflowId: {quoted(data['id'])}, nodeId: {node})"}


def _only_graph(full: dict[str, Any]) -> dict[str, Any]:
    shown = {key: value for key, value in full.items() if key != "rawConnections"}
    if size(shown) <= ANSWER:
        return shown
    room, entries = ANSWER - 5_000, []
    for entry in shown["graph"]:
        if (room := room - size(entry) - 1) < 0:
            break
        entries.append(entry)
    return shown | {"name": words(shown["name"], 1_000), "graph": entries, "truncated": True}


@pack.tool(
    title="Get workflow connections",
    category="workflows",
    tags=(*_TAGS, "graph"),
    keywords=("how steps are wired, what comes next, what follows, order of steps", "つながり 順番 次に何が来る 流れ"),
    hints=_READS,
    minimal=_only_graph,
    done="Workflow connections retrieved",
    guidance=_graph_guidance,
    examples=[Example("How a workflow's nodes hang together", {"id": "TanEWv6Q7n5v83dy"}, shown_only=True)],
    output_schema={
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "name": {"type": "string"},
            "graph": {"type": "array"},
            "rawConnections": {"type": "object"},
            "_guidance": {"type": "object"},
        },
        "required": ["id", "name", "graph"],
    },
)
async def get_workflow_connections(ctx: Context, workflow_id: WorkflowId) -> dict[str, Any]:
    """Get the graph of a workflow: for each node what leads to it and where it leads."""
    workflow = await fetched(ctx, workflow_id)
    shown: dict[str, Any] = {
        "id": str(workflow.get("id", "")),
        "name": str(workflow.get("name", "")),
        "graph": graph(workflow),
        "rawConnections": dict(mapped(workflow.get("connections"))),
    }
    return readable(shown)
