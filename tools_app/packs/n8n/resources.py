"""What else an n8n has: credentials, tags, variables, projects, folders, data tables. Never their values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from tools_app.packs.n8n import Id, pack
from tools_app.packs.n8n.runs import as_list, as_map, number
from tools_app.packs.n8n.secrecy import readable
from tools_app.packs.n8n.sizes import words
from tools_app.packs.n8n.workflows import as_object
from tools_app.sdk.context import Context
from tools_app.sdk.errors import InvalidArgumentsError, Problem
from tools_app.sdk.examples import Example
from tools_app.sdk.hints import Hints

# By kind: the path, and the fields that are shown. Values of variables can be secrets.
_KINDS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "credentials": ("credentials", ("id", "name", "type")),
    "tags": ("tags", ("id", "name")),
    "variables": ("variables", ("id", "key", "type")),
    "projects": ("projects", ("id", "name", "type")),
    "folders": ("folders", ("id", "name", "parentFolderId", "workflowCount")),
    "dataTables": ("data-tables", ("id", "name", "projectId")),
}
_TEXT: Final = 200


@pack.tool(
    title="List n8n resources",
    category="workflows",
    tags=("n8n", "list"),
    keywords=(
        "credentials, accounts, logins that an automation can use, tags, variables, folders, data tables",
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
    kind: Annotated[Literal["credentials", "tags", "variables", "projects", "folders", "dataTables"], "What to list"],
    project_id: Annotated[Id | None, "Only for folders, where it is required", Field(alias="projectId")] = None,
    limit: Annotated[int, Field(ge=1, le=100), "Page size"] = 50,
    cursor: Annotated[str, Field(max_length=2048), "nextCursor of the previous page"] = "",
) -> dict[str, Any]:
    """List ids, names and types of what workflows can use; never values."""
    path, fields = _KINDS[kind]
    operation = f"list {path}"
    if kind == "folders":
        page = await _folders(ctx, project_id, limit, cursor)
    elif project_id is not None:
        raise InvalidArgumentsError(problems=[Problem("/projectId", "projectId is only for folders")])
    else:
        params = {"limit": limit, "cursor": cursor or None}
        page = as_object(await ctx.http.get(path, operation=operation, params=params), operation)
    resources = [_shown(as_map(each), fields) for each in as_list(page.get("data"))[:limit]]
    return readable({"count": len(resources), "resources": resources, "nextCursor": page.get("nextCursor")})


async def _folders(ctx: Context, project_id: str | None, limit: int, cursor: str) -> Mapping[str, Any]:
    """A page of the folders of a project. Of all lists of n8n's API, this one alone has offsets.

    Raises:
        InvalidArgumentsError: no project, or a cursor of another list.
    """
    if project_id is None:
        problem = Problem("/projectId", "projectId is required for folders", "the id of a project")
        raise InvalidArgumentsError(problems=[problem], next_step="list_n8n_resources(kind: 'projects') has the ids.")
    if not (cursor.isascii() and cursor.isdecimal()) and cursor:
        raise InvalidArgumentsError(problems=[Problem("/cursor", "cursor is not the nextCursor of a previous page")])
    operation, skip = "list folders", int(cursor or 0)
    page = as_object(
        await ctx.http.get(
            *("projects", project_id, "folders"),
            operation=operation,
            resource="Project",
            params={"skip": skip, "take": limit},
        ),
        operation,
    )
    after = skip + limit
    return {"data": page.get("data"), "nextCursor": str(after) if after < number(page.get("count")) else None}


def _shown(resource: Mapping[str, Any], fields: tuple[str, ...]) -> dict[str, Any]:
    shown: dict[str, Any] = {key: words(str(resource[key]), _TEXT) for key in fields if resource.get(key) is not None}
    if columns := [as_map(column) for column in as_list(resource.get("columns"))]:
        shown["columns"] = {words(str(each.get("name")), _TEXT): str(each.get("type")) for each in columns[:50]}
    return shown
