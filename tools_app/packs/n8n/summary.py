"""What an execution was, in at most a thousand tokens, however large it is: the documents' ExecutionSummary."""

from __future__ import annotations

from typing import Any, Final

from tools_app.packs.n8n.runs import Execution
from tools_app.packs.n8n.sizes import SUMMARY, size, words

MOST_NODES: Final = 20
_MOST_NAME: Final = 240
_MOST_TYPE: Final = 120
# Room to say how many there are.
_TOTAL: Final = 40

ADVICE: Final = "Use get_execution_by_node tool to fetch detailed data for a specific node"

OUTPUT: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "workflowId": {"type": "string"},
        "workflowName": {"type": "string"},
        "status": {"enum": ["success", "error", "waiting", "running", "canceled"]},
        "startedAt": {"type": "string"},
        "stoppedAt": {"type": "string"},
        "duration": {"type": "integer", "description": "Milliseconds"},
        "statistics": {
            "type": "object",
            "properties": {
                name: {"type": "integer"}
                for name in ("totalNodes", "executedNodes", "successfulNodes", "failedNodes", "totalItemsProcessed")
            },
        },
        "availableNodes": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "nodeName": {"type": "string"},
                    "nodeType": {"type": "string"},
                    "status": {"enum": ["success", "error"]},
                },
            },
        },
        "availableNodesTotal": {"type": "integer", "description": "Where more ran than are listed"},
        "_guidance": {"type": "object"},
    },
    "required": ["id", "workflowId", "workflowName", "status", "statistics", "availableNodes", "_guidance"],
}


def summary(execution: Execution) -> dict[str, Any]:
    """Nodes are listed as they ran; where not all fit, those that failed and what ran before them come first.

    What n8n does not know is left out, as in the documents: most executions are small, and every word counts.
    """
    executed = len(execution.runs)
    failed = sum(execution.outcome(node) == "error" for node in execution.runs)
    told: dict[str, Any] = {
        "id": execution.id,
        "workflowId": words(execution.workflow_id, 100),
        "workflowName": words(execution.workflow_name, _MOST_NAME),
        "status": execution.status,
        **_times(execution),
        "statistics": {
            # Those that are switched off, n8n counts among those that ran where an item passed through them.
            "totalNodes": max(sum(not node.get("disabled") for node in execution.nodes.values()), executed),
            "executedNodes": executed,
            "successfulNodes": executed - failed,
            "failedNodes": failed,
            "totalItemsProcessed": sum(run.items for run in execution.steps),
        },
        "availableNodes": [],
        "_guidance": {},
    }
    nodes = _nodes(execution)
    told["_guidance"] = _guidance(execution, nodes)
    left = SUMMARY - size(told) - _TOTAL
    chosen: set[int] = set()
    for number in _by_interest(nodes):
        if len(chosen) == MOST_NODES:
            break
        if (needed := size(nodes[number]) + 1) <= left:
            chosen.add(number)
            left -= needed
    told["availableNodes"] = [node for number, node in enumerate(nodes) if number in chosen]
    if len(told["availableNodes"]) < executed:
        told["availableNodesTotal"] = executed
    return told


def _times(execution: Execution) -> dict[str, Any]:
    told = {name: execution.told.get(name) for name in ("startedAt", "stoppedAt")}
    known: dict[str, Any] = {name: words(value, 40) for name, value in told.items() if isinstance(value, str)}
    return known | ({"duration": execution.duration} if execution.duration is not None else {})


def _nodes(execution: Execution) -> list[dict[str, str]]:
    return [
        {
            "nodeName": node,
            "nodeType": words(execution.type_of(node), _MOST_TYPE),
            "status": execution.outcome(node),
        }
        for node in execution.runs
    ]


def _by_interest(nodes: list[dict[str, str]]) -> list[int]:
    """Numbers of nodes: those that failed, the first, those before a failure from there backwards, then the others."""
    failed = [number for number, node in enumerate(nodes) if node["status"] == "error"]
    before = range(failed[0] - 1, 0, -1) if failed else range(0)
    return list(dict.fromkeys([*failed, *([0] if nodes else []), *before, *range(len(nodes))]))


def _guidance(execution: Execution, nodes: list[dict[str, str]]) -> dict[str, str]:
    said = _situation(execution)
    names = [nodes[number]["nodeName"] for number in _by_interest(nodes)]
    short = next((name for name in names if size(name) <= _MOST_NAME), None)
    if short is None or execution.reduced:
        example = f"explain_execution(id: {quoted(execution.id)})"
        return {"message": f"{said} explain_execution says what is known.".lstrip(), "example": example}
    example = f"get_execution_by_node(id: {quoted(execution.id)}, nodeName: {quoted(short)})"
    why = "" if execution.status == "success" else "; explain_execution says why"
    return {"message": f"{said} {ADVICE}{why}".lstrip(), "example": example}


def _situation(execution: Execution) -> str:
    """What the figures alone would not tell."""
    if execution.too_large:
        return "n8n does not show the data of this execution, because there is too much of it: no node is listed."
    if execution.reduced:
        return "There is too much of this execution to be read whole: items are counted, and cannot be looked at."
    if execution.redacted:
        return "n8n has redacted the data of this execution: items are counted, and empty."
    match execution.n8n_status:
        case "crashed":
            return "n8n crashed while this ran, and has put together what was left: items are not the real ones."
        case "running":
            return "It is still running: n8n tells of nodes when it has ended."
        case "waiting":
            return "It waits at a node, and goes on later."
        case "new":
            return "It has not begun: n8n calls it new."
        case "success" | "error" | "canceled":
            return "" if execution.runs else "n8n has kept no data of its nodes."
        case other:
            return f"n8n calls its status {words(other, 40)!r}."


def quoted(text: str) -> str:
    """As in the documents' examples, and safe whatever a node is called."""
    for plain, written in (("\\", "\\\\"), ("'", "\\'"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        text = text.replace(plain, written)
    return f"'{text}'"
