"""The connections of a workflow: which node leads to which."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from tools_app.packs.n8n.runs import MAIN, STICKY_NOTE, as_list, as_map


def graph(workflow: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each node with its inputs and outputs. Targets that do not exist are included, as `missing`."""
    nodes = [node for node in map(as_map, as_list(workflow.get("nodes"))) if node and node.get("type") != STICKY_NOTE]
    outputs: dict[str, list[dict[str, Any]]] = {str(node.get("name", "")): [] for node in nodes}
    inputs: dict[str, list[dict[str, Any]]] = {name: [] for name in outputs}
    for source, kind, way, target, slot in edges(as_map(workflow.get("connections"))):
        ends: dict[str, Any] = {"output": way} if way else {}
        ends |= {"input": slot} if slot else {}
        ends |= {"type": kind} if kind != MAIN else {}
        outputs.setdefault(source, []).append({"node": target} | ends)
        inputs.setdefault(target, []).append({"node": source} | ends)
    nodes_by_name = {str(node.get("name", "")): node for node in nodes}
    entries = []
    for name in dict.fromkeys([*outputs, *inputs]):
        node = nodes_by_name.get(name)
        entry = {"node": name, "id": (node or {}).get("id"), "type": (node or {}).get("type")}
        entry |= {"inputs": inputs.get(name, []), "outputs": outputs.get(name, [])}
        if node is None:
            entry["missing"] = True
        elif node.get("disabled"):
            entry["disabled"] = True
        entries.append(entry)
    return entries


def edges(connections: Mapping[str, Any]) -> Iterator[tuple[str, str, int, str, int]]:
    """Source, kind, output, target and input of each connection."""
    for source, kinds in connections.items():
        for kind, ways in as_map(kinds).items():
            for way, ends in enumerate(as_list(ways)):
                for end in map(as_map, as_list(ends)):
                    slot = end.get("index")
                    yield str(source), str(kind), way, str(end.get("node", "")), slot if isinstance(slot, int) else 0


def without(connections: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Connections after nodes were deleted. Outputs keep their index, even if they are empty now."""
    return _changed(
        {source: kinds for source, kinds in connections.items() if source not in names},
        lambda ends: [end for end in ends if as_map(end).get("node") not in names],
    )


def renamed(connections: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Connections after nodes were renamed: old names to new ones."""

    def by_new_name(end: Any) -> Any:
        target = str(as_map(end).get("node"))
        return {**end, "node": names[target]} if target in names else end

    return _changed(
        {names.get(source, source): kinds for source, kinds in connections.items()},
        lambda ends: [by_new_name(end) for end in ends],
    )


def _changed(connections: Mapping[str, Any], change: Callable[[list[Any]], list[Any]]) -> dict[str, Any]:
    return {
        source: {
            kind: [change(ends) if isinstance(ends, list) else ends for ends in ways]
            if isinstance(ways, list)
            else ways
            for kind, ways in kinds.items()
        }
        if isinstance(kinds, Mapping)
        else kinds
        for source, kinds in connections.items()
    }
