"""Documentation of node types, from the file that operators export from their n8n.

n8n serves its node types to signed-in people only, at `/types/nodes.json`: an API key is refused there, by n8n 1 as by
n8n 2, and no path of the API has them. Its command line exports them.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field

from tools_app.packs.n8n import NODE_TYPES, pack
from tools_app.packs.n8n.node_types import NodeTypes, documentation
from tools_app.packs.n8n.sizes import words
from tools_app.packs.n8n.summary import quoted
from tools_app.sdk import files, heavy
from tools_app.sdk.context import Context
from tools_app.sdk.errors import ConfigurationError, NotFoundError, ValidationError
from tools_app.sdk.examples import Example
from tools_app.sdk.hints import Hints

_MOST_BYTES: Final = 64 * 1024 * 1024
_MEMORY: Final = "n8n: node types"
_TAGS: Final = ("n8n", "node", "documentation")
_EXPORT: Final = (
    "An operator can export them: n8n export:nodes --output=n8n-nodes.json, copied into the directory "
    "TOOLHUB_FILE_ROOT of the hub, and named in N8N_NODE_TYPES or the option node_types of the connection. Meanwhile "
    "get_workflow_node shows nodes of this type that other workflows have."
)


async def _types(ctx: Context) -> NodeTypes:
    """Read once for each state of the file.

    Raises:
        ConfigurationError: there is none, or it has something else.
    """
    path = str(ctx.options[NODE_TYPES.name])
    if not path:
        raise ConfigurationError("n8n does not give its node types to API keys", next_step=_EXPORT)
    stamp, known = ctx.http.memory.get(_MEMORY, (None, None))
    try:
        content, now = await files.read_configured(ctx, path, _MOST_BYTES, unless=stamp)
        types: NodeTypes = known if content is None else await heavy.aside(NodeTypes, content)
    except (NotFoundError, ValidationError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise ConfigurationError(
            f"The file of node types of this connection cannot be used: {words(path, 200)}",
            detail=error,
            next_step=_EXPORT,
        ) from error
    ctx.http.memory[_MEMORY] = now, types
    return types


def _searched(data: dict[str, Any]) -> dict[str, str]:
    if not data["nodeTypes"]:
        return {
            "message": "Nothing found: name the service or the task in one or two English words.",
            "example": "search_node_types(query: 'http request')",
        }
    return {
        "message": "get_node_type has the parameters of one.",
        "example": f"get_node_type(type: {quoted(data['nodeTypes'][0]['type'])})",
    }


@pack.tool(
    title="Search node types",
    category="nodes",
    tags=(*_TAGS, "search"),
    keywords=(
        "which step can do something, node for a service, app, integration, available nodes, catalog of steps",
        "ノードの種類を探す どのノードを使う 連携できるサービス",
    ),
    hints=Hints(read_only=True),
    done="Node types found",
    guidance=_searched,
    examples=[Example("Nodes that send messages", {"query": "send slack message"}, shown_only=True)],
    output_schema={
        "type": "object",
        "properties": {
            "count": {"type": "integer"},
            "nodeTypes": {"type": "array", "items": {"type": "object"}},
            "_guidance": {"type": "object"},
        },
        "required": ["count", "nodeTypes"],
    },
)
async def search_node_types(
    ctx: Context, query: Annotated[str, Field(min_length=1, max_length=200), "Service or task, in English"]
) -> dict[str, Any]:
    """Find node types of this n8n that can be used in workflows."""
    types = await _types(ctx)
    found = await heavy.aside(types.search, query)
    return {"count": len(found), "nodeTypes": found}


def _documented(data: dict[str, Any]) -> dict[str, str]:
    one = quoted(data["type"])
    if operations := data.get("operations"):
        resource = next(iter(operations))
        chosen = f"{{resource: {quoted(resource)}, operation: {quoted(str(operations[resource][0]))}}}"
        return {
            "message": "Parameters of an operation follow when resource and operation are chosen.",
            "example": f"get_node_type(type: {one}, parameters: {chosen})",
        }
    more = " `more` are further parameters; choosing values leaves fewer." if data.get("more") else ""
    return {
        "message": f"`when` are conditions on other parameters.{more}",
        "example": f"edit_workflow(id: '…', operations: [{{op: 'add_node', node: {quoted(data['title'])}, fields: "
        f"{{type: {one}, typeVersion: {data['typeVersion']}, parameters: {{…}}}}}}])",
    }


@pack.tool(
    title="Get node type",
    category="nodes",
    tags=_TAGS,
    keywords=(
        "documentation of a node, which parameters a step takes, options, fields, credentials, versions",
        "ノードの説明 パラメーター一覧 ノードの使い方 設定項目",
    ),
    hints=Hints(read_only=True),
    done="Node type documented",
    guidance=_documented,
    examples=[
        Example(
            "What posting a message takes",
            {"type": "n8n-nodes-base.slack", "parameters": {"resource": "message", "operation": "post"}},
            shown_only=True,
        )
    ],
    output_schema={
        "type": "object",
        "properties": {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "typeVersion": {"type": "number"},
            "versions": {"type": "array", "items": {"type": "number"}},
            "description": {"type": "string"},
            "credentials": {"type": "array"},
            "operations": {"type": "object"},
            "parameters": {"type": "array", "items": {"type": "object"}},
            "more": {"type": "array", "items": {"type": "string"}},
            "_guidance": {"type": "object"},
        },
        "required": ["type", "typeVersion", "parameters"],
    },
)
async def get_node_type(
    ctx: Context,
    type: Annotated[str, Field(min_length=1, max_length=200), "Such as n8n-nodes-base.slack"],
    parameters: Annotated[dict[str, Any] | None, "Values already chosen: resource, operation, …"] = None,
    type_version: Annotated[float | None, Field(alias="typeVersion"), "Default: the one for new nodes"] = None,
) -> dict[str, Any]:
    """Get the documentation of a node type: parameters, credentials, versions; at most 4,000 tokens."""
    types = await _types(ctx)
    one = types.by_name.get(type)
    if one is None:
        similar = ", ".join(quoted(each) for each in types.similar(type))
        question = f"Did you mean {similar}? " if similar else ""
        raise NotFoundError(
            f"Node type '{words(type, 200)}' not found",
            context={"operation": "get node type", "resourceType": "Node type", "resourceId": type},
            next_step=f"{question}search_node_types finds them by words.",
        )
    version = one.default if type_version is None else type_version
    if version not in one.versions:
        version_list = ", ".join(f"{each:g}" for each in sorted(one.versions))
        raise NotFoundError(
            f"Node type '{type}' has no version {version:g}",
            context={"operation": "get node type", "resourceType": "Version", "resourceId": f"{version:g}"},
            next_step=f"Its versions: {version_list}.",
        )
    return await heavy.aside(documentation, one, version, parameters or {})
