"""What went into one node of an execution and what came out of it: the documents' NodeExecutionData."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tools_app.packs.n8n.runs import Execution, Run, iso, listed, mapped
from tools_app.packs.n8n.secrecy import error_of, readable, stripped
from tools_app.packs.n8n.sizes import ANSWER, fitted, size, words
from tools_app.text import hygiene

_MOST_PARAMETERS: Final = ANSWER // 5
_MOST_ERROR: Final = ANSWER // 8
_MOST_BRANCHES: Final = 50
# Of the longest name that can be asked for, in a script of three bytes a letter.
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


def found(execution: Execution, name: str) -> str | None:
    """The node of that name among those that ran. Agents are shown names without what people do not see in them."""
    if name in execution.runs:
        return name
    alike = [node for node in execution.runs if hygiene.cleaned(readable(node)) == name]
    return alike[0] if len(alike) == 1 else None


def telling(execution: Execution, node: str) -> int:
    """The run to show where none is asked for: the last that failed, else the last."""
    runs = execution.runs[node]
    return next((run.index for run in reversed(runs) if run.outcome == "error"), len(runs) - 1)


def node_data(execution: Execution, run: Run, offset: int, limit: int, *, raw: bool = False) -> dict[str, Any]:
    """One run of a node. Input and output are paged together, both with the same offset.

    It fits an answer, and says where something was shown in part; with `raw` it is whole, whatever its size.
    """
    given = list(execution.inputs(run))
    made = [(output.label, item) for output in run.outputs for item in output.items]
    hidden = execution.hidden
    parameters = stripped(mapped(execution.nodes.get(run.node, {}).get("parameters")), hidden)
    error = error_of(run.error, hidden)
    told: dict[str, Any] = {
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
    if not isinstance(told["parameters"], dict):
        told["parameters"] = {"…": told["parameters"]}
    sources = [
        {"nodeName": words(each.node, _MOST_NAME), "run": each.run, "output": each.output}
        for each in run.sources[:_MOST_BRANCHES]
    ]
    branches = [{"output": output.label, "items": len(output.items)} for output in run.outputs[:_MOST_BRANCHES]]
    if raw:
        shown_in, shown_out = (
            [shown_item(label, item, hidden) for label, item in side[offset : offset + limit]] for side in (given, made)
        )
        in_part = False
    else:
        # Half of the room is for each; the rest is what the names above and the guidance below may need.
        room = (ANSWER - size(told) - size(sources) - size(branches) - 4_000) // 2
        (shown_in, in_part_in), (shown_out, in_part_out) = (
            _shown(side, offset, limit, room, hidden) for side in (given, made)
        )
        cut = told["parameters"] != parameters or told["error"] != error
        in_part = cut or in_part_in or in_part_out
    # Where one side had room for fewer items, the other stops there too: the next page begins at the same place.
    stops = [len(shown) for shown, whole in ((shown_in, given), (shown_out, made)) if offset + len(shown) < len(whole)]
    count = min(stops, default=limit)
    told["input"] = _page(shown_in[:count], offset, len(given)) | {"sources": sources}
    told["output"] = _page(shown_out[:count], offset, len(made)) | {"branches": branches}
    return told | ({"shownInPart": True} if in_part else {})


def _page(items: list[Any], offset: int, total: int) -> dict[str, Any]:
    then = offset + len(items)
    more = then < total
    return {"items": items, "total": total, "truncated": more, "nextItemOffset": then if more else None}


def _shown(
    items: list[tuple[int | str, Any]], offset: int, limit: int, room: int, hidden: frozenset[str]
) -> tuple[list[Any], bool]:
    """As many as have room, and one at least: if need be, in part. And whether it is."""
    shown: list[Any] = []
    for label, item in items[offset : offset + limit]:
        clean = shown_item(label, item, hidden)
        needed = size(clean) + 1
        if needed > room:
            return (shown, False) if shown else ([fitted(clean, room)], True)
        shown.append(clean)
        room -= needed
    return shown, False


def shown_item(label: int | str, told: Any, hidden: frozenset[str]) -> Any:
    """An item without n8n's own bookkeeping; one of another output than the first says of which."""
    if not isinstance(told, Mapping):
        return stripped(told, hidden)
    item: dict[str, Any] = {} if label == 0 else {"output": label}
    item["json"] = stripped(told.get("json"), hidden)
    if files := mapped(told.get("binary")):
        item["binary"] = {name: _file(mapped(each)) for name, each in files.items()}
    if (wrong := told.get("error")) is not None:
        item["error"] = error_of(wrong, hidden)
    if mapped(told.get("redaction")).get("redacted"):
        item["redacted"] = True
    return item


def _file(told: Mapping[str, Any]) -> dict[str, Any]:
    return {key: told[key] for key in ("fileName", "mimeType", "fileSize", "bytes") if key in told}


def swallowed(run: Run) -> Any:
    """The error that a node passed on as data because it was told to continue; None where it did not."""
    if run.outcome == "error":
        return None
    for output in run.outputs:
        for item in output.items[:50]:
            content = mapped(mapped(item).get("json"))
            if isinstance(item, Mapping) and (item.get("error") or _is_error(content)):
                return item.get("error") or content["error"]
    return None


def _is_error(content: Mapping[str, Any]) -> bool:
    """`{"error": …}` and nothing else beside it than what went in is how n8n passes an error on."""
    told = content.get("error")
    return (isinstance(told, str) and len(content) == 1) or (isinstance(told, Mapping) and "message" in told)


def notes(execution: Execution, run: Run) -> list[str]:
    """What somebody who reads the data of this node should know of it."""
    told = []
    if run.node in execution.pinned:
        told.append("Its output is pinned data: the node itself did not run.")
    if len(execution.runs[run.node]) > 1:
        told.append(f"It ran {len(execution.runs[run.node])} times: runIndex chooses which run is shown.")
    if any(mapped(item).get("redaction") for output in run.outputs for item in listed(output.items)[:1]):
        told.append("n8n has redacted the data of these items.")
    if execution.n8n_status == "crashed":
        told.append("n8n crashed while this ran: the items are placeholders.")
    if run.waits:
        told.append("It waits for something from outside.")
    return told
