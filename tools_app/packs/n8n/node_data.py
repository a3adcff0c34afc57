"""Input and output of one node of an execution: the documents' NodeExecutionData."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tools_app.packs.n8n.runs import Execution, Run, as_list, as_map, iso
from tools_app.packs.n8n.secrecy import error_of, readable, without_secrets
from tools_app.packs.n8n.sizes import ANSWER, fitted, size, words
from tools_app.text import hygiene

_MOST_PARAMETERS: Final = ANSWER // 5
_MOST_ERROR: Final = ANSWER // 8
_MOST_BRANCHES: Final = 50
# Bytes of the longest node name, in a script with three bytes per letter.
_MOST_NAME: Final = 800

_ITEMS: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "items": {"type": "array"},
        "total": {"type": "integer"},
        "truncated": {"type": "boolean"},
        "nextItemOffset": {"type": ["integer", "null"]},
    },
    "required": ["items", "total"],
}
OUTPUT: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "executionId": {"type": "string"},
        "nodeName": {"type": "string"},
        "nodeType": {"type": "string"},
        "status": {"enum": ["success", "error"]},
        "executionTime": {"type": "integer", "description": "Milliseconds"},
        "startTime": {"type": "string"},
        "endTime": {"type": "string"},
        "runIndex": {"type": "integer"},
        "runs": {"type": "integer"},
        "input": _ITEMS,
        "output": _ITEMS,
        "parameters": {"type": "object"},
        "error": {},
        "shownInPart": {"type": "boolean"},
        "_guidance": {"type": "object"},
    },
    "required": [
        *("executionId", "nodeName", "nodeType", "status", "executionTime", "startTime", "endTime"),
        *("input", "output", "parameters", "error"),
    ],
}


def find_node(execution: Execution, name: str) -> str | None:
    """The executed node of this name. Agents see names without invisible characters."""
    if name in execution.runs:
        return name
    matches = [node for node in execution.runs if hygiene.cleaned(readable(node)) == name]
    return matches[0] if len(matches) == 1 else None


def default_run(execution: Execution, node: str) -> int:
    """The default run: the last failed one, else the last."""
    runs = execution.runs[node]
    return next((run.index for run in reversed(runs) if run.outcome == "error"), len(runs) - 1)


def node_data(execution: Execution, run: Run, offset: int, limit: int, *, raw: bool = False) -> dict[str, Any]:
    """One run of a node. Input and output are paged together, with the same offset.

    It is truncated to fit an answer, and says so; with `raw` it is complete, whatever its size.
    """
    inputs = list(execution.inputs(run))
    outputs = [(output.label, item) for output in run.outputs for item in output.items]
    secrets = execution.secrets
    parameters = without_secrets(as_map(execution.nodes.get(run.node, {}).get("parameters")), secrets)
    error = error_of(run.error, secrets)
    answer: dict[str, Any] = {
        "executionId": execution.id,
        "nodeName": run.node,
        "nodeType": execution.type_of(run.node),
        "status": run.outcome,
        "executionTime": run.took,
        "startTime": iso(run.started),
        "endTime": iso(run.started + run.took if run.started is not None else None),
        "runIndex": run.index,
        "runs": len(execution.runs[run.node]),
        "input": {},
        "output": {},
        "parameters": parameters if raw else fitted(parameters, _MOST_PARAMETERS),
        "error": error if raw else fitted(error, _MOST_ERROR),
    }
    if not isinstance(answer["parameters"], dict):
        answer["parameters"] = {"…": answer["parameters"]}
    sources = [
        {"nodeName": words(each.node, _MOST_NAME), "run": each.run, "output": each.output}
        for each in run.sources[:_MOST_BRANCHES]
    ]
    branches = [{"output": output.label, "items": len(output.items)} for output in run.outputs[:_MOST_BRANCHES]]
    if raw:
        ins, outs = (
            [shown_item(label, item, secrets) for label, item in side[offset : offset + limit]]
            for side in (inputs, outputs)
        )
        is_truncated = False
    else:
        # Half of the space each; 4,000 bytes are reserved for names and guidance.
        room = (ANSWER - size(answer) - size(sources) - size(branches) - 4_000) // 2
        (ins, ins_cut), (outs, outs_cut) = (
            _page_items(side, offset, limit, room, secrets) for side in (inputs, outputs)
        )
        was_cut = answer["parameters"] != parameters or answer["error"] != error
        is_truncated = was_cut or ins_cut or outs_cut
    # If one side has space for fewer items, the other stops there too: the next page has one offset for both.
    stops = [len(items) for items, whole in ((ins, inputs), (outs, outputs)) if offset + len(items) < len(whole)]
    count = min(stops, default=limit)
    answer["input"] = _page(ins[:count], offset, len(inputs)) | {"sources": sources}
    answer["output"] = _page(outs[:count], offset, len(outputs)) | {"branches": branches}
    return answer | ({"shownInPart": True} if is_truncated else {})


def _page(items: list[Any], offset: int, total: int) -> dict[str, Any]:
    then = offset + len(items)
    more = then < total
    return {"items": items, "total": total, "truncated": more, "nextItemOffset": then if more else None}


def _page_items(
    items: list[tuple[int | str, Any]], offset: int, limit: int, room: int, secrets: frozenset[str]
) -> tuple[list[Any], bool]:
    """As many items as fit, but at least one, truncated if necessary; and whether it was truncated."""
    page: list[Any] = []
    for label, item in items[offset : offset + limit]:
        clean = shown_item(label, item, secrets)
        needed = size(clean) + 1
        if needed > room:
            return (page, False) if page else ([fitted(clean, room)], True)
        page.append(clean)
        room -= needed
    return page, False


def shown_item(label: int | str, raw_item: Any, secrets: frozenset[str]) -> Any:
    """An item without n8n's metadata; if it is not of the first output, its output is named."""
    if not isinstance(raw_item, Mapping):
        return without_secrets(raw_item, secrets)
    item: dict[str, Any] = {} if label == 0 else {"output": label}
    item["json"] = without_secrets(raw_item.get("json"), secrets)
    if files := as_map(raw_item.get("binary")):
        item["binary"] = {name: _file(as_map(each)) for name, each in files.items()}
    if (wrong := raw_item.get("error")) is not None:
        item["error"] = error_of(wrong, secrets)
    if as_map(raw_item.get("redaction")).get("redacted"):
        item["redacted"] = True
    return item


def _file(file: Mapping[str, Any]) -> dict[str, Any]:
    return {key: file[key] for key in ("fileName", "mimeType", "fileSize", "bytes") if key in file}


def error_passed_on(run: Run) -> Any:
    """The error that a node passed on as data because it is set to continue; None if there is none."""
    if run.outcome == "error":
        return None
    for output in run.outputs:
        for item in output.items[:50]:
            content = as_map(as_map(item).get("json"))
            if isinstance(item, Mapping) and (item.get("error") or _is_error(content)):
                return item.get("error") or content["error"]
    return None


def _is_error(content: Mapping[str, Any]) -> bool:
    """n8n passes an error on as `{"error": …}`, at most beside the input's fields."""
    error = content.get("error")
    return (isinstance(error, str) and len(content) == 1) or (isinstance(error, Mapping) and "message" in error)


def notes(execution: Execution, run: Run) -> list[str]:
    """What a reader of this node's data should know."""
    notes_of_run = []
    if run.node in execution.pinned:
        notes_of_run.append("Its output is pinned data: the node itself did not run.")
    if len(execution.runs[run.node]) > 1:
        notes_of_run.append(f"It ran {len(execution.runs[run.node])} times: runIndex selects the run.")
    if any(as_map(item).get("redaction") for output in run.outputs for item in as_list(output.items)[:1]):
        notes_of_run.append("n8n redacted the data of these items.")
    if execution.n8n_status == "crashed":
        notes_of_run.append("n8n crashed while this ran: the items are placeholders.")
    if run.waits:
        notes_of_run.append("It waits for an external event.")
    return notes_of_run
