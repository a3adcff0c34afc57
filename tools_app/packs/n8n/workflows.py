"""Read workflows: lists, single workflows, nodes and graphs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import Field

from tools_app.packs.n8n import Id, WorkflowId, pack
from tools_app.packs.n8n.graph import graph
from tools_app.packs.n8n.originals import as_shown
from tools_app.packs.n8n.runs import as_list, as_map
from tools_app.packs.n8n.secrecy import readable
from tools_app.packs.n8n.sizes import ANSWER, fitted, size, words
from tools_app.packs.n8n.summary import quoted
from tools_app.sdk.context import Context
from tools_app.sdk.errors import ConflictError, NotFoundError, UpstreamInvalidResponseError
from tools_app.sdk.examples import Example
from tools_app.sdk.hints import Hints
from tools_app.sdk.signatures import OrNumber, Says

_READS: Final = Hints(read_only=True)
_TAGS: Final = ("n8n", "workflow")
_WHOLE: Final = (
    *("id", "name", "active", "isArchived", "description", "createdAt", "updatedAt", "versionId"),
    *("nodes", "connections", "settings"),
)
# n8n lists workflows with all their nodes: larger pages could exceed the size limit of responses.
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
    """A workflow as n8n stores it.

    Raises:
        NotFoundError: n8n has no such workflow.
    """
    workflow = await ctx.http.get("workflows", workflow_id, operation=operation, resource="Workflow")
    return as_object(workflow, operation)


async def fetch_for_update(ctx: Context, workflow_id: str) -> Mapping[str, Any]:
    """The same, complete, so that it can be sent back.

    Raises:
        NotFoundError: n8n has no such workflow.
        ConflictError: the hub masked a part of it.
    """
    response = await ctx.http.request("GET", "workflows", workflow_id, operation="update workflow", resource="Workflow")
    if response.masked:
        raise ConflictError(
            f"Workflow '{workflow_id}' contains the API key of this connection, which the hub hides from tools",
            next_step="Updating it here would replace that key with asterisks. Move the key into an n8n credential, or "
            "edit the workflow in n8n.",
        )
    return as_object(response.data, "update workflow")


def as_object(data: Any, operation: str) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise UpstreamInvalidResponseError(
            f"Failed to {operation}: n8n sent an unexpected response",
            context={"operation": operation},
            next_step="An operator should check the base URL of this connection and its n8n version.",
        )
    return data


def whole(workflow: Mapping[str, Any]) -> dict[str, Any]:
    """A workflow for an agent: without users, version history and n8n's internal fields."""
    answer = {key: workflow[key] for key in _WHOLE if workflow.get(key) is not None}
    answer |= {"id": str(workflow.get("id", "")), "name": str(workflow.get("name", "")), "tags": _tags(workflow)}
    answer |= {"active": workflow.get("active") is True, "nodeCount": len(_nodes(workflow))}
    if pinned := as_map(workflow.get("pinData")):
        answer["pinnedNodes"] = list(pinned)
    return readable(answer)


def brief(workflow: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """The given keys of a workflow, and its warnings."""
    parts = {key: workflow[key] for key in (*keys, "warnings") if key in workflow}
    return {key: words(value, 1_000) if isinstance(value, str) else value for key, value in parts.items()}


def _nodes(workflow: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [node for node in as_list(workflow.get("nodes")) if isinstance(node, Mapping)]


def _tags(workflow: Mapping[str, Any]) -> str:
    return ", ".join(str(as_map(tag).get("name", "")) for tag in as_list(workflow.get("tags")))


# ---- lists


def _list_entry(workflow: Mapping[str, Any]) -> dict[str, Any]:
    entry = {
        "id": str(workflow.get("id", "")),
        "name": words(str(workflow.get("name", "")), 400),
        "active": workflow.get("active") is True,
        "tags": words(_tags(workflow), 150),
        "createdAt": workflow.get("createdAt"),
        "updatedAt": workflow.get("updatedAt"),
        "nodeCount": len(_nodes(workflow)),
    }
    return readable(entry)


def _short_list(full: dict[str, Any]) -> dict[str, Any]:
    return full | {"workflows": [brief(each, "id", "name", "active") for each in full["workflows"]]}


def _listing_guidance(data: dict[str, Any]) -> dict[str, str]:
    if not data["workflows"]:
        return {"message": "No workflows found: use fewer filters.", "example": "list_workflows(limit: 20)"}
    more = "; nextCursor leads to the next page" if data.get("nextCursor") else ""
    first = quoted(data["workflows"][0]["id"])
    return {
        "message": f"get_workflow has details, list_executions past runs{more}.",
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
    active: Annotated[bool | None, "Only active, or only inactive ones"] = None,
    tags: Annotated[list[Annotated[str, Field(min_length=1)]] | None, "Only with all of these tags"] = None,
    name: Annotated[str, Field(max_length=128), "Text that the name contains"] = "",
    limit: Annotated[int, Field(ge=1, le=100), "Page size"] = 50,
    offset: Annotated[int, Field(ge=0, le=4_900), "Number to skip; cursor is faster"] = 0,
    cursor: Annotated[str, Field(max_length=2048), "nextCursor of the previous page"] = "",
) -> dict[str, Any]:
    """List n8n workflows."""
    params = {
        "active": None if active is None else str(active).lower(),
        "tags": ",".join(tags) if tags else None,
        "name": name or None,
        "excludePinnedData": "true",
    }
    if offset and not cursor:
        return await _after(ctx, params, offset, limit)
    page = await _page(ctx, params | {"limit": limit, "cursor": cursor or None})
    workflows = [_list_entry(as_map(each)) for each in as_list(page.get("data"))[:limit]]
    return {"count": len(workflows), "workflows": workflows, "nextCursor": page.get("nextCursor")}


async def _page(ctx: Context, params: Mapping[str, Any]) -> Mapping[str, Any]:
    return as_object(await ctx.http.get("workflows", operation="list workflows", params=dict(params)), "list workflows")


async def _after(ctx: Context, params: Mapping[str, Any], offset: int, limit: int) -> dict[str, Any]:
    """Emulates offsets: n8n has cursors only, so earlier pages are read and discarded."""
    workflows: list[dict[str, Any]] = []
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        page = await _page(ctx, {**params, "limit": min(_PAGE, offset + limit), "cursor": cursor})
        workflows += [_list_entry(as_map(each)) for each in as_list(page.get("data"))[:_PAGE]]
        cursor = page.get("nextCursor")
        if not cursor or len(workflows) >= offset + limit:
            break
    selected = workflows[offset : offset + limit]
    more = bool(cursor) or len(workflows) > offset + limit
    return {"count": len(selected), "workflows": selected, "nextOffset": offset + len(selected) if more else None}


# ---- one workflow


def _outlined(full: dict[str, Any]) -> dict[str, Any]:
    return brief(full, "id", "name", "active", "nodeCount", "tags")


def _reading_guidance(data: dict[str, Any]) -> dict[str, str]:
    name = quoted(data["id"])
    return {
        "message": "raw: true adds all nodes, connections and settings; get_workflow_node has one node; "
        "get_workflow_connections has the graph; list_executions has past runs.",
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
    """Get a workflow: active, tags, size.

    raw adds nodes with parameters, connections and settings, as update_workflow takes them.
    """
    return whole(await fetched(ctx, workflow_id))


def _without_looks(node: dict[str, Any]) -> dict[str, Any]:
    """A node without its canvas position and notes; long texts are truncated to fit an answer."""
    parts = {key: value for key, value in node.items() if key not in ("position", "notesInFlow", "_guidance")}
    if size(parts) > ANSWER:
        less = fitted(parts, ANSWER - 1_000)
        parts = less if isinstance(less, dict) else {"name": words(str(node.get("name")), 1_000)}
        parts["truncated"] = True
    return parts | {"_guidance": node["_guidance"]}


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
        str,
        Field(min_length=1, max_length=256, alias="nodeId"),
        OrNumber(),
        "Id or name of the node",
        Says("Node ID is required"),
    ],
) -> dict[str, Any]:
    """Get one node of a workflow with its parameters."""
    workflow = await fetched(ctx, workflow_id)
    nodes = _nodes(workflow)
    node = next((node for node in nodes if node.get("id") == node_id), None)
    node = node or next((node for node in nodes if str(node.get("name")) == node_id), None)
    node = node or next((node for node in nodes if as_shown(str(node.get("name"))) == node_id), None)
    if node is None:
        names = ", ".join(words(as_shown(str(node.get("name"))), 100) for node in nodes[:10])
        raise NotFoundError(
            f"Node '{node_id}' not found in workflow '{workflow_id}'",
            context={"operation": "get workflow", "resourceType": "Node", "resourceId": node_id},
            next_step=f"It has: {names}." if names else "It has no nodes.",
        )
    shown = quoted(words(as_shown(str(node.get("name"))), 240))
    operation = f"{{op: 'update_node', node: {shown}, fields: {{'parameters.…': …}}}}"
    version = f", version: {quoted(str(workflow['versionId']))}" if workflow.get("versionId") else ""
    guidance = {
        "message": "edit_workflow changes it: only the fields to change are sent.",
        "example": f"edit_workflow(id: {quoted(workflow_id)}{version}, operations: [{operation}])",
    }
    return readable({**node, "_guidance": guidance})


# ---- the graph


def _graph_guidance(data: dict[str, Any]) -> dict[str, str]:
    defaults = "Defaults are omitted: output 0, input 0, type main."
    if not data["graph"]:
        return {"message": "It has no nodes.", "example": f"get_workflow(id: {quoted(data['id'])})"}
    node = quoted(words(str(as_map(data["graph"][0]).get("node", "")), 240))
    return {"message": defaults, "example": f"get_workflow_node(workflowId: {quoted(data['id'])}, nodeId: {node})"}


def _only_graph(full: dict[str, Any]) -> dict[str, Any]:
    answer = {key: value for key, value in full.items() if key != "rawConnections"}
    if size(answer) <= ANSWER:
        return answer
    room, entries = ANSWER - 5_000, []
    for entry in answer["graph"]:
        if (room := room - size(entry) - 1) < 0:
            break
        entries.append(entry)
    return answer | {"name": words(answer["name"], 1_000), "graph": entries, "truncated": True}


@pack.tool(
    title="Get workflow connections",
    category="workflows",
    tags=(*_TAGS, "graph"),
    keywords=("how steps are wired, what comes next, what follows, order of steps", "つながり 順番 次に何が来る 流れ"),
    hints=_READS,
    minimal=_only_graph,
    done="Workflow connections retrieved",
    guidance=_graph_guidance,
    examples=[Example("How a workflow's nodes are connected", {"id": "TanEWv6Q7n5v83dy"}, shown_only=True)],
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
    """Get the graph of a workflow: where nodes come from and lead to."""
    workflow = await fetched(ctx, workflow_id)
    answer: dict[str, Any] = {
        "id": str(workflow.get("id", "")),
        "name": str(workflow.get("name", "")),
        "graph": graph(workflow),
        "rawConnections": dict(as_map(workflow.get("connections"))),
    }
    return readable(answer)
