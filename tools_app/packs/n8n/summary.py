"""An execution of any size in at most 1,000 tokens: the documents' ExecutionSummary."""

from __future__ import annotations

from typing import Any, Final

from tools_app.packs.n8n.runs import Execution
from tools_app.packs.n8n.sizes import SUMMARY, size, words

MOST_NODES: Final = 20
_MOST_NAME: Final = 240
_MOST_TYPE: Final = 120
# Bytes for `availableNodesTotal`.
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
        "availableNodesTotal": {"type": "integer", "description": "If more ran than are listed"},
        "_guidance": {"type": "object"},
    },
    "required": ["id", "workflowId", "workflowName", "status", "statistics", "availableNodes", "_guidance"],
}


def summary(execution: Execution) -> dict[str, Any]:
    """List nodes in the order they ran; where not all fit, failed nodes and those before them are preferred.

    Unknown values are omitted, as in the documents: most executions are small, and every token counts.
    """
    executed = len(execution.runs)
    failed = sum(execution.outcome(node) == "error" for node in execution.runs)
    answer: dict[str, Any] = {
        "id": execution.id,
        "workflowId": words(execution.workflow_id, 100),
        "workflowName": words(execution.workflow_name, _MOST_NAME),
        "status": execution.status,
        **_times(execution),
        "statistics": {
            # n8n counts disabled nodes as executed if an item passed through them.
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
    answer["_guidance"] = _guidance(execution, nodes)
    space = SUMMARY - size(answer) - _TOTAL
    chosen_numbers: set[int] = set()
    for number in _by_interest(nodes):
        if len(chosen_numbers) == MOST_NODES:
            break
        if (needed := size(nodes[number]) + 1) <= space:
            chosen_numbers.add(number)
            space -= needed
    answer["availableNodes"] = [node for number, node in enumerate(nodes) if number in chosen_numbers]
    if len(answer["availableNodes"]) < executed:
        answer["availableNodesTotal"] = executed
    return answer


def _times(execution: Execution) -> dict[str, Any]:
    times = {name: execution.record.get(name) for name in ("startedAt", "stoppedAt")}
    valid_times: dict[str, Any] = {name: words(value, 40) for name, value in times.items() if isinstance(value, str)}
    return valid_times | ({"duration": execution.duration} if execution.duration is not None else {})


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
    """Indexes of nodes: failed ones, the first, those before a failure going backwards, then the others."""
    failed = [number for number, node in enumerate(nodes) if node["status"] == "error"]
    before = range(failed[0] - 1, 0, -1) if failed else range(0)
    return list(dict.fromkeys([*failed, *([0] if nodes else []), *before, *range(len(nodes))]))


def _guidance(execution: Execution, nodes: list[dict[str, str]]) -> dict[str, str]:
    situation = _situation(execution)
    names = [nodes[number]["nodeName"] for number in _by_interest(nodes)]
    short = next((name for name in names if size(name) <= _MOST_NAME), None)
    if short is None or execution.reduced:
        example = f"explain_execution(id: {quoted(execution.id)})"
        return {"message": f"{situation} explain_execution says what is known.".lstrip(), "example": example}
    example = f"get_execution_by_node(id: {quoted(execution.id)}, nodeName: {quoted(short)})"
    note = "" if execution.status == "success" else "; explain_execution says why"
    return {"message": f"{situation} {ADVICE}{note}".lstrip(), "example": example}


def _situation(execution: Execution) -> str:
    """What the statistics do not show."""
    if execution.too_large:
        return "n8n does not show the data of this execution because it is too large: no node can be listed here."
    if execution.reduced:
        return "This execution is too large to be read in full: items are counted but cannot be read."
    if execution.redacted:
        return "n8n has redacted the data of this execution: items are counted but empty."
    match execution.n8n_status:
        case "crashed":
            return "n8n crashed while this ran and reconstructed the data afterward: the items are placeholders."
        case "running":
            return "It is still running: n8n reports nodes when it has ended."
        case "waiting":
            return "It waits at a node, and resumes later."
        case "new":
            return "It has not started yet (n8n status: new)."
        case "success" | "error" | "canceled":
            return "" if execution.runs else "n8n has kept no data of its nodes."
        case other:
            return f"n8n status: {words(other, 40)!r}."


def quoted(text: str) -> str:
    """Quoted as in the documents' examples, with escapes for any node name."""
    for plain, written in (("\\", "\\\\"), ("'", "\\'"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        text = text.replace(plain, written)
    return f"'{text}'"
