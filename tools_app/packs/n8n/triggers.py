"""Run a workflow through its webhook, form or chat trigger, and wait for the execution: n8n's API cannot start one."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from pydantic import Field

from tools_app.packs.n8n import WorkflowId, pack
from tools_app.packs.n8n.lists import number_of
from tools_app.packs.n8n.originals import as_shown
from tools_app.packs.n8n.runs import as_list, as_map
from tools_app.packs.n8n.secrecy import readable, without_secrets
from tools_app.packs.n8n.sizes import fitted, words
from tools_app.packs.n8n.summary import quoted
from tools_app.packs.n8n.workflows import fetched
from tools_app.sdk.context import Context
from tools_app.sdk.errors import ConflictError, InvalidArgumentsError, Problem, ToolError, ToolTimeoutError
from tools_app.sdk.examples import Example
from tools_app.sdk.hints import Hints

_OPERATION: Final = "run workflow"
_WEBHOOK: Final = "n8n-nodes-base.webhook"
_FORM: Final = "n8n-nodes-base.formTrigger"
_CHAT: Final = "@n8n/n8n-nodes-langchain.chatTrigger"
_KINDS: Final = (_WEBHOOK, _FORM, _CHAT)
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
# n8n 2 serves a webhook a moment after it has said that the workflow is active. Retry delays in seconds:
_REGISTERING: Final = (0.5, 1.0, 2.0)
# Seconds in which an execution that has been answered is listed.
_LISTED_WITHIN: Final = 5.0
_POLL: Final = (0.2, 0.3, 0.5, 1.0)
_MOST_BODY: Final = 3_000
_UNFINISHED: Final = frozenset({"new", "running"})


@dataclass(frozen=True, slots=True)
class _Call:
    """The request that starts a workflow."""

    method: str
    path: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)


def _guidance(data: dict[str, Any]) -> dict[str, str]:
    if not data["id"]:
        one = quoted(str(data["workflowId"]))
        return {"message": "list_executions shows its outcome.", "example": f"list_executions(workflowId: {one})"}
    tool = "get_execution" if data["status"] in ("success", "new", "running", "waiting") else "explain_execution"
    return {"message": f"{tool} shows the result.", "example": f"{tool}(id: {quoted(data['id'])})"}


@pack.tool(
    title="Run workflow",
    category="executions",
    tags=("n8n", "workflow", "execution", "run"),
    keywords=(
        "start an automation now, trigger, execute, test a flow, call its webhook, submit its form, chat",
        "フローを実行する 今すぐ動かす 起動する テスト実行",
    ),
    # Its nodes may delete data.
    hints=Hints(destructive=True),
    timeout=120,
    done="Workflow run",
    guidance=_guidance,
    examples=[Example("Call its webhook", {"id": "TanEWv6Q7n5v83dy", "data": {"order": 7}}, shown_only=True)],
    output_schema={
        "type": "object",
        "properties": {
            "id": {"type": ["string", "null"], "description": "Of the execution"},
            "workflowId": {"type": "string"},
            "status": {"type": ["string", "null"]},
            "response": {"type": ["object", "null"]},
            "warnings": {"type": "array", "items": {"type": "string"}},
            "_guidance": {"type": "object"},
        },
        "required": ["id", "status", "response"],
    },
)
async def run_workflow(
    ctx: Context,
    workflow_id: WorkflowId,
    data: Annotated[
        dict[str, Any] | None, "Body or query of the webhook, fields of the form by label, or {chatInput}"
    ] = None,
    trigger: Annotated[str, Field(max_length=256), "Name of the trigger, if there are several"] = "",
    wait: Annotated[int, Field(ge=1, le=110), "Seconds to wait for the end of the execution"] = 60,
) -> dict[str, Any]:
    """Run an active workflow through its webhook, form or chat trigger: n8n's API starts no other."""
    workflow = await fetched(ctx, workflow_id, _OPERATION)
    call = _call(workflow, workflow_id, trigger, data or {})
    deadline = time.monotonic() + min(wait, max(1.0, ctx.remaining() - 5))
    before = max([number_of(each) for each in await _executions(ctx, workflow_id)], default=0)
    response, failure = await _sent(ctx, call, deadline)
    execution, warnings = await _ended(ctx, workflow_id, before, deadline)
    if failure is not None and not execution:
        raise failure
    if not execution:
        warnings.append(
            "n8n lists no execution of this call. It saves only those that the workflow's settings say, and those of "
            "webhooks that answer before the workflow begins a moment later."
        )
    if failure is not None:
        response = {"status": failure.context.get("statusCode"), "body": failure.context.get("errorDetails")}
    return readable(
        {
            "id": str(execution["id"]) if execution else None,
            "workflowId": workflow_id,
            "status": str(execution.get("status")) if execution else None,
            "response": response,
            **({"warnings": warnings} if warnings else {}),
        }
    )


# ---- how it is started


def _call(workflow: Mapping[str, Any], workflow_id: str, name: str, data: Mapping[str, Any]) -> _Call:
    """Raises: ConflictError, InvalidArgumentsError: the workflow cannot be started, or not like this."""
    nodes = [node for node in map(as_map, as_list(workflow.get("nodes"))) if not node.get("disabled")]
    usable = [node for node in nodes if node.get("type") in _KINDS]
    if not usable:
        others = [_name(node) for node in nodes if str(node.get("type")).lower().endswith("trigger")]
        has = f" (it has: {', '.join(repr(each) for each in others[:5])})" if others else ""
        raise ConflictError(
            f"Workflow '{workflow_id}' has no webhook, form or chat trigger{has}, and n8n's API starts no other",
            context={"field": "id"},
            next_step="Run it in n8n's editor, or add a webhook. retry_execution repeats a failed run.",
        )
    chosen = [node for node in usable if name in ("", str(node.get("name")), _name(node), str(node.get("id")))]
    if len(chosen) != 1:
        names = ", ".join(repr(_name(node)) for node in usable[:10])
        message = (
            f"trigger: there is no trigger {words(name, 100)!r}" if name else "trigger: there are several triggers"
        )
        raise InvalidArgumentsError(problems=[Problem("/trigger", message)], next_step=f"Name one of {names}.")
    if workflow.get("active") is not True:
        raise ConflictError(
            f"Workflow '{workflow_id}' is not active: n8n starts it only in its editor",
            context={"field": "id"},
            next_step=f"activate_workflow(id: {quoted(workflow_id)}) starts its triggers. Then run it.",
        )
    return _request(chosen[0], data)


def _request(node: Mapping[str, Any], data: Mapping[str, Any]) -> _Call:
    parameters = as_map(node.get("parameters"))
    options = as_map(parameters.get("options"))
    if parameters.get("authentication", "none") != "none":
        raise _refused(node, "requires authentication, which this connection does not have")
    kind = node.get("type")
    if kind == _CHAT:
        if parameters.get("public") is not True:
            raise _refused(node, "is not public")
        body = {"action": "sendMessage", "sessionId": str(uuid.uuid4()), "chatInput": ""} | dict(data)
        return _Call("POST", ("webhook", str(node.get("webhookId")), "chat"), {"json": body})
    path = str(options.get("path") or parameters.get("path") or node.get("webhookId") or "")
    segments = [each for each in path.split("/") if each]
    if any(each.startswith((":", "=")) for each in segments):
        raise _refused(node, f"has the path {words(path, 100)!r}, whose parts are not fixed")
    if kind == _FORM:
        return _Call("POST", ("form", *segments), _form(node, as_map(parameters.get("formFields")), data))
    methods = parameters.get("httpMethod", "GET")
    method = str(methods[0] if isinstance(methods, list) and methods else methods).upper()
    if method in _WITH_BODY:
        return _Call(method, ("webhook", *segments), {"json": dict(data)})
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in data.items()}
    return _Call(method, ("webhook", *segments), {"params": texts, "writes": True})


def _form(node: Mapping[str, Any], fields: Mapping[str, Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a form as n8n's page sends them: multipart, each under its number."""
    labels = [str(as_map(each).get("fieldLabel")) for each in as_list(fields.get("values"))]
    if unknown := [key for key in data if key not in labels]:
        message = f"data: the form {_name(node)!r} has no field {words(unknown[0], 100)!r}"
        listed = ", ".join(repr(words(as_shown(label), 100)) for label in labels[:20])
        raise InvalidArgumentsError(problems=[Problem("/data", message)], next_step=f"Its fields: {listed}.")
    boundary = uuid.uuid4().hex
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="field-{labels.index(key)}"\r\n\r\n'
        f"{value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}\r\n"
        for key, value in data.items()
    ]
    content = f"{''.join(parts)}--{boundary}--\r\n".encode()
    return {"content": content, "content_type": f"multipart/form-data; boundary={boundary}"}


def _refused(node: Mapping[str, Any], reason: str) -> ConflictError:
    return ConflictError(
        f"The trigger {_name(node)!r} cannot be called: it {reason}",
        context={"field": "trigger"},
        next_step="Run the workflow in n8n's editor, or through another trigger.",
    )


def _name(node: Mapping[str, Any]) -> str:
    return words(as_shown(str(node.get("name"))), 100)


# ---- what comes of it


async def _sent(ctx: Context, call: _Call, deadline: float) -> tuple[dict[str, Any] | None, ToolError | None]:
    """The response of the trigger, or its error: the execution may have begun all the same."""
    for wait in (*_REGISTERING, None):
        try:
            response = await ctx.http.request(
                *(call.method, *call.path),
                operation=_OPERATION,
                reads="text",
                outside=True,
                timeout=max(1.0, deadline - time.monotonic()),
                **call.options,
            )
        except ToolTimeoutError as error:
            return None, error
        except ToolError as error:
            # A workflow can answer 404 itself, and must not run again for that.
            if wait is None or "is not registered" not in str(error.context.get("errorDetails")):
                return None, error
            await asyncio.sleep(wait)
        else:
            return {"status": response.status, "body": _body(response.data)}, None
    raise AssertionError("the last attempt returns")


def _body(text: Any) -> Any:
    if not isinstance(text, str):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = text
    return fitted(without_secrets(value), _MOST_BODY)


async def _ended(ctx: Context, workflow_id: str, before: int, deadline: float) -> tuple[Mapping[str, Any], list[str]]:
    """The execution that has begun since `before`, once it has ended or waits; empty if n8n lists none."""
    began = time.monotonic()
    for attempt in range(1_000):
        new = [each for each in await _executions(ctx, workflow_id) if number_of(each) > before]
        first = min(new, key=number_of, default=None)
        now = time.monotonic()
        if first is not None and (first.get("status") not in _UNFINISHED or now >= deadline):
            more = len(new) - 1
            return first, [f"{more} more began at the same time; this may not be the one."] if more else []
        if now >= deadline or (first is None and now - began >= _LISTED_WITHIN):
            break
        await asyncio.sleep(_POLL[min(attempt, len(_POLL) - 1)])
    return {}, []


async def _executions(ctx: Context, workflow_id: str) -> list[Mapping[str, Any]]:
    """The newest executions of a workflow: n8n lists running ones, and n8n 1 waiting ones, only separately."""
    found: dict[int, Mapping[str, Any]] = {}
    for status in (None, "running"):
        params = {"workflowId": workflow_id, "status": status, "limit": 10}
        page = as_map(await ctx.http.get("executions", operation="list executions", params=params))
        found |= {number_of(each): each for each in map(as_map, as_list(page.get("data")))}
    return list(found.values())
