"""Operations that edit a workflow: applied in order to a copy of it, in memory. One that fails fails them all."""

from __future__ import annotations

import copy
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final

from pydantic import Field, WithJsonSchema

from tools_app.packs.n8n import drafts, expressions, graph
from tools_app.packs.n8n.originals import Originals, as_shown
from tools_app.packs.n8n.runs import MAIN, as_list, as_map
from tools_app.packs.n8n.secrecy import HIDDEN
from tools_app.packs.n8n.sizes import words
from tools_app.packs.n8n.validation import similar
from tools_app.sdk.errors import InvalidArgumentsError, Problem

# By operation: the arguments that it needs, and those that it can have.
ARGUMENTS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "update_node": (("node", "fields"), ()),
    "replace_text": (("node", "old", "new"), ()),
    "add_node": (("node", "fields"), ()),
    "remove_node": (("node",), ()),
    "rename_node": (("node", "name"), ()),
    "enable_node": (("node",), ()),
    "disable_node": (("node",), ()),
    "connect": (("node", "to"), ("output", "input", "type")),
    "disconnect": (("node", "to"), ("output", "input", "type")),
    "set_settings": (("settings",), ()),
    "set_tags": (("tags",), ()),
    "rename_workflow": (("name",), ()),
}
_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "op": {"enum": list(ARGUMENTS)},
        "node": {"type": "string", "description": "Name or id; source of a connection"},
        "fields": {"type": "object", "description": "E.g. parameters; keys can be paths: parameters.url"},
        **{key: {"type": "string"} for key in ("old", "new", "name")},
        "to": {"type": "string", "description": "Target"},
        **{key: {"type": "integer", "minimum": 0} for key in ("output", "input")},
        "type": {"type": "string", "description": "Of the connection; default main"},
        "settings": {"type": "object"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["op"],
    "additionalProperties": False,
}
Operations = Annotated[
    list[dict[str, Any]],
    Field(min_length=1, max_length=100),
    WithJsonSchema({"type": "array", "items": _SCHEMA, "minItems": 1, "maxItems": 100}),
]

# Of a new node, right of all others.
_STEP: Final = 220
_LEVELS: Final = 100
_MOST_OUTPUTS: Final = 99


class Draft:
    """A copy of a workflow that operations change. `tags` is None if they stay."""

    def __init__(self, workflow: Mapping[str, Any]) -> None:
        self.name = str(workflow.get("name"))
        self.nodes: list[dict[str, Any]] = copy.deepcopy(
            [dict(as_map(node)) for node in as_list(workflow.get("nodes"))]
        )
        self.connections: dict[str, Any] = copy.deepcopy(dict(as_map(workflow.get("connections"))))
        self.settings: dict[str, Any] = {}
        self.tags: list[str] | None = None
        self.warnings: list[str] = []
        self._pinned = as_map(workflow.get("pinData"))

    def apply(self, operations: Sequence[Mapping[str, Any]]) -> None:
        """Raises: InvalidArgumentsError, which names the first operation that cannot be applied."""
        for number, operation in enumerate(operations):
            kind = str(operation["op"])
            needed, optional = ARGUMENTS[kind]
            problem, step = _wrong_arguments(kind, operation, needed, optional), None
            if not problem:
                arguments = {key: value for key, value in operation.items() if key != "op"}
                try:
                    _APPLIED[kind](self, **arguments)
                except _CannotApply as error:
                    problem, step = str(error), error.next_step
            if problem:
                raise InvalidArgumentsError(
                    problems=[Problem(f"/operations/{number}", f"operations.{number}: {problem}")],
                    next_step=f"{step or 'Correct this operation.'} Nothing was saved: send all operations again.",
                )

    def body(self, current: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """What n8n is sent, and warnings."""
        state = {**current, "name": self.name, "nodes": self.nodes, "connections": self.connections}
        change = drafts.changed(state, {"settings": self.settings})
        return change.body, [*self.warnings, *change.warnings]

    # ---- operations

    def update_node(self, node: str, fields: Mapping[str, Any]) -> None:
        existing = self._node(node)
        for key in ("id", "name", "type"):
            if key in fields and fields[key] != existing.get(key):
                how = "rename_node renames a node" if key == "name" else f"to change the {key}, remove and add the node"
                raise _CannotApply(f"update_node does not change the {key}; {how}")
        _check_fields(fields)
        changed = dict(existing)
        for path, value in fields.items():
            first, *rest = path.split(".")
            changed = _with(changed, [first, *rest], value)
        if changed.get("parameters") is None:
            changed["parameters"] = {}
        originals = Originals(existing)
        restored = originals.restored(changed, existing)
        if originals.lost:
            self._warn_lost(existing, originals.lost)
        existing.clear()
        existing.update(restored)

    def replace_text(self, node: str, old: str, new: str) -> None:
        existing = self._node(node)
        if not old:
            raise _CannotApply("old must not be empty")
        _check_visible(new)
        shown = as_shown(str(existing.get("name")))
        texts = dict(_texts(existing.get("parameters"), ("parameters",)))
        places = [place for place, text in texts.items() if old in text]
        lost = not places
        if lost:
            # Callers see texts without invisible characters.
            texts = {place: as_shown(text) for place, text in texts.items()}
            places = [place for place, text in texts.items() if old in text]
        count = sum(texts[place].count(old) for place in places)
        if count != 1:
            found = "is not in the parameters" if not count else f"occurs {count} times in the parameters"
            step = "get_workflow_node shows them." if not count else "Send a longer old text, which occurs once."
            raise _CannotApply(f"the text {words(old, 80)!r} {found} of {shown!r}", step)
        place = places[0]
        _put(existing, place, texts[place].replace(old, new))
        if lost:
            self._warn_lost(existing, [".".join(map(str, place))])

    def add_node(self, node: str, fields: Mapping[str, Any]) -> None:
        self._check_free(node)
        _check_fields(fields)
        if fields.get("name", node) != node:
            raise _CannotApply("node and fields.name differ")
        if missing := [key for key in ("type", "typeVersion") if not fields.get(key)]:
            raise _CannotApply(f"a new node needs fields.{' and fields.'.join(missing)}")
        added: dict[str, Any] = {"id": str(uuid.uuid4()), "name": node, "position": self._free_position()}
        for path, value in {"parameters": {}, **fields}.items():
            added = _with(added, path.split("."), value)
        self.nodes.append(added)

    def remove_node(self, node: str) -> None:
        existing = self._node(node)
        self.nodes.remove(existing)
        self.connections = graph.without(self.connections, {str(existing.get("name"))})

    def rename_node(self, node: str, name: str) -> None:
        existing = self._node(node)
        old = str(existing.get("name"))
        if name in (old, as_shown(old)):
            return
        self._check_free(name)
        existing["name"] = name
        self.connections = graph.renamed(self.connections, {old: name})
        for each in self.nodes:
            if "parameters" in each:
                each["parameters"] = expressions.renamed(each["parameters"], {old: name})
        if old in self._pinned:
            self.warnings.append(f"n8n keeps the pinned data of {words(as_shown(old), 100)!r} under its old name.")

    def enable_node(self, node: str) -> None:
        self._node(node).pop("disabled", None)

    def disable_node(self, node: str) -> None:
        self._node(node)["disabled"] = True

    def connect(self, node: str, to: str, output: int = 0, input: int = 0, type: str = MAIN) -> None:
        source, target = str(self._node(node).get("name")), str(self._node(to).get("name"))
        kinds = self.connections.setdefault(source, {})
        if output > _MOST_OUTPUTS:
            raise _CannotApply(f"output must be at most {_MOST_OUTPUTS}")
        ways = kinds.setdefault(type, [])
        ways += [[] for _ in range(output + 1 - len(ways))]
        ends = ways[output] = as_list(ways[output])
        end = {"node": target, "type": type, "index": input}
        if not any((as_map(each).get("node"), as_map(each).get("index", 0)) == (target, input) for each in ends):
            ends.append(end)

    def disconnect(
        self,
        node: str,
        to: str,
        output: int | None = None,
        input: int | None = None,
        type: str | None = None,
    ) -> None:
        source, target = str(self._node(node).get("name")), str(self._node(to).get("name"))
        removed = 0
        for kind, ways in as_map(self.connections.get(source)).items():
            for way, ends in enumerate(as_list(ways)):
                if type not in (None, kind) or output not in (None, way):
                    continue
                left = [
                    end
                    for end in as_list(ends)
                    if as_map(end).get("node") != target or input not in (None, as_map(end).get("index", 0))
                ]
                removed += len(as_list(ends)) - len(left)
                ways[way] = left
        if not removed:
            targets = {end[3] for end in graph.edges(self.connections) if end[0] == source}
            leads = f"It leads to {', '.join(repr(words(as_shown(each), 100)) for each in sorted(targets)[:10])}."
            raise _CannotApply(
                f"{words(as_shown(source), 100)!r} is not connected like that to {words(as_shown(target), 100)!r}",
                leads if targets else "It leads to no node.",
            )

    def set_settings(self, settings: Mapping[str, Any]) -> None:
        if unset := [key for key, value in settings.items() if value is None]:
            raise _CannotApply(f"n8n's API cannot remove a setting ({words(', '.join(unset), 100)}); give a value")
        self.settings |= settings

    def set_tags(self, tags: Sequence[str]) -> None:
        self.tags = list(dict.fromkeys(tags))

    def rename_workflow(self, name: str) -> None:
        if not 1 <= len(name) <= 128:
            raise _CannotApply("the name must have 1 to 128 characters")
        self.name = name

    # ---- parts

    def _node(self, name: str) -> dict[str, Any]:
        """The node of this name or id. Callers see names without invisible characters."""
        for matches in (
            lambda node: node.get("name") == name,
            lambda node: node.get("id") == name,
            lambda node: as_shown(str(node.get("name"))) == name,
        ):
            found: list[dict[str, Any]] = list(filter(matches, self.nodes))
            if len(found) == 1:
                return found[0]
            if found:
                raise _CannotApply(f"{len(found)} nodes are called {words(name, 100)!r}", "Name it by its id.")
        names = [str(node.get("name")) for node in self.nodes]
        raise _CannotApply(f"there is no node {words(name, 100)!r}", similar(name, names))

    def _check_free(self, name: str) -> None:
        if not name.strip():
            raise _CannotApply("the name must not be empty")
        if any(name in (node.get("name"), as_shown(str(node.get("name")))) for node in self.nodes):
            raise _CannotApply(f"there is a node {words(name, 100)!r} already", "Choose another name.")

    def _free_position(self) -> list[float]:
        places = [place for node in self.nodes if len(place := as_list(node.get("position"))) == 2]
        right = max(places, key=lambda place: place[0], default=None)
        return [right[0] + _STEP, right[1]] if right else [0, 0]

    def _warn_lost(self, node: Mapping[str, Any], places: Sequence[str]) -> None:
        name = words(as_shown(str(node.get("name"))), 100)
        self.warnings.append(
            f"Node {name!r}: changed texts lost invisible characters, in {words(', '.join(places), 200)}."
        )


class _CannotApply(Exception):
    def __init__(self, problem: str, next_step: str | None = None) -> None:
        self.next_step = next_step
        super().__init__(problem)


_APPLIED: Final[Mapping[str, Callable[..., None]]] = {kind: getattr(Draft, kind) for kind in ARGUMENTS}


def _wrong_arguments(kind: str, operation: Mapping[str, Any], needed: Sequence[str], optional: Sequence[str]) -> str:
    if missing := [key for key in needed if key not in operation]:
        return f"{kind} needs {' and '.join(missing)}"
    if foreign := operation.keys() - {"op", *needed, *optional}:
        return f"{kind} takes {', '.join((*needed, *optional))}, not {', '.join(sorted(foreign))}"
    return ""


def _check_fields(fields: Mapping[str, Any]) -> None:
    for path in fields:
        first = path.partition(".")[0]
        if first not in drafts.TAKEN and fields[path] is not None:
            raise _CannotApply(
                f"{words(first, 100)!r} is not a field of a node",
                f"Did you mean 'parameters.{words(path, 100)}'?",
            )
    _check_visible(fields)


def _check_visible(value: Any) -> None:
    """A hidden value must not be written back in place of the real one."""
    if any(text == HIDDEN for _, text in _texts(value, ())):
        raise _CannotApply(
            f"{HIDDEN} stands for a value that the hub hides, and is not the value", "Leave that field out."
        )


def _texts(value: Any, place: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _texts(each, (*place, key))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _texts(each, (*place, index))


def _put(node: dict[str, Any], place: Sequence[str | int], text: str) -> None:
    holder: Any = node
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = text


def _with(value: Any, path: Sequence[str], patch: Any) -> Any:
    """The value with the patch merged in at the path (RFC 7396: objects are merged, null removes)."""
    if not path:
        return _merged(value, patch, _LEVELS)
    key, *rest = path
    if isinstance(value, list):
        if not (key.isascii() and key.isdecimal() and int(key) <= len(value)):
            raise _CannotApply(f"{words(key, 60)!r} is not an index of a list of {len(value)}")
        index = int(key)
        if not rest and patch is None:
            return [*value[:index], *value[index + 1 :]]
        return [*value[:index], _with(value[index] if index < len(value) else None, rest, patch), *value[index + 1 :]]
    if value is not None and not isinstance(value, Mapping):
        raise _CannotApply(f"{words(key, 60)!r} is below a value that is neither an object nor a list")
    original = _key(as_map(value), key)
    if not rest and patch is None:
        return {name: each for name, each in as_map(value).items() if name != original}
    return {**as_map(value), original: _with(as_map(value).get(original), rest, patch)}


def _merged(value: Any, patch: Any, levels: int) -> Any:
    if not isinstance(patch, Mapping) or not levels:
        return patch
    merged = dict(as_map(value))
    for name, each in patch.items():
        key = _key(merged, name)
        if each is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), each, levels - 1)
    return merged


def _key(value: Mapping[str, Any], name: str) -> str:
    """The key that callers see as `name`."""
    return name if name in value else next((key for key in value if as_shown(key) == name), name)
