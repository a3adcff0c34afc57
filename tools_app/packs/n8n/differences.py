"""What an edit changes in a workflow, in short: by node, connections, settings, tags."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tools_app.packs.n8n.graph import edges
from tools_app.packs.n8n.originals import as_shown
from tools_app.packs.n8n.runs import MAIN, as_list, as_map
from tools_app.packs.n8n.sizes import words

_MOST: Final = 30
_VALUE: Final = 60
# Characters before the first difference of two texts.
_CONTEXT: Final = 15


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The parts that differ: `name`, `nodes`, `connected`, `disconnected`, `settings`. Nodes are known by their ids."""
    old, new = _by_id(before), _by_id(after)
    nodes = [_node(old.get(key), new.get(key)) for key in dict.fromkeys([*old, *new])]
    parts: dict[str, Any] = {"nodes": [node for node in nodes if node]}
    if before.get("name") != after.get("name"):
        parts["name"] = _step(before.get("name"), after.get("name"))
    renames = {str(old[key].get("name")): str(new[key].get("name")) for key in old.keys() & new.keys()}
    had = Counter(_ends(before, renames))
    has = Counter(_ends(after, {}))
    parts["disconnected"], parts["connected"] = list(had - has), list(has - had)
    there, wanted = as_map(before.get("settings")), as_map(after.get("settings"))
    parts["settings"] = [
        f"{key}: {_step(there.get(key), value)}" for key, value in wanted.items() if there.get(key) != value
    ]
    return {key: _fewer(value) if isinstance(value, list) else value for key, value in parts.items() if value}


def _fewer(entries: list[Any]) -> list[Any]:
    return entries if len(entries) <= _MOST else [*entries[:_MOST], f"… {len(entries) - _MOST:,} more"]


def _by_id(workflow: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    nodes = [as_map(node) for node in as_list(workflow.get("nodes"))]
    return {str(node.get("id") or node.get("name")): node for node in nodes}


def _node(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> dict[str, Any]:
    if old is None or new is None:
        node = old or new or {}
        return {"node": _shown(node), "change": "added" if old is None else "removed"}
    fields = _fewer([f"{place}: {_step(was, value)}" for place, was, value in _changes(old, new, "")])
    if not fields:
        return {}
    return {"node": _shown(new), "change": "changed", "fields": fields}


def _shown(node: Mapping[str, Any]) -> str:
    return words(as_shown(str(node.get("name"))), 240)


def _changes(old: Any, new: Any, place: str) -> Iterator[tuple[str, Any, Any]]:
    """The places that differ, with both values."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys([*old, *new]):
            yield from _changes(old.get(key), new.get(key), f"{place}.{as_shown(str(key))}" if place else str(key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (was, value) in enumerate(zip(old, new, strict=True)):
            yield from _changes(was, value, f"{place}.{index}")
    elif old != new:
        yield words(place, 200), old, new


def _step(old: Any, new: Any) -> str:
    """Both values; of long texts, the part that differs."""
    was, now = _text(old), _text(new)
    start = next((at for at, (a, b) in enumerate(zip(was, now, strict=False)) if a != b), min(len(was), len(now)))
    cut = max(0, start - _CONTEXT) if max(len(was), len(now)) > _VALUE else 0
    return f"{_part(was, cut)} → {_part(now, cut)}"


def _part(text: str, start: int) -> str:
    return words(f"{'…' if start else ''}{text[start:]}", _VALUE)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return as_shown(value)
    return "nothing" if value is None else as_shown(json.dumps(value, ensure_ascii=False))


def _ends(workflow: Mapping[str, Any], names: Mapping[str, str]) -> Sequence[str]:
    return [
        f"{words(as_shown(names.get(source, source)), 100)}{f'[{way}]' if way else ''}"
        f" → {words(as_shown(names.get(target, target)), 100)}{f'[{slot}]' if slot else ''}"
        f"{f' ({kind})' if kind != MAIN else ''}"
        for source, kind, way, target, slot in edges(as_map(workflow.get("connections")))
    ]
