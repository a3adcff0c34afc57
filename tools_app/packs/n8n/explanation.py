"""Why an execution ended as it did, in at most 1,000 tokens: cause, input and next calls."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tools_app.packs.n8n.flow import Flow
from tools_app.packs.n8n.node_data import default_run, error_passed_on, shown_item
from tools_app.packs.n8n.runs import Execution, Run, as_map
from tools_app.packs.n8n.secrecy import error_of, without_stack
from tools_app.packs.n8n.sizes import SUMMARY, fitted, size, words
from tools_app.packs.n8n.summary import quoted

_MOST_ERROR: Final = 800
_MOST_ITEM: Final = 500
_MOST_LISTED: Final = 8
_NAME: Final = 120
# Bytes of the calls in `lookAt`: there is room for one with the longest node name (about 800 bytes).
_MOST_CALL: Final = 260
_MOST_FIRST: Final = 900
# Most helpful first; the rest is in get_execution_by_node.
_TELLING: Final = (
    *("message", "description", "nodeCause", "parameter", "httpCode", "lineNumber", "name", "messages"),
    *("request", "reason"),
)
# How n8n's Code node names the failed item.
_FOR_ITEM: Final = re.compile(r"\[line \d+, for item (\d{1,9})\]$")

OUTPUT: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "executionId": {"type": "string"},
        "workflowId": {"type": "string"},
        "workflowName": {"type": "string"},
        "status": {"enum": ["success", "error", "waiting", "running", "canceled"]},
        "cause": {"type": "string"},
        "failedNode": {"type": ["object", "null"]},
        "error": {"type": ["object", "null"]},
        "input": {"type": ["object", "null"]},
        "emptyNodes": {"type": "array", "description": "Nodes that ran but output no items"},
        "notReached": {"type": "array", "description": "Nodes that did not run because no item reached them"},
        "lookAt": {"type": "array", "items": {"type": "string"}},
        "_guidance": {"type": "object"},
    },
    "required": ["executionId", "status", "cause", "failedNode", "error", "input", "emptyNodes", "lookAt"],
}


def explanation(execution: Execution) -> dict[str, Any]:
    """The failing node, its error and input, the nodes without output, and what to look at."""
    run = _failing(execution)
    error = _error(execution, run)
    flow = Flow(execution)
    calls = _calls(execution, run, flow)
    answer: dict[str, Any] = {
        "executionId": execution.id,
        "workflowId": words(execution.workflow_id, 100),
        "workflowName": words(execution.workflow_name, _NAME),
        "status": execution.status,
        "cause": words(_cause(execution, run, error, flow), 400),
        "failedNode": _node(execution, run) if run else None,
        "error": error,
        "input": _input(execution, run) if run else None,
        "emptyNodes": [words(node, _NAME) for node in flow.empty[:_MOST_LISTED]],
        **({"notReached": not_reached} if (not_reached := _not_reached(execution, flow)) else {}),
        "lookAt": calls,
        "_guidance": _guidance(execution, run, calls),
    }
    for key in ("input", "emptyNodes", "notReached", "lookAt", "error"):
        # Each of these is short by itself; together they are shortened in this order.
        if key in answer and (over := size(answer) - SUMMARY) > 0:
            answer[key] = _less(answer[key], max(60, size(answer[key]) - over), keep=key == "lookAt")
    return answer


def _less(value: Any, most: int, *, keep: bool) -> Any:
    if isinstance(value, list):
        while len(value) > keep and size(value) > most:
            value = value[:-1]
        return value
    less = fitted(value, most)
    return less if isinstance(less, dict) else {"…": "too large to be shown here"}


def _failing(execution: Execution) -> Run | None:
    """The run that ended it: n8n records the last node, and marks failed runs."""
    failed = [run for run in execution.steps if run.outcome == "error"]
    if execution.status == "success":
        # After these the workflow continued.
        return next((run for run in reversed(failed) if run.node == execution.last_node), None)
    return next((run for run in reversed(failed) if run.node == execution.last_node), failed[-1] if failed else None)


def _error(execution: Execution, run: Run | None) -> dict[str, Any] | None:
    error = run.error if run is not None and run.error is not None else execution.error
    clean = error_of(error, execution.secrets)
    if isinstance(clean, str):
        clean = {"message": clean}
    if not isinstance(clean, dict):
        return None
    flat = {**clean, **as_map(clean.get("context"))}
    details = {key: _page(flat[key]) for key in _TELLING if key in flat}
    less = fitted(details, _MOST_ERROR)
    return less if isinstance(less, dict) else {"message": words(str(clean.get("message")), 300)}


def _page(value: Any) -> Any:
    """Shorten HTML pages of upstreams to their beginning."""
    return words(value, 200) if isinstance(value, str) and "<html" in value.lower() else value


def _node(execution: Execution, run: Run) -> dict[str, Any]:
    node: dict[str, Any] = {
        "nodeName": words(run.node, 240),
        "nodeType": words(execution.type_of(run.node), _NAME),
        "runIndex": run.index,
    }
    if execution.nodes.get(run.node, {}).get("retryOnFail"):
        node["retryOnFail"] = True
    return node


def _input(execution: Execution, run: Run) -> dict[str, Any] | None:
    items = list(execution.inputs(run))
    sources = [words(source.node, _NAME) for source in run.sources][:_MOST_LISTED]
    if not items and not sources:
        return None
    summary: dict[str, Any] = {"from": sources, "items": len(items)}
    if items:
        at = _item_index(run, len(items))
        item = fitted(shown_item(*items[at or 0], execution.secrets), _MOST_ITEM)
        summary |= {"itemIndex": at, "firstItem" if at is None else "item": item}
    return summary


def _item_index(run: Run, count: int) -> int | None:
    """The index of the failed item; None where n8n does not report it."""
    error = as_map(run.error)
    index = as_map(error.get("context")).get("itemIndex", error.get("itemIndex"))
    if index is None and (match := _FOR_ITEM.search(str(error.get("message") or ""))):
        index = int(match[1])
    if isinstance(index, int) and not isinstance(index, bool) and 0 <= index < count:
        return index
    return 0 if count == 1 else None


def _not_reached(execution: Execution, flow: Flow) -> list[str]:
    """Only for successful executions: after a failure the following nodes do not run anyway."""
    nodes = flow.not_reached if execution.status == "success" else []
    return [words(node, _NAME) for node in nodes[:_MOST_LISTED]]


def _cause(execution: Execution, run: Run | None, error: Mapping[str, Any] | None, flow: Flow) -> str:
    message = without_stack(str((error or {}).get("message") or "")).strip()
    where = f"the node {words(run.node, _NAME)!r} failed" if run else "no node is marked as failed"
    match execution.n8n_status:
        case "success":
            return _success(execution, flow)
        case "running" | "new":
            return "It has not ended yet: n8n reports errors only at the end."
        case "waiting":
            node = next((each.node for each in reversed(execution.steps) if each.waits), execution.last_node)
            return f"It did not fail: it waits at the node {words(node, _NAME)!r} until {_until(execution)}."
        case "canceled":
            return _canceled(execution, run)
        case "crashed":
            return f"n8n itself crashed, most likely out of memory, while {where.removesuffix(' failed')} ran."
    text = f"{where[0].upper()}{where[1:]}"
    if execution.reduced and not message:
        kind = f" with {(error or {}).get('name')}" if (error or {}).get("name") else ""
        return (
            f"{text}{kind}. The error message is unknown: the execution is too large for the hub, which asked n8n to "
            "omit the content of items and errors. n8n's editor shows it."
        )
    return f"{text}: {message}" if message else f"{text}."


def _success(execution: Execution, flow: Flow) -> str:
    """What may be unexpected in a successful execution."""
    if continued := _continued(execution):
        messages = {run.node: f"{words(run.node, _NAME)}{_message_of(run)}" for run in reversed(continued)}
        return "n8n reports a success, but nodes that are set to continue passed errors on as data: " + ", ".join(
            reversed(list(messages.values())[-_MOST_LISTED:])
        )
    fine = "It did not fail: n8n reports a success."
    if missed := flow.missed:
        sources, targets = _names(source for source, _ in missed), _names(target for _, target in missed)
        return f"{fine} But no item reached {targets}: {sources} passed none on."
    if flow.empty:
        return f"{fine} But these nodes output no items: {_names(flow.empty)}."
    return fine


def _names(nodes: Iterable[str]) -> str:
    return ", ".join(repr(words(node, _NAME)) for node in list(dict.fromkeys(nodes))[:_MOST_LISTED])


def _message_of(run: Run) -> str:
    error = run.error if run.error is not None else error_passed_on(run)
    message = error if isinstance(error, str) else as_map(error).get("message")
    return f" ({words(without_stack(str(message)), 100)})" if message else ""


def _continued(execution: Execution) -> list[Run]:
    """The failed runs after which the workflow continued."""
    return [
        run
        for run in execution.steps
        if run.outcome == "error" or (execution.goes_on_after(run.node) and error_passed_on(run) is not None)
    ]


def _until(execution: Execution) -> str:
    till = str(execution.record.get("waitTill") or "")
    return "an external event resumes it" if not till or till.startswith("3000") else till


def _canceled(execution: Execution, run: Run | None) -> str:
    at = run.node if run else execution.last_node
    place = f" while {words(at, _NAME)!r} ran" if run else f" after {words(at, _NAME)!r}" if at else ""
    limit = execution.limit
    if limit and (execution.duration or 0) >= limit * 1000:
        return f"n8n canceled it{place}: it took longer than the workflow's timeout of {limit:g} s."
    if as_map(execution.error).get("reason") == "manual":
        return f"It was canceled{place}: by a person, or over the API."
    return f"It was canceled{place}: by a person, over the API, or by n8n's own time limit."


def _calls(execution: Execution, run: Run | None, flow: Flow) -> list[str]:
    """What to look at next, as complete calls, the most helpful first."""
    calls = []
    if execution.status == "running" or execution.n8n_status == "new":
        return [f"get_execution(id: {quoted(execution.id)})"]
    if run is not None:
        if run.sub_execution:
            calls.append(f"explain_execution(id: {quoted(run.sub_execution)})")
        calls.append(_by_node(execution, run))
        calls += [_by_node(execution, feeder) for feeder in execution.feeders(run)][:2]
        calls.append(f"get_workflow_node(workflowId: {quoted(execution.workflow_id)}, nodeId: {quoted(run.node)})")
    elif execution.status == "success":
        calls += [_by_node(execution, each) for each in _continued(execution)[:3]]
        suspects = dict.fromkeys([*(source for source, _ in flow.missed), *flow.empty])
        calls += [_by_node(execution, execution.runs[node][-1]) for node in suspects if execution.runs[node]][:3]
    elif execution.last_node in execution.runs:
        last = execution.runs[execution.last_node]
        calls += [_by_node(execution, last[default_run(execution, execution.last_node)])] if last else []
    if execution.parent:
        calls.append(f"explain_execution(id: {quoted(execution.parent)})")
    if earlier := execution.record.get("retryOf"):
        calls.append(f"explain_execution(id: {quoted(str(earlier))})")
    if execution.reduced:
        calls = [call for call in calls if not call.startswith("get_execution_by_node")]
    calls = [call for call in dict.fromkeys(calls) if size(call) <= _MOST_FIRST]
    calls = [call for number, call in enumerate(calls) if number == 0 or size(call) <= _MOST_CALL][:5]
    if execution.redacted or execution.too_large or not calls:
        calls.append(f"get_workflow(id: {quoted(words(execution.workflow_id, 100))}, raw: true)")
    return calls[:5]


def _by_node(execution: Execution, run: Run) -> str:
    which = f", runIndex: {run.index}" if len(execution.runs[run.node]) > 1 else ""
    return f"get_execution_by_node(id: {quoted(execution.id)}, nodeName: {quoted(run.node)}{which})"


def _guidance(execution: Execution, run: Run | None, calls: list[str]) -> dict[str, str]:
    if run is None:
        example = calls[0] if size(calls[0]) <= _MOST_CALL else f"get_execution(id: {quoted(execution.id)})"
        return {"message": "lookAt lists the calls with more details.", "example": example}
    if execution.reduced:
        node = f"nodeId: {quoted(words(run.node, _NAME))}"
        return {
            "message": "Its items cannot be read here. get_workflow_node has the failed node's current parameters.",
            "example": f"get_workflow_node(workflowId: {quoted(words(execution.workflow_id, 100))}, {node})",
        }
    return {
        "message": "Compare the failed node's parameters with its input. edit_workflow changes the workflow; "
        "retry_execution with loadWorkflow: true then runs the changed workflow.",
        "example": f"retry_execution(id: {quoted(execution.id)}, loadWorkflow: true)",
    }
