"""Workflows from local files, for callers on the hub's own machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import Field

from tools_app.packs.n8n import WorkflowId, drafts, pack, validation
from tools_app.packs.n8n.changes import CHANGED, after_updating, create, replace, turn
from tools_app.packs.n8n.runs import as_list, as_map
from tools_app.packs.n8n.summary import quoted
from tools_app.packs.n8n.workflows import brief, fetch_for_update
from tools_app.sdk import files, heavy
from tools_app.sdk.context import Context
from tools_app.sdk.errors import ValidationError
from tools_app.sdk.examples import Example
from tools_app.sdk.hints import Hints
from tools_app.sdk.signatures import Says

MOST_BYTES: Final = 1024 * 1024
_INSTEAD: Final = "Send the workflow itself, with create_workflow or update_workflow."
_TAGS: Final = ("n8n", "workflow", "write", "file")

FilePath = Annotated[
    str,
    Field(min_length=1, max_length=1000, alias="filePath"),
    "JSON file, in the directory that operators allow",
    Says("File path is required"),
]


@pack.tool(
    title="Create workflow from file",
    category="workflows",
    tags=_TAGS,
    keywords=(
        "import an exported flow, JSON export, load, upload, disk",
        "ファイルから取り込む JSONを読み込む インポート",
    ),
    hints=Hints(destructive=False),
    minimal=lambda full: brief(full, "id", "name", "active"),
    done="Workflow created",
    guidance=lambda data: {
        "message": "It is not active yet: activate_workflow starts its triggers.",
        "example": f"activate_workflow(id: {quoted(str(data['id']))})",
    },
    examples=[Example("Import a workflow", {"filePath": "invoices.json"}, shown_only=True)],
    needs_files=True,
    output_schema=CHANGED,
)
async def create_workflow_from_file(ctx: Context, file_path: FilePath) -> dict[str, Any]:
    """Create a workflow from a JSON file exported by n8n. For callers on the hub's machine."""
    workflow, ignored_warnings = await _read(ctx, file_path)
    body, warnings = drafts.created(workflow["name"], workflow["nodes"], workflow["connections"], workflow["settings"])
    found = await heavy.by_size(body, validation.check, {}, body, imported=True)
    return await create(ctx, body, [*warnings, *found, *ignored_warnings])


@pack.tool(
    title="Replace workflow from file",
    category="workflows",
    tags=_TAGS,
    keywords=("overwrite a flow with a file, JSON, new version, import", "ファイルで上書き JSONで差し替え インポート"),
    hints=Hints(destructive=True, idempotent=True),
    minimal=lambda full: brief(full, "id", "name", "previousState"),
    done="Workflow replaced",
    guidance=after_updating,
    examples=[
        Example("Replace it with a file", {"id": "TanEWv6Q7n5v83dy", "filePath": "invoices.json"}, shown_only=True)
    ],
    needs_files=True,
    output_schema=CHANGED,
)
async def replace_workflow_from_file(ctx: Context, workflow_id: WorkflowId, file_path: FilePath) -> dict[str, Any]:
    """Replace a workflow with a JSON file. For callers on the hub's machine.

    Credentials, and settings that the file does not mention, stay. The hub keeps the previousState for a while.
    """
    workflow, ignored_warnings = await _read(ctx, file_path)
    async with turn(ctx, workflow_id):
        current = await fetch_for_update(ctx, workflow_id)
        change = drafts.changed(current, workflow, anew=True)
        found = await heavy.by_size(change.body, validation.check, current, change.body, imported=True)
        warnings = [*change.warnings, *drafts.losses(change), *found, *ignored_warnings]
        return await replace(ctx, current, workflow_id, change.body, warnings)


async def _read(ctx: Context, file_path: str) -> tuple[dict[str, Any], list[str]]:
    """The workflow in a file, and warnings about ignored parts.

    Raises:
        ToolError: the caller may not read files, or the file is unreadable or not a workflow.
    """
    content = await files.read(ctx, file_path, MOST_BYTES, _INSTEAD)
    if len(content) > MOST_BYTES:
        raise _wrong(f"File is larger than {MOST_BYTES:,} bytes")
    try:
        workflow = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise _wrong("Invalid JSON", error) from error
    if not isinstance(workflow, Mapping):
        raise _wrong("Workflow must be an object")
    if not isinstance(workflow.get("name"), str) or not workflow["name"].strip():
        raise _wrong("Workflow name is required")
    if not isinstance(workflow.get("nodes"), list) or not all(isinstance(node, Mapping) for node in workflow["nodes"]):
        raise _wrong("Workflow nodes must be an array of objects")
    if not isinstance(workflow.get("connections"), Mapping):
        raise _wrong("Workflow connections must be an object")
    parts = {"name": workflow["name"], "nodes": workflow["nodes"], "connections": dict(workflow["connections"])}
    warnings = drafts.ignored(
        active=workflow.get("active") is True or None, tags=as_list(workflow.get("tags")), now_active=False
    )
    if workflow.get("pinData"):
        warnings.append("pinData: pinned data in the file was ignored.")
    return parts | {"settings": dict(as_map(workflow.get("settings")))}, warnings


def _wrong(message: str, detail: object = None) -> ValidationError:
    return ValidationError(message, context={"field": "filePath"}, detail=detail, next_step="Correct the file.")
