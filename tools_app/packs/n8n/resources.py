"""What else an n8n has that workflows use: credentials, tags, variables, projects, data tables. Never their values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from tools_app.packs.n8n import pack
from tools_app.packs.n8n.runs import as_list, as_map
from tools_app.packs.n8n.secrecy import readable
from tools_app.packs.n8n.sizes import words
from tools_app.packs.n8n.workflows import as_object
from tools_app.sdk.context import Context
from tools_app.sdk.examples import Example
from tools_app.sdk.hints import Hints

# By kind: the path, and the fields that are shown. Values of variables can be secrets.
_KINDS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "credentials": ("credentials", ("id", "name", "type")),
    "tags": ("tags", ("id", "name")),
    "variables": ("variables", ("id", "key", "type")),
    "projects": ("projects", ("id", "name", "type")),
    "dataTables": ("data-tables", ("id", "name", "projectId")),
}
_TEXT: Final = 200


@pack.tool(
    title="List n8n resources",
    category="workflows",
    tags=("n8n", "list"),
    keywords=(
        "credentials, accounts, logins that an automation can use, tags, variables, data tables",
        "認証情報 資格情報 データテーブル",
    ),
    hints=Hints(read_only=True),
    done="Resources retrieved",
    guidance=lambda data: {
        "message": "A node uses a credential by id and name, a workflow its tags by name; values are not shown.",
        "example": "list_workflows(limit: 20)",
    },
    examples=[Example("Which credentials there are", {"kind": "credentials"}, shown_only=True)],
    output_schema={
        "type": "object",
        "properties": {
            "count": {"type": "integer"},
            "resources": {"type": "array", "items": {"type": "object"}},
            "nextCursor": {"type": ["string", "null"]},
            "_guidance": {"type": "object"},
        },
        "required": ["count", "resources", "nextCursor"],
    },
)
async def list_n8n_resources(
    ctx: Context,
    kind: Annotated[Literal["credentials", "tags", "variables", "projects", "dataTables"], "What to list"],
    limit: Annotated[int, Field(ge=1, le=100), "Page size"] = 50,
    cursor: Annotated[str, Field(max_length=2048), "nextCursor of the previous page"] = "",
) -> dict[str, Any]:
    """List ids, names and types of what workflows can use; never values."""
    path, fields = _KINDS[kind]
    operation = f"list {path}"
    page = as_object(
        await ctx.http.get(path, operation=operation, params={"limit": limit, "cursor": cursor or None}), operation
    )
    resources = [_shown(as_map(each), fields) for each in as_list(page.get("data"))[:limit]]
    return readable({"count": len(resources), "resources": resources, "nextCursor": page.get("nextCursor")})


def _shown(resource: Mapping[str, Any], fields: tuple[str, ...]) -> dict[str, Any]:
    shown: dict[str, Any] = {key: words(str(resource[key]), _TEXT) for key in fields if resource.get(key) is not None}
    if columns := [as_map(column) for column in as_list(resource.get("columns"))]:
        shown["columns"] = {words(str(each.get("name")), _TEXT): str(each.get("type")) for each in columns[:50]}
    return shown
