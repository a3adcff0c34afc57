"""Changes of workflows: creating, updating and deleting them, and switching them on and off."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal
from weakref import WeakValueDictionary

from pydantic import Field

from tools_app.packs.n8n import WorkflowId, drafts, pack, previous
from tools_app.packs.n8n.drafts import ChangedNodes, Connections, Name, Nodes, Settings
from tools_app.packs.n8n.refusals import in_its_words
from tools_app.packs.n8n.runs import mapped
from tools_app.packs.n8n.summary import quoted
from tools_app.packs.n8n.workflows import brief, fetched, fetched_to_change, whole
from tools_app.sdk.context import Context
from tools_app.sdk.errors import ApiError, InvalidArgumentsError, NotFoundError, Problem, ToolError
from tools_app.sdk.examples import Example
from tools_app.sdk.signatures import Says
from tools_app.sdk.tool import Hints

_TAGS: Final = ("n8n", "workflow", "write")
# n8n 2 goes on with switching a workflow off after it has said that it has. Until then it refuses to delete it, or
# fails to. In seconds:
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
        return {"message": "list_workflows shows whether it is there.", "example": "list_workflows(limit: 20)"}
    return {
        "message": "It is not active yet: activate_workflow starts its triggers.",
        "example": f"activate_workflow(id: {quoted(data['id'])})",
    }


def after_updating(data: dict[str, Any]) -> dict[str, str]:
    message = "get_workflow shows what it is now; an active workflow works with the change from now on."
    if handle := mapped(data.get("previousState")).get("handle"):
        return {
            "message": f"{message} The call in the example puts back what was there before.",
            "example": f"update_workflow(id: {quoted(str(data['id']))}, restore: {quoted(handle)})",
        }
    return {"message": message, "example": f"get_workflow(id: {quoted(str(data['id']))}, raw: true)"}


async def create(ctx: Context, body: Mapping[str, Any], warnings: list[str]) -> dict[str, Any]:
    response = await ctx.http.post("workflows", operation="create workflow", resource="Workflow", json=body)
    if response.data is None:
        warnings = [*warnings, response.warning]
        return {"id": None, "name": body["name"], "active": False, "warnings": warnings}
    return _told(mapped(response.data), warnings)


def turn(ctx: Context, workflow_id: str) -> asyncio.Lock:
    """Held from reading a workflow to sending it back: no other call of this process changes it meanwhile."""
    turns: WeakValueDictionary[str, asyncio.Lock] = ctx.http.memory.setdefault(_TURNS, WeakValueDictionary())
    found = turns.get(workflow_id)
    if found is None:
        found = turns[workflow_id] = asyncio.Lock()
    return found


async def replace(
    ctx: Context, current: Mapping[str, Any], workflow_id: str, body: Mapping[str, Any], warnings: list[str]
) -> dict[str, Any]:
    """Send the workflow, which was `current` a moment ago, as it should be. What it was is kept, and told."""
    before = await previous.keep(ctx, workflow_id, current, body)
    warnings = [*warnings, *before.warnings]
    try:
        response = await ctx.http.put(
            "workflows", workflow_id, operation="update workflow", resource="Workflow", json=body
        )
    except ToolError as error:
        await before.after(error, body)
        status = error.context.get("statusCode")
        if not error.next_step and status == 400 and (found := drafts.refused(body["nodes"])):
            error.next_step = (
                f"n8n's API does not take all that is in these nodes: {', '.join(found[:5])}. "
                "update_workflow with nodes in which these are null takes them away."
            )
        raise
    if response.data is None:
        # The change was made, and what was said of it is lost: it can be looked up, or not.
        warnings = [*warnings, response.warning]
        try:
            return _told(await fetched(ctx, workflow_id), warnings) | before.told
        except ToolError:
            return {"id": workflow_id, "name": body["name"], "warnings": warnings} | before.told
    now = mapped(response.data)
    if changed_meanwhile(current, now):
        warnings = [*warnings, "Somebody else changed it meanwhile: what they changed may be lost. Look at it again."]
    return _told(now, warnings) | before.told


def changed_meanwhile(current: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether n8n counts more changes than this one. n8n 1 counts what it does itself to active workflows as well."""
    before, after = current.get("versionCounter"), now.get("versionCounter")
    counts = current.get("active") is not True or "nodeGroups" in current
    return counts and isinstance(before, int) and isinstance(after, int) and after - before > 1


def _told(workflow: Mapping[str, Any], warnings: list[str]) -> dict[str, Any]:
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
    settings: Annotated[Settings, "Its settings; {} will do"],
    active: Annotated[bool | None, "Not taken here: activate_workflow switches it on"] = None,
    tags: Annotated[list[str] | None, "Not taken by n8n"] = None,
) -> dict[str, Any]:
    """Create a workflow. It is not active until activate_workflow."""
    body, warnings = drafts.created(name, nodes, connections, settings)
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
        "All nodes it is to have. Of one that is there, its name or id is enough: fields left out stay, parameters "
        "replace all it had, null takes away another field",
    ] = None,
    connections: Annotated[Connections | None, "All of its connections"] = None,
    settings: Annotated[Settings | None, "Settings to change"] = None,
    confirm_removed: Annotated[
        list[str] | None,
        Field(alias="confirmRemoved"),
        "Names of nodes that may be deleted or lose all parameters",
    ] = None,
    restore: Annotated[
        str | None,
        Field(min_length=1, max_length=64),
        "Alone: handle from previousState; puts that state back",
    ] = None,
    active: Annotated[bool | None, "Not taken here: use activate_workflow"] = None,
    tags: Annotated[list[str] | None, "Not taken by n8n"] = None,
) -> dict[str, Any]:
    """Update a workflow: what is left out stays as it is.

    To change one node, send it with what changes, and of each other node its name.
    """
    given = {"name": name, "nodes": nodes, "connections": connections, "settings": settings}
    if restore is not None and any(part is not None for part in given.values()):
        problem = Problem("/restore", "restore puts back a whole state: send it without name, nodes and the like")
        raise InvalidArgumentsError(problems=[problem])
    async with turn(ctx, workflow_id):
        current = await fetched_to_change(ctx, workflow_id)
        warnings = drafts.ignored(active=active, tags=tags, now_active=current.get("active") is True)
        if restore is not None:
            state = await previous.kept(ctx, workflow_id, restore)
            return await replace(ctx, current, workflow_id, drafts.restored(state), warnings)
        if all(part is None for part in given.values()):
            return _told(current, [*warnings, "There was nothing to change."])
        change = drafts.changed(current, given)
        drafts.confirm(change, confirm_removed or [])
        return await replace(ctx, current, workflow_id, change.body, [*change.warnings, *warnings])


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
    guidance=lambda _: {
        "message": "It is gone, and cannot be brought back. list_workflows shows what is left.",
        "example": "list_workflows(limit: 20)",
    },
    examples=[Example("Delete a workflow", {"id": "TanEWv6Q7n5v83dy"}, shown_only=True)],
    output_schema={
        "type": "object",
        "properties": {"id": {"type": "string"}, "_guidance": {"type": "object"}},
        "required": ["id"],
    },
)
async def delete_workflow(ctx: Context, workflow_id: WorkflowId) -> dict[str, Any]:
    """Delete a workflow for good."""
    again = False
    for wait in (*_UNPUBLISHING, None):
        try:
            await ctx.http.delete("workflows", workflow_id, operation="delete workflow", resource="Workflow")
            break
        except NotFoundError:
            # It was there when this began: what n8n called a failure has deleted it.
            if again:
                break
            raise
        except ApiError as error:
            if error.context.get("statusCode") not in _PASSING:
                raise
            found = await _found(ctx, workflow_id)
            if found == "gone":
                break
            if found != "off" or wait is None:
                raise
        again = True
        await asyncio.sleep(wait)
    return {"id": workflow_id}


async def _found(ctx: Context, workflow_id: str) -> Literal["gone", "off", "on or unknown"]:
    """How a workflow is that n8n would not delete. What is off it will, whatever reason it gave."""
    try:
        found = await ctx.http.get("workflows", workflow_id, operation="get workflow", resource="Workflow")
    except NotFoundError:
        return "gone"
    except ToolError:
        return "on or unknown"
    return "off" if mapped(found).get("active") is False else "on or unknown"


# ---- on and off


def _switched_guidance(data: dict[str, Any]) -> dict[str, str]:
    if data.get("active"):
        return {
            "message": "Its triggers work from now on. A webhook may take a moment until it can be called.",
            "example": f"list_executions(workflowId: {quoted(str(data['id']))})",
        }
    return {
        "message": "Its triggers have stopped; executions under way go on.",
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
    return whole(mapped(response.data))


@pack.tool(
    title="Activate workflow",
    category="workflows",
    tags=(*_TAGS, "run"),
    keywords=(
        "switch on, go live, put into production, start by itself, schedule",
        "オンにする 本番で動かす 自動で始まる 起動 稼働",
    ),
    # What it starts may delete; else a caller that may not destroy could create a workflow that does, and start it.
    hints=Hints(destructive=True, idempotent=True),
    minimal=lambda full: brief(full, "id", "name", "active"),
    done="Workflow activated",
    guidance=_switched_guidance,
    examples=[Example("Switch a workflow on", {"id": "TanEWv6Q7n5v83dy"}, shown_only=True)],
    output_schema=CHANGED,
)
async def activate_workflow(ctx: Context, workflow_id: WorkflowId) -> dict[str, Any]:
    """Activate a workflow: its triggers, webhooks and schedules start to work."""
    return await _switch(ctx, workflow_id, "activate", active=True)


@pack.tool(
    title="Deactivate workflow",
    category="workflows",
    tags=(*_TAGS, "run"),
    keywords=(
        "switch off, take offline, pause, must not fire, maintenance",
        "オフにする 一時停止 動かないようにする 止めておく 休止",
    ),
    # What webhooks are sent meanwhile is lost.
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
