"""Edit a workflow by operations, and validate one: all or nothing, with the differences in the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from pydantic import Field

from tools_app.packs.n8n import Id, WorkflowId, pack, previous, validation
from tools_app.packs.n8n.changes import replace, turn
from tools_app.packs.n8n.differences import differences
from tools_app.packs.n8n.drafts import ChangedNodes, Connections
from tools_app.packs.n8n.operations import Draft, Operations
from tools_app.packs.n8n.runs import as_list, as_map
from tools_app.packs.n8n.secrecy import readable
from tools_app.packs.n8n.sizes import words
from tools_app.packs.n8n.summary import quoted
from tools_app.packs.n8n.workflows import fetch_for_update, fetched
from tools_app.sdk import heavy
from tools_app.sdk.context import Context
from tools_app.sdk.errors import (
    ApiError,
    ConflictError,
    InvalidArgumentsError,
    NotFoundError,
    Problem,
    ToolError,
)
from tools_app.sdk.examples import Example
from tools_app.sdk.hints import Hints
from tools_app.sdk.signatures import Says

_MOST_PAGES: Final = 20
_MOST_FINDINGS: Final = 50


# ---- edit


def _edited_guidance(data: dict[str, Any]) -> dict[str, str]:
    one = quoted(data["id"])
    if data.get("preview"):
        version = f", version: {quoted(data['version'])}" if data.get("version") else ""
        return {
            "message": "Nothing was saved. The same call without preview saves it.",
            "example": f"edit_workflow(id: {one}{version}, operations: […])",
        }
    if handle := as_map(data.get("previousState")).get("handle"):
        return {
            "message": "Saved; an active workflow uses it immediately. The example restores the previous state.",
            "example": f"update_workflow(id: {one}, restore: {quoted(handle)})",
        }
    return {"message": "get_workflow shows the workflow.", "example": f"get_workflow(id: {one})"}


@pack.tool(
    title="Edit workflow",
    category="workflows",
    tags=("n8n", "workflow", "node", "write"),
    keywords=(
        "change a node, fix a step, parameter of a step, add or remove a step, rename a step, rewire, tag, patch",
        "ステップを直す ノードを変える ノードを追加 タグを付ける パラメーターを変える",
    ),
    # Operations remove nodes, and a second call may find what the first has changed.
    hints=Hints(destructive=True),
    done="Workflow edited",
    guidance=_edited_guidance,
    examples=[
        Example(
            "Fix a line of a script",
            {
                "id": "TanEWv6Q7n5v83dy",
                "operations": [{"op": "replace_text", "node": "Sum", "old": "item.prize", "new": "item.price"}],
            },
            shown_only=True,
        ),
        Example(
            "A new node after another, shown before it is saved",
            {
                "id": "TanEWv6Q7n5v83dy",
                "preview": True,
                "operations": [
                    {
                        "op": "add_node",
                        "node": "Wait",
                        "fields": {"type": "n8n-nodes-base.wait", "typeVersion": 1.1, "parameters": {"amount": 5}},
                    },
                    {"op": "connect", "node": "Sum", "to": "Wait"},
                ],
            },
            shown_only=True,
        ),
    ],
    output_schema={
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "version": {"type": "string"},
            "changes": {"type": "object"},
            "warnings": {"type": "array", "items": {"type": "string"}},
            "previousState": {"type": "object"},
            "_guidance": {"type": "object"},
        },
        "required": ["id", "changes"],
    },
)
async def edit_workflow(
    ctx: Context,
    workflow_id: WorkflowId,
    operations: Annotated[
        Operations,
        "Applied in order, all or none. update_node merges fields, null removes one; replace_text replaces what occurs "
        "once in the parameters; add_node needs fields.type, fields.typeVersion; references follow rename_node",
    ],
    version: Annotated[str, Field(max_length=64), "versionId or updatedAt as read: refused if changed since"] = "",
    preview: Annotated[bool, "Show the changes without saving"] = False,
) -> dict[str, Any]:
    """Edit nodes, connections, settings or tags of a workflow; the rest stays. Returns what changed."""
    async with turn(ctx, workflow_id):
        tag_names = next((each.get("tags") for each in reversed(operations) if each["op"] == "set_tags"), None)
        tag_ids = None if tag_names is None else await _tag_ids(ctx, tag_names)
        # Nothing is awaited between reading it and sending it back but storing the state before.
        current = await fetch_for_update(ctx, workflow_id)
        _check_version(current, workflow_id, version)
        body, changes, warnings = await heavy.by_size(current, _edited, current, operations)
        answer: dict[str, Any] = {"id": workflow_id, "version": _version(current), "changes": changes}
        if preview:
            answer["preview"] = True
        elif not changes:
            warnings = [*warnings, "There was nothing to change."]
        else:
            new_tags = tag_ids if "tags" in changes else None
            saved = await _saved(ctx, current, workflow_id, body, new_tags, is_changed=bool(changes.keys() - {"tags"}))
            warnings = [*warnings, *saved.get("warnings", [])]
            answer |= {key: saved[key] for key in ("previousState",) if key in saved}
            answer["version"] = str(saved.get("versionId") or "")
        return readable(answer | ({"warnings": warnings} if warnings else {}))


def _edited(
    current: Mapping[str, Any], operations: Sequence[Mapping[str, Any]]
) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """The new workflow, what changes, and warnings."""
    draft = Draft(current)
    draft.apply(operations)
    body, warnings = draft.body(current)
    warnings += validation.check(current, body)
    changes = differences(current, body)
    if draft.tags is not None and (tags := _tag_changes(current, draft.tags)):
        changes["tags"] = tags
    return body, changes, warnings


def _version(workflow: Mapping[str, Any]) -> str:
    return str(workflow.get("versionId") or workflow.get("updatedAt") or "")


def _check_version(current: Mapping[str, Any], workflow_id: str, version: str) -> None:
    """Raises: ConflictError."""
    now = [str(current[key]) for key in ("versionId", "updatedAt") if current.get(key)]
    if version and version not in now:
        raise ConflictError(
            f"Workflow '{workflow_id}' has changed: it has no longer the version {version!r}",
            context={"field": "version"},
            next_step="Nothing was saved. Read again what you want to change (get_workflow_node, get_workflow with "
            f"raw: true), and send the edit with version: {quoted(now[0] if now else '')}.",
        )


async def _saved(
    ctx: Context,
    current: Mapping[str, Any],
    workflow_id: str,
    body: Mapping[str, Any],
    tag_ids: Sequence[str] | None,
    *,
    is_changed: bool,
) -> dict[str, Any]:
    """Save the workflow, then its tags, which n8n takes separately. If the tags fail, the workflow is restored."""
    saved: dict[str, Any] = {"versionId": current.get("versionId")}
    if is_changed:
        saved = await replace(ctx, current, workflow_id, body, [])
    if tag_ids is None:
        return saved
    try:
        await ctx.http.put(
            *("workflows", workflow_id, "tags"),
            operation="set tags of workflow",
            resource="Workflow",
            json=[{"id": each} for each in tag_ids],
        )
    except ToolError as error:
        if is_changed:
            await previous.undo(ctx, workflow_id, current, error)
        raise
    return saved


async def _tag_ids(ctx: Context, names: Sequence[str]) -> list[str]:
    """Raises: InvalidArgumentsError: n8n has no such tag."""
    tags = {str(tag.get("name")): str(tag.get("id")) for tag in await _all_pages(ctx, "tags", "list tags")}
    if unknown := [name for name in names if name not in tags]:
        message = f"n8n has no tag {', '.join(repr(words(name, 60)) for name in unknown[:5])}"
        raise InvalidArgumentsError(
            problems=[Problem("/operations", message)],
            next_step=f"Nothing was saved. {validation.similar(unknown[0], tags)} New tags are made in n8n.",
        )
    return [tags[name] for name in names]


def _tag_changes(current: Mapping[str, Any], names: Sequence[str]) -> str:
    before = [str(as_map(tag).get("name")) for tag in as_list(current.get("tags"))]
    if sorted(before) == sorted(names):
        return ""
    return f"{', '.join(before) or 'nothing'} → {', '.join(names) or 'nothing'}"


async def _all_pages(ctx: Context, path: str, operation: str) -> list[Mapping[str, Any]]:
    entries: list[Mapping[str, Any]] = []
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        page = as_map(await ctx.http.get(path, operation=operation, params={"limit": 250, "cursor": cursor}))
        entries += map(as_map, as_list(page.get("data")))
        cursor = page.get("nextCursor")
        if not cursor:
            break
    return entries


# ---- validate


@pack.tool(
    title="Validate workflow",
    category="workflows",
    tags=("n8n", "workflow", "errors"),
    keywords=(
        "check a flow before saving, review, lint, broken references, mistakes",
        "検証 間違いを探す 誤りがないか",
    ),
    hints=Hints(read_only=True),
    done="Workflow validated",
    guidance=lambda data: {
        "message": "edit_workflow fixes an existing workflow."
        if data["findings"]
        else "No problem found. n8n itself checks types and required parameters when it is activated.",
        "example": f"edit_workflow(id: {quoted(data['id'])}, operations: […])"
        if data["id"] and data["findings"]
        else "list_workflows(limit: 20)",
    },
    examples=[Example("Review a workflow", {"id": "TanEWv6Q7n5v83dy"}, shown_only=True)],
    output_schema={
        "type": "object",
        "properties": {
            "id": {"type": ["string", "null"]},
            "valid": {"type": "boolean"},
            "findings": {"type": "array", "items": {"type": "object"}},
            "findingsTotal": {"type": "integer", "description": "If there are more than are listed"},
            "unchecked": {"type": "array", "items": {"type": "string"}},
            "_guidance": {"type": "object"},
        },
        "required": ["id", "valid", "findings"],
    },
)
async def validate_workflow(
    ctx: Context,
    workflow_id: Annotated[Id | None, Field(alias="id"), "Id of the workflow", Says("Workflow ID is required")] = None,
    nodes: Annotated[ChangedNodes | None, "All nodes of a draft"] = None,
    connections: Annotated[Connections | None, "All connections of a draft"] = None,
) -> dict[str, Any]:
    """Find problems of a workflow or draft: connections and expressions that lead nowhere, duplicates, credentials."""
    if (workflow_id is None) == (nodes is None):
        message = "Workflow ID is required" if nodes is None else "id: send either the id, or the parts of a draft"
        step = "Send the id of a workflow, or nodes and connections of a draft."
        raise InvalidArgumentsError(problems=[Problem("/id", message)], next_step=step)
    workflow: Mapping[str, Any] = {"nodes": nodes, "connections": connections or {}}
    if workflow_id is not None:
        workflow = await fetched(ctx, workflow_id)
    unchecked = ["types of nodes: n8n's API does not list them"]
    known: frozenset[str] | None = None
    if any(as_map(node).get("credentials") for node in as_list(workflow["nodes"])):
        known = await _credential_ids(ctx)
        unchecked += [] if known is not None else ["credentials: n8n does not list them for this connection"]
    found = await heavy.by_size(workflow, validation.findings, workflow, known)
    answer = {
        "id": workflow_id,
        "valid": all(finding.level != "error" for finding in found),
        "findings": [finding.as_dict() for finding in found[:_MOST_FINDINGS]],
        "unchecked": unchecked,
    }
    return readable(answer | ({"findingsTotal": len(found)} if len(found) > _MOST_FINDINGS else {}))


async def _credential_ids(ctx: Context) -> frozenset[str] | None:
    """The ids of all credentials that the connection can see; None before n8n 2, and without the permission."""
    try:
        credentials = await _all_pages(ctx, "credentials", "list credentials")
    except (ApiError, NotFoundError):
        ctx.log.info("n8n does not list its credentials", exc_info=True)
        return None
    return frozenset(str(each.get("id")) for each in credentials)
