"""The versions of a workflow in n8n's own history."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field

from tools_app.packs.n8n import WorkflowId, pack
from tools_app.packs.n8n.runs import as_list, as_map
from tools_app.packs.n8n.secrecy import readable
from tools_app.packs.n8n.sizes import words
from tools_app.packs.n8n.summary import quoted
from tools_app.packs.n8n.workflows import as_object
from tools_app.sdk.context import Context
from tools_app.sdk.examples import Example
from tools_app.sdk.hints import Hints

_TEXT: Final = 200


def _guidance(data: dict[str, Any]) -> dict[str, str]:
    one = quoted(data["id"])
    if len(data["versions"]) < 2:
        return {"message": "n8n keeps no earlier version.", "example": f"get_workflow(id: {one}, raw: true)"}
    earlier = quoted(data["versions"][1]["versionId"])
    return {
        "message": "The newest comes first. The example restores nodes and connections of the one before.",
        "example": f"update_workflow(id: {one}, restore: {earlier})",
    }


@pack.tool(
    title="List workflow versions",
    category="workflows",
    tags=("n8n", "workflow", "list"),
    keywords=(
        "history of an automation, who changed it, earlier state, roll back, undo a change",
        "変更履歴 前の版 元に戻す 誰が変えた",
    ),
    hints=Hints(read_only=True),
    done="Workflow versions retrieved",
    guidance=_guidance,
    examples=[Example("Who changed a workflow, and when", {"id": "TanEWv6Q7n5v83dy"}, shown_only=True)],
    output_schema={
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "versions": {"type": "array", "items": {"type": "object"}},
            "nextCursor": {"type": ["string", "null"]},
            "_guidance": {"type": "object"},
        },
        "required": ["id", "versions", "nextCursor"],
    },
)
async def list_workflow_versions(
    ctx: Context,
    workflow_id: WorkflowId,
    limit: Annotated[int, Field(ge=1, le=100), "Page size"] = 20,
    cursor: Annotated[str, Field(max_length=2048), "nextCursor of the previous page"] = "",
) -> dict[str, Any]:
    """List the versions of a workflow that n8n keeps, for update_workflow(restore). Needs n8n 2 or later."""
    operation = "list versions"
    page = as_object(
        await ctx.http.get(
            *("workflows", workflow_id, "history"),
            operation=operation,
            resource="Workflow",
            params={"limit": limit, "cursor": cursor or None},
        ),
        operation,
    )
    versions = [
        {
            "versionId": str(each.get("versionId", "")),
            "createdAt": each.get("createdAt"),
            "authors": words(str(each.get("authors") or ""), _TEXT),
        }
        | {key: words(str(each[key]), _TEXT) for key in ("name", "description") if each.get(key)}
        for each in map(as_map, as_list(page.get("data"))[:limit])
    ]
    return readable({"id": workflow_id, "versions": versions, "nextCursor": page.get("nextCursor")})
