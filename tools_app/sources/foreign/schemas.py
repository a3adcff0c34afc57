"""Foreign schemas as this hub lists and checks them.

What the listed schema says is never more than what the source said: a keyword that cannot be checked or listed is
dropped, and the source checks it. Where dropping could make it say more, arguments are not checked at all.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote, unquote

import jsonschema_rs

from tools_app.sdk.published import HEADER, MAX_DEPTH, MAX_PATTERN
from tools_app.sdk.schemas import (
    DIALECT,
    MESSAGE,
    OR_DIGITS,
    OR_NUMBER,
    Part,
    Schema,
    SchemaError,
    compiled,
    parts_of,
    pointer,
    validator_of,
)
from tools_app.sources.foreign import keys
from tools_app.text import hygiene

MAX_SUBSCHEMAS: Final = 1_000
# Steps of a check, with every reference followed: definitions that refer twice to the next one double it each time.
MAX_STEPS: Final = 30_000
# Compiling one takes up to a millisecond, and no other thread runs meanwhile; nor while a default is checked.
MAX_PATTERNS: Final = 200
MAX_DEFAULT: Final = 1_000
_MOST_REPAIRS: Final = 50
_OLD: Final = ("draft-03", "draft-04", "draft-06", "draft-07")
_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
# They would speak in the name of this hub, or are no part of any schema.
_REMOVED: Final = ("$schema", "$vocabulary", MESSAGE, OR_NUMBER, OR_DIGITS, HEADER)
_DYNAMIC: Final = ("$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor")
# The only keywords that drafts before 2019-09 read beside `$ref`, and those that other parts refer to.
_BESIDE_REF: Final = frozenset({"$ref", "$defs", "title", "description", "default", "examples", "$comment"})
# Keywords that some clients refuse at the root, with the whole list of tools.
_NOT_AT_ROOT: Final = ("allOf", "anyOf", "oneOf", "not", "enum", "const")
# Weaker schemas under these keywords accept less, or reject what was accepted.
_INVERTING: Final = frozenset({"not", "if", "oneOf", "contains"})
_MAPS: Final = frozenset({"properties", "patternProperties", "$defs", "dependentSchemas"})
_SAFE: Final = "/~!$&'()*+,;=:@"
_MOVED: Final = {"definitions": "$defs", "items": "prefixItems", "dependencies": "dependentSchemas"}


@dataclass
class Normalised:
    """A schema to list, the original names of its parameters, and why arguments are not checked; empty if they are."""

    schema: Schema
    keys: Mapping[str, str] = field(default_factory=dict)
    unchecked: str = ""
    # Number of invisible characters that were removed.
    hidden: int = 0


def normalised(wire: object, *, renames: bool = True) -> Normalised:
    """A foreign schema in the dialect of this hub. `renames`: keys that clients refuse are renamed."""
    if wire is None or wire is True:
        wire = {}
    if not isinstance(wire, dict):
        return Normalised({"type": "object", "properties": {}}, unchecked="it is not a JSON object")
    return _Normaliser(copy.deepcopy(wire)).run(renames=renames)


class _Normaliser:
    """Changes one schema, in place."""

    def __init__(self, schema: Schema) -> None:
        self._root = schema
        self._dialect = str(schema.get("$schema", DIALECT))
        self._base = str(schema.get("$id") or schema.get("id") or "").rstrip("#")
        self._anchors: dict[str, Schema] = {}
        self._patterns_left = MAX_PATTERNS
        self._result = Normalised(schema)

    def run(self, *, renames: bool) -> Normalised:
        result = self._result
        for part in parts_of(self._root):
            # Parents first: what becomes a subschema here is visited after it.
            self._modernise(part)
        self._repair()
        own = {name: value for name, value in self._root.items() if name != "type"}
        self._root.clear()
        self._root.update({"type": "object", "properties": {}, **own})
        targets = self._targets()
        self._flatten(targets)
        parts = list(parts_of(self._root))
        if renames:
            result.keys = keys.rename(parts)
        # Renaming has moved parts.
        addresses = {id(part.body): pointer(part.steps) for part in parts_of(self._root)}
        for part in parts:
            self._point(part, addresses, targets)
        if len(parts) > MAX_SUBSCHEMAS:
            self._uncheck(f"it has more than {MAX_SUBSCHEMAS:,} subschemas")
        elif max(part.depth for part in parts) > MAX_DEPTH:
            self._uncheck(f"it is nested deeper than {MAX_DEPTH} levels")
        elif _steps(parts, targets) > MAX_STEPS:
            self._uncheck("its references make a check too expensive")
        if result.unchecked:
            # Whether a default fits is not known.
            return result
        self._drop_unfit_defaults(parts)
        try:
            compiled(self._root)
        except SchemaError as error:
            self._uncheck(str(error))
        return result

    def _uncheck(self, reason: str) -> None:
        self._result.unchecked = self._result.unchecked or reason

    def _weaken(self, part: Part) -> None:
        """A constraint of this part was dropped."""
        if not _INVERTING.isdisjoint(part.steps):
            self._uncheck(f"{part}: a condition that cannot be checked")

    # ---- one part

    def _modernise(self, part: Part) -> None:
        body = part.body
        for name in _REMOVED:
            body.pop(name, None)
        self._identify(part)
        if not body.keys().isdisjoint(_DYNAMIC):
            self._uncheck(f"{part}: a dynamic reference")
            for name in _DYNAMIC:
                body.pop(name, None)
        for old, new in (("definitions", "$defs"), ("dependencies", "dependentSchemas")):
            if isinstance(body.get(old), dict) and body[old].keys().isdisjoint(body.get(new) or ()):
                body[new] = {**(body.get(new) or {}), **body.pop(old)}
        if "$ref" in body and any(draft in self._dialect for draft in _OLD):
            for name in body.keys() - _BESIDE_REF:
                del body[name]
        _convert(body)
        self._type(part)
        self._required(body)
        self._patterns(part)
        self._texts(part)

    def _identify(self, part: Part) -> None:
        """Addresses inside a schema: references are resolved here, and none is left."""
        body = part.body
        names = ("$id", "id") if "draft-04" in self._dialect or not part.steps else ("$id",)
        for name in names:
            if isinstance(address := body.get(name), str):
                del body[name]
                if address.startswith("#"):
                    self._anchors[address[1:]] = body
                elif part.steps and any("$ref" in inner.body for inner in parts_of(body)):
                    self._uncheck(f"{part}: references relative to an address of its own")
        if isinstance(anchor := body.pop("$anchor", None), str):
            self._anchors[anchor] = body

    def _type(self, part: Part) -> None:
        body = part.body
        named = body.get("type", [])
        types = named if isinstance(named, list) else [named]
        if not all(isinstance(name, str) and name in _TYPES for name in types):
            del body["type"]
            self._describe(body, f"Type: {', '.join(map(str, types))}.")
            self._weaken(part)
        if not part.steps and types and "object" not in types:
            self._uncheck('its root is not "type": "object"')

    def _required(self, body: Schema) -> None:
        properties = body.get("properties")
        named = body.get("required")
        names = list(named) if isinstance(named, list) else []
        for name, part in properties.items() if isinstance(properties, dict) else ():
            # Of draft 03, and a frequent mistake.
            if isinstance(part, dict) and isinstance(part.get("required"), bool) and part.pop("required"):
                names.append(name)
        if names and all(isinstance(name, str) for name in names):
            body["required"] = list(dict.fromkeys(names))

    def _patterns(self, part: Part) -> None:
        body = part.body
        if isinstance(pattern := body.get("pattern"), str) and not self._is_usable(pattern):
            del body["pattern"]
            self._describe(body, f"Pattern: {pattern}")
            self._weaken(part)
        if isinstance(patterns := body.get("patternProperties"), dict):
            unusable = [pattern for pattern in patterns if not self._is_usable(pattern)]
            for pattern in unusable:
                del patterns[pattern]
            if unusable:
                # What these patterns allowed must stay allowed.
                body.pop("additionalProperties", None)
                body.pop("unevaluatedProperties", None)
                self._weaken(part)

    def _is_usable(self, pattern: str) -> bool:
        self._patterns_left -= 1
        return self._patterns_left >= 0 and _is_linear(pattern) and not hygiene.counted_json(pattern)[1]

    def _describe(self, body: Schema, note: str) -> None:
        text = body.get("description")
        body["description"] = f"{text}\n{note}" if isinstance(text, str) and text else note

    def _texts(self, part: Part) -> None:
        """Agents read what people see. Values that they would have to send as they are go."""
        body = part.body
        for name in ("title", "description", "$comment"):
            if isinstance(text := body.get(name), str):
                body[name], count = hygiene.counted_json(text)
                self._result.hidden += count
        for name in ("default", "examples", "enum", "const"):
            if name in body and (count := hygiene.counted_json(body[name])[1]):
                del body[name]
                self._result.hidden += count
                self._weaken(part)

    # ---- the whole

    def _repair(self) -> None:
        """Drop what is no JSON Schema, keyword by keyword: clients refuse a list that contains it."""
        for _ in range(_MOST_REPAIRS):
            try:
                jsonschema_rs.meta.validate({"$schema": DIALECT, **self._root})
                return
            except jsonschema_rs.ValidationError as error:
                _drop(self._root, list(error.instance_path))
                self._uncheck(f"it is not a valid JSON Schema at {pointer(error.instance_path)[:200]}")
        self._root.clear()

    def _targets(self) -> dict[int, Schema]:
        """What the references refer to, by the identity of the part that has one."""
        parts = list(parts_of(self._root))
        known = {id(part.body) for part in parts}
        targets: dict[int, Schema] = {}
        for part in parts:
            if (address := part.body.get("$ref")) is not None:
                target = self._target(address)
                if target is not None and id(target) in known:
                    targets[id(part.body)] = target
        return targets

    def _target(self, address: str) -> Schema | None:
        base, _, fragment = address.partition("#")
        if base and base != self._base:
            return None
        if not fragment.startswith("/"):
            return self._anchors.get(fragment) if fragment else self._root
        node: Any = self._root
        for step in unquote(fragment)[1:].split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict):
                node = node.get(name, node.get(_MOVED.get(name, name)))
            elif isinstance(node, list):
                node = node[int(name)] if name.isdecimal() and int(name) < len(node) else None
        return node if isinstance(node, dict) else None

    def _point(self, part: Part, addresses: Mapping[int, str], targets: Mapping[int, Schema]) -> None:
        if "$ref" not in part.body:
            return
        address = addresses.get(id(targets.get(id(part.body))))
        if address is not None:
            part.body["$ref"] = f"#{quote(address, safe=_SAFE)}"
            return
        reference = part.body.pop("$ref")
        self._describe(part.body, f"Defined elsewhere: {hygiene.cleaned(reference)[:200]}")
        self._uncheck(f"{part}: refers to something outside of the definition")

    def _flatten(self, targets: dict[int, Schema]) -> None:
        """Move parameters of alternatives at the root into the root, where every client accepts them."""
        root = self._root
        if "$ref" not in root and not any(name in root for name in _NOT_AT_ROOT):
            return
        always: dict[str, list[Any]] = {name: [part] for name, part in root["properties"].items()}
        choices: dict[str, list[Any]] = {}
        required = list(root.get("required", ()))
        for body, is_certain in self._branches(targets):
            for name, part in body.get("properties", {}).items():
                (always if is_certain else choices).setdefault(name, []).append(part)
            required += body.get("required", ()) if is_certain else ()
        properties = {name: parts[0] if len(parts) == 1 else {"allOf": parts} for name, parts in always.items()}
        for name, parts in choices.items():
            parts = [properties[name], *parts] if name in properties else parts
            properties[name] = parts[0] if len(parts) == 1 else {"anyOf": parts}
        targets.pop(id(root), None)
        for name in (*_NOT_AT_ROOT, "$ref"):
            root.pop(name, None)
        root["properties"] = properties
        if required:
            root["required"] = list(dict.fromkeys(required))

    def _branches(self, targets: Mapping[int, Schema]) -> Iterator[tuple[Schema, bool]]:
        """The schemas that apply to the root value, and whether each always does."""
        root, sets = self._root, list[str]()
        pending, visited = [(root, True)], {id(root)}
        while pending:
            body, is_certain = pending.pop(0)
            if body is not root:
                yield body, is_certain
            choices = [*body.get("anyOf", ()), *body.get("oneOf", ())]
            if choices:
                self._uncheck("it has alternatives at its root")
                sets += [", ".join(one["required"]) for one in choices if isinstance(one, dict) and one.get("required")]
            always = [*body.get("allOf", ()), targets.get(id(body))]
            for branch, is_choice in (*((one, False) for one in always), *((one, True) for one in choices)):
                if isinstance(branch, dict) and id(branch) not in visited:
                    visited.add(id(branch))
                    pending.append((branch, is_certain and not is_choice))
        if sets:
            self._describe(root, f"Parameters that are needed together: {'; or '.join(sets)}.")

    def _drop_unfit_defaults(self, parts: list[Part]) -> None:
        """`null` for "no default" is frequent."""
        uri = "toolhub:schema"
        registry = jsonschema_rs.Registry([(uri, {"$schema": DIALECT, **self._root})])
        for part in parts:
            if "default" not in part.body:
                continue
            if len(str(part.body["default"])) > MAX_DEFAULT:
                del part.body["default"]
                continue
            reference = {"$schema": DIALECT, "$ref": f"{uri}#{quote(pointer(part.steps))}"}
            try:
                fits = validator_of(reference, registry).is_valid(part.body["default"])
            except SchemaError:
                fits = False
            if not fits:
                part.body.pop("default", None)


def _convert(body: Schema) -> None:
    """The form of draft 2020-12 for what earlier drafts and OpenAPI write differently."""
    if isinstance(body.get("items"), list):
        body["prefixItems"] = body.pop("items")
        if "additionalItems" in body:
            body["items"] = body.pop("additionalItems")
    if isinstance(dependent := body.get("dependentSchemas"), dict):
        for name, value in list(dependent.items()):
            if isinstance(value, list):
                body.setdefault("dependentRequired", {})[name] = dependent.pop(name)
    for exclusive, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(is_exclusive := body.get(exclusive), bool):
            del body[exclusive]
            if is_exclusive and limit in body:
                body[exclusive] = body.pop(limit)
    if body.pop("nullable", None) is True and isinstance(body.get("type"), str):
        body["type"] = [body["type"], "null"]


@lru_cache(1024)
def _is_linear(pattern: str) -> bool:
    """Whether a pattern can be matched in linear time."""
    try:
        return len(pattern) <= MAX_PATTERN and bool(compiled({"pattern": pattern}))
    except SchemaError:
        return False


def _drop(schema: Schema, path: Sequence[Any]) -> None:
    """Drop the keyword at this path, or which contains it; a subschema that is none accepts everything."""
    node: Any = schema
    container, key, is_subschema, in_map = schema, "", False, False
    for step in path:
        if isinstance(node, dict):
            container, key, is_subschema = node, step, in_map
            in_map = not in_map and step in _MAPS
        node = node[step]
    if is_subschema:
        container[key] = {}
    else:
        container.pop(key, None)


def _steps(parts: Sequence[Part], targets: Mapping[int, Schema]) -> int:
    """The steps of a check, if every reference is followed. Those that lead back to themselves end there: the engine
    remembers them."""
    following = {
        id(part.body): [
            *(child.body for child in part.children()),
            *([targets[id(part.body)]] if id(part.body) in targets else ()),
        ]
        for part in parts
    }
    steps: dict[int, int] = {}
    entered: set[int] = set()
    pending = [(id(parts[0].body), False)]
    while pending:
        part_id, is_done = pending.pop()
        if is_done:
            counts = (steps.get(id(body), 1) for body in following[part_id])
            steps[part_id] = min(1 + sum(counts), MAX_STEPS + 1)
        elif part_id not in entered:
            entered.add(part_id)
            pending.append((part_id, True))
            pending.extend((id(body), False) for body in following.get(part_id, ()))
    return steps[id(parts[0].body)]
