"""Create, update, delete, activate and deactivate workflows."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal
from weakref import WeakValueDictionary

from pydantic import Field

from tools_app.packs.n8n import WorkflowId, drafts, pack, previous, validation
from tools_app.packs.n8n.drafts import ChangedNodes, Connections, Name, Nodes, Settings
from tools_app.packs.n8n.refusals import in_its_words
from tools_app.packs.n8n.runs import as_map
from tools_app.packs.n8n.summary import quoted
from tools_app.packs.n8n.workflows import brief, fetch_for_update, fetched, whole
from tools_app.sdk import heavy
from tools_app.sdk.context import Context
from tools_app.sdk.errors import (
    ApiError,
    InvalidArgumentsError,
    NotFoundError,
    Problem,
    ToolError,
)
from tools_app.sdk.examples import Example
from tools_app.sdk.hints import Hints
from tools_app.sdk.signatures import Says

_TAGS: Final = ("n8n", "workflow", "write")
# n8n 2 still deactivates a workflow after it has reported success. Until it is done, deleting fails with one of
# these statuses. Retry delays in seconds:
_UNPUBLISHING: Final = (0.2, 0.5, 1.0, 2.0, 4.0)
_PASSING: Final = frozenset({409, 500})
_TURNS: Final = "n8n: turns to change a workflow"

CHANGED: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "id": {"type": ["string", "null"]},
        "name": {"type": "string"},
        "active": {"type": "boolean"},
        "warnings": {"type": "array", "items": {"type": "string"}},
        "previousState": {"type": "object"},
        "_guidance": {"type": "object"},
    },
    "required": ["id"],
}


def _after_creating(data: dict[str, Any]) -> dict[str, str]:
    if not data["id"]:
        return {"message": "list_workflows shows whether it was created.", "example": "list_workflows(limit: 20)"}
    return {
        "message": "It is not active yet: activate_workflow starts its triggers.",
        "example": f"activate_workflow(id: {quoted(data['id'])})",
    }


def after_updating(data: dict[str, Any]) -> dict[str, str]:
    message = "get_workflow shows the new state; an active workflow uses it immediately."
    if handle := as_map(data.get("previousState")).get("handle"):
        return {
            "message": f"{message} The call in the example restores the previous state.",
            "example": f"update_workflow(id: {quoted(str(data['id']))}, restore: {quoted(handle)})",
        }
    return {"message": message, "example": f"get_workflow(id: {quoted(str(data['id']))}, raw: true)"}


async def create(ctx: Context, body: Mapping[str, Any], warnings: list[str]) -> dict[str, Any]:
    response = await ctx.http.post("workflows", operation="create workflow", resource="Workflow", json=body)
    if response.data is None:
        warnings = [*warnings, response.warning]
        return {"id": None, "name": body["name"], "active": False, "warnings": warnings}
    return _answer(as_map(response.data), warnings)


def turn(ctx: Context, workflow_id: str) -> asyncio.Lock:
    """A lock from reading a workflow to sending it back, against race conditions within this process."""
    turns: WeakValueDictionary[str, asyncio.Lock] = ctx.http.memory.setdefault(_TURNS, WeakValueDictionary())
    lock = turns.get(workflow_id)
    if lock is None:
        lock = turns[workflow_id] = asyncio.Lock()
    return lock


async def replace(
    ctx: Context, current: Mapping[str, Any], workflow_id: str, body: Mapping[str, Any], warnings: list[str]
) -> dict[str, Any]:
    """Replace the workflow, now `current`, with `body`. The answer has a handle of the previous state."""
    before = await previous.save(ctx, workflow_id, current, body)
    warnings = [*warnings, *before.warnings]
    try:
        response = await ctx.http.put(
            "workflows", workflow_id, operation="update workflow", resource="Workflow", json=body
        )
    except ToolError as error:
        await before.after(error, body)
        status = error.context.get("statusCode")
        if not error.next_step and status == 400 and (refused_nodes := drafts.refused(body["nodes"])):
            error.next_step = (
                f"n8n's API does not accept some fields of these nodes: {', '.join(refused_nodes[:5])}. "
                "To remove these fields, set them to null with update_workflow."
            )
        raise
    if response.data is None:
        # The change was made, but its response is lost: read the workflow again if possible.
        warnings = [*warnings, response.warning]
        try:
            return _answer(await fetched(ctx, workflow_id), warnings) | before.answer_part
        except ToolError:
            return {"id": workflow_id, "name": body["name"], "warnings": warnings} | before.answer_part
    now = as_map(response.data)
    if changed_meanwhile(current, now):
        warnings = [*warnings, "Another change was made at the same time and may be lost: check the workflow."]
    return _answer(now, warnings) | before.answer_part


def changed_meanwhile(current: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether n8n counts more changes than this one. n8n 1 also counts its own changes of active workflows."""
    before, after = current.get("versionCounter"), now.get("versionCounter")
    counts = current.get("active") is not True or "nodeGroups" in current
    return counts and isinstance(before, int) and isinstance(after, int) and after - before > 1


def _answer(workflow: Mapping[str, Any], warnings: list[str]) -> dict[str, Any]:
    return whole(workflow) | ({"warnings": warnings} if warnings else {})


@pack.tool(
    title="Create workflow",
    category="workflows",
    tags=_TAGS,
    keywords=("new automation, build a flow, from scratch", "フローを作る 自動化を作る 新しいワークフロー"),
    hints=Hints(destructive=False),
    minimal=lambda full: brief(full, "id", "name", "active"),
    done="Workflow created",
    guidance=_after_creating,
    examples=[
        Example(
            "A workflow of one node",
            {
                "name": "Hello",
                "nodes": [
                    {
                        "name": "Start",
                        "type": "n8n-nodes-base.manualTrigger",
                        "typeVersion": 1,
                        "position": [0, 0],
                        "parameters": {},
                    }
                ],
                "connections": {},
                "settings": {},
            },
            shown_only=True,
        )
    ],
    output_schema=CHANGED,
)
async def create_workflow(
    ctx: Context,
    name: Annotated[Name, "Name of the workflow", Says("Workflow name is required, with at most 128 characters")],
    nodes: Annotated[Nodes, "Its nodes"],
    connections: Annotated[Connections, "By source node: {main: [[{node, type: main, index: 0}]]}"],
    settings: Annotated[Settings, "Its settings; may be {}"],
    active: Annotated[bool | None, "Ignored: use activate_workflow"] = None,
    tags: Annotated[list[str] | None, "Ignored"] = None,
) -> dict[str, Any]:
    """Create a workflow; activate_workflow makes it active."""
    body, warnings = drafts.created(name, nodes, connections, settings)
    warnings += await heavy.by_size(body, validation.check, {}, body)
    return await create(ctx, body, [*warnings, *drafts.ignored(active=active, tags=tags, now_active=False)])


@pack.tool(
    title="Update workflow",
    category="workflows",
    tags=_TAGS,
    keywords=("change a flow, rename an automation, edit", "フローを変える 名前を変える 編集"),
    hints=Hints(destructive=True, idempotent=True),
    minimal=lambda full: brief(full, "id", "name", "previousState"),
    done="Workflow updated",
    guidance=after_updating,
    examples=[
        Example(
            "Change one of its two nodes",
            {
                "id": "TanEWv6Q7n5v83dy",
                "nodes": [{"name": "Webhook"}, {"name": "Sum", "parameters": {"jsCode": "return $input.all();"}}],
            },
            shown_only=True,
        ),
    ],
    output_schema=CHANGED,
)
async def update_workflow(
    ctx: Context,
    workflow_id: WorkflowId,
    name: Annotated[Name | None, "New name"] = None,
    nodes: Annotated[
        ChangedNodes | None,
        "All nodes to keep or add. For an existing one, the name or id is enough: omitted fields stay, parameters "
        "replace all old ones, null removes any other field",
    ] = None,
    connections: Annotated[Connections | None, "All connections"] = None,
    settings: Annotated[Settings | None, "Settings to change"] = None,
    confirm_removed: Annotated[
        list[str] | None,
        Field(alias="confirmRemoved"),
        "Nodes that may be deleted or lose all parameters",
    ] = None,
    restore: Annotated[
        str | None,
        Field(min_length=1, max_length=64),
        "Handle of previousState, or version of list_workflow_versions, to restore; send it alone",
    ] = None,
    active: Annotated[bool | None, "Ignored: use activate_workflow"] = None,
    tags: Annotated[list[str] | None, "Ignored"] = None,
) -> dict[str, Any]:
    """Update a workflow: what is omitted stays unchanged.

    To change one node, send its changed fields, and the name of every other node.
    """
    parts = {"name": name, "nodes": nodes, "connections": connections, "settings": settings}
    if restore is not None and any(part is not None for part in parts.values()):
        problem = Problem("/restore", "restore replaces the whole workflow: omit name, nodes, connections and settings")
        raise InvalidArgumentsError(problems=[problem])
    async with turn(ctx, workflow_id):
        current = await fetch_for_update(ctx, workflow_id)
        warnings = drafts.ignored(active=active, tags=tags, now_active=current.get("active") is True)
        if restore is not None:
            state = await previous.saved_state(ctx, current, workflow_id, restore)
            return await replace(ctx, current, workflow_id, drafts.restored(state), warnings)
        if all(part is None for part in parts.values()):
            return _answer(current, [*warnings, "There was nothing to change."])
        change = drafts.changed(current, parts)
        drafts.confirm(change, confirm_removed or [])
        found = await heavy.by_size(change.body, validation.check, current, change.body)
        return await replace(ctx, current, workflow_id, change.body, [*change.warnings, *found, *warnings])


def _after_deleting(data: dict[str, Any]) -> dict[str, str]:
    if handle := as_map(data.get("previousState")).get("handle"):
        return {
            "message": "n8n cannot restore it. The example reads it for create_workflow, which makes a new one.",
            "example": f"read_result(id: {quoted(handle)}, pointer: '/workflowBefore')",
        }
    return {
        "message": "It cannot be restored. list_workflows shows the remaining ones.",
        "example": "list_workflows(limit: 20)",
    }


@pack.tool(
    title="Delete workflow",
    category="workflows",
    tags=(*_TAGS, "delete"),
    keywords=(
        "get rid of an automation, obsolete, no longer needed, throw away",
        "フローを捨てる 不要な自動化 使わなくなった",
    ),
    hints=Hints(destructive=True, idempotent=True),
    done="Workflow deleted",
    guidance=_after_deleting,
    examples=[Example("Delete a workflow", {"id": "TanEWv6Q7n5v83dy"}, shown_only=True)],
    output_schema={
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "previousState": {"type": "object"},
            "warnings": {"type": "array", "items": {"type": "string"}},
            "_guidance": {"type": "object"},
        },
        "required": ["id"],
    },
)
async def delete_workflow(ctx: Context, workflow_id: WorkflowId) -> dict[str, Any]:
    """Delete a workflow for good."""
    before = await _before_deleting(ctx, workflow_id)
    again = False
    for wait in (*_UNPUBLISHING, None):
        try:
            await ctx.http.delete("workflows", workflow_id, operation="delete workflow", resource="Workflow")
            break
        except NotFoundError:
            # It existed at first: the attempt that n8n reported as failed has deleted it.
            if again:
                break
            raise
        except ApiError as error:
            if error.context.get("statusCode") not in _PASSING:
                raise
            state = await _deletion_state(ctx, workflow_id)
            if state == "gone":
                break
            if state != "off" or wait is None:
                raise
        again = True
        await asyncio.sleep(wait)
    warnings = {"warnings": before.warnings} if before.warnings else {}
    return {"id": workflow_id, **before.answer_part, **warnings}


async def _before_deleting(ctx: Context, workflow_id: str) -> previous.Before:
    """Raises: NotFoundError."""
    try:
        current = await ctx.http.get("workflows", workflow_id, operation="delete workflow", resource="Workflow")
    except ApiError as error:
        if error.context.get("statusCode") != 403:
            raise
        return previous.Before(ctx, workflow_id, {}, not_kept="n8n does not let this connection read it")
    return await previous.stored(ctx, workflow_id, as_map(current))


async def _deletion_state(ctx: Context, workflow_id: str) -> Literal["gone", "off", "on or unknown"]:
    """The state of a workflow that n8n refused to delete. One that is off can be deleted, whatever reason n8n gave."""
    try:
        workflow = await ctx.http.get("workflows", workflow_id, operation="get workflow", resource="Workflow")
    except NotFoundError:
        return "gone"
    except ToolError:
        return "on or unknown"
    return "off" if as_map(workflow).get("active") is False else "on or unknown"


# ---- activate and deactivate


def _switched_guidance(data: dict[str, Any]) -> dict[str, str]:
    if data.get("active"):
        return {
            "message": "Its triggers are active now. A webhook may take a moment until it can be called.",
            "example": f"list_executions(workflowId: {quoted(str(data['id']))})",
        }
    return {
        "message": "Its triggers have stopped; running executions continue.",
        "example": f"activate_workflow(id: {quoted(str(data['id']))})",
    }


async def _switch(ctx: Context, workflow_id: str, verb: str, *, active: bool) -> dict[str, Any]:
    operation = f"{verb} workflow"
    with in_its_words(operation):
        response = await ctx.http.post(
            "workflows", workflow_id, verb, operation=operation, resource="Workflow", json={}
        )
    if response.data is None:
        return {"id": workflow_id, "active": active, "warnings": [response.warning]}
    return whole(as_map(response.data))


@pack.tool(
    title="Activate workflow",
    category="workflows",
    tags=(*_TAGS, "run"),
    keywords=(
        "switch on, go live, put into production, start by itself, schedule",
        "オンにする 本番で動かす 自動で始まる 起動 稼働",
    ),
    # Its nodes may delete data: a caller without destructive tools could otherwise create such a workflow and start it.
    hints=Hints(destructive=True, idempotent=True),
    minimal=lambda full: brief(full, "id", "name", "active"),
    done="Workflow activated",
    guidance=_switched_guidance,
    examples=[Example("Switch a workflow on", {"id": "TanEWv6Q7n5v83dy"}, shown_only=True)],
    output_schema=CHANGED,
)
async def activate_workflow(ctx: Context, workflow_id: WorkflowId) -> dict[str, Any]:
    """Activate a workflow: its triggers, webhooks and schedules start."""
    return await _switch(ctx, workflow_id, "activate", active=True)


@pack.tool(
    title="Deactivate workflow",
    category="workflows",
    tags=(*_TAGS, "run"),
    keywords=(
        "switch off, take offline, pause, must not fire, maintenance",
        "オフにする 一時停止 動かないようにする 止めておく 休止",
    ),
    # Requests to its webhooks are lost while it is off.
    hints=Hints(destructive=True, idempotent=True),
    minimal=lambda full: brief(full, "id", "name", "active"),
    done="Workflow deactivated",
    guidance=_switched_guidance,
    examples=[Example("Switch a workflow off", {"id": "TanEWv6Q7n5v83dy"}, shown_only=True)],
    output_schema=CHANGED,
)
async def deactivate_workflow(ctx: Context, workflow_id: WorkflowId) -> dict[str, Any]:
    """Deactivate a workflow: its triggers, webhooks and schedules stop."""
    return await _switch(ctx, workflow_id, "deactivate", active=False)
