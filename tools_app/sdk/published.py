"""Which JSON Schemas can be published: without external references, of limited size, and fast to validate."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final
from urllib.parse import quote

import jsonschema_rs

from tools_app.sdk.errors import shortened
from tools_app.sdk.schemas import (
    DIALECT,
    EACH,
    MAX_NESTING,
    MESSAGE,
    OR_DIGITS,
    OR_NUMBER,
    Part,
    Place,
    Schema,
    SchemaError,
    compiled,
    parts_of,
    pointer,
    validator_of,
)

MAX_DEPTH: Final = 16
MAX_SUBSCHEMAS: Final = 200
MAX_VALUES: Final = 20_000
MAX_CHARACTERS: Final = 256 * 1024
MAX_PATTERN: Final = 1_000
HEADER: Final = "x-mcp-header"

_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
_RANGES: Final = (("minimum", "maximum"), ("minLength", "maxLength"), ("minItems", "maxItems"))
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")


def take_messages(schema: Schema) -> tuple[Schema, dict[tuple[str, ...], str]]:
    """Remove the custom messages: the schema to publish, and schema path → message."""
    published: Schema = copy.deepcopy(schema)
    messages: dict[tuple[str, ...], str] = {}
    for part in parts_of(published):
        if isinstance(message := part.body.pop(MESSAGE, None), str):
            messages[part.steps] = message
    return published, messages


def take_leniency(schema: Schema) -> tuple[frozenset[Place], frozenset[Place]]:
    """Remove OR_NUMBER and OR_DIGITS; the places of texts that can be sent as numbers, and the reverse."""
    places: dict[str, set[Place]] = {OR_NUMBER: set(), OR_DIGITS: set()}
    for part in parts_of(schema):
        for mark, marked in places.items():
            if part.body.pop(mark, False) and (place := _place(part.steps)):
                marked.add(place)
    return frozenset(places[OR_NUMBER]), frozenset(places[OR_DIGITS])


def _place(steps: Sequence[str]) -> Place:
    """The place of the values of a subschema; empty if it does not only depend on properties and items."""
    place: list[str] = []
    remaining = iter(steps)
    for step in remaining:
        if step == "properties":
            place.append(next(remaining))
        elif step == "items":
            place.append(EACH)
        else:
            return ()
    return tuple(place)


def faults(schema: Any) -> list[str]:
    """The reasons why a schema cannot be published; empty if it can."""
    if not isinstance(schema, dict):
        return ["the schema must be a JSON object"]
    if schema.get("type") != "object":
        return ['the root must be "type": "object"']
    if fault := _size_fault(schema):
        return [fault]
    parts: list[Part] = []
    for part in parts_of(schema):
        if part.depth > MAX_DEPTH:
            return [f"nested deeper than {MAX_DEPTH} levels"]
        parts.append(part)
        if len(parts) > MAX_SUBSCHEMAS:
            return [f"more than {MAX_SUBSCHEMAS} subschemas"]
    part_faults = [f"{part}: {fault}" for part in parts for fault in _own_faults(part.body)]
    part_faults += _header_faults(parts)
    if part_faults:
        return part_faults
    try:
        compiled(schema)
        if loop := _endless(parts):
            return [f"{loop}: has an infinite reference to itself"]
        return [f"{part}: the default is not valid" for part in parts if not _default_is_valid(schema, part)]
    except SchemaError as error:
        return [str(error)]


def _size_fault(schema: Schema) -> str:
    """Refuse schemas that are too expensive for the checks below: data in a schema can be deep and large, too."""
    pending: list[tuple[Any, int]] = [(schema, 1)]
    values = characters = 0
    while pending:
        node, depth = pending.pop()
        children: list[Any] = []
        if isinstance(node, dict):
            children = list(node.values())
            characters += sum(len(key) for key in node if isinstance(key, str))
        elif isinstance(node, list):
            children = node
        elif isinstance(node, str):
            characters += len(node)
        values += len(children)
        if depth > MAX_NESTING:
            return f"nested deeper than {MAX_NESTING} levels"
        if values > MAX_VALUES or characters > MAX_CHARACTERS:
            return f"larger than {MAX_VALUES:,} values or {MAX_CHARACTERS:,} characters"
        pending.extend((child, depth + 1) for child in children)
    return ""


def _own_faults(body: Schema) -> Iterator[str]:
    named_types = body.get("type", [])
    types = named_types if isinstance(named_types, list) else [named_types]
    if not all(isinstance(name, str) and name in _TYPES for name in types):
        yield f"unknown type {named_types!r}"
    if str(body.get("$schema", DIALECT)).rstrip("#") != DIALECT:
        yield f"uses another dialect than {DIALECT}"
    for keyword in _REFERENCES:
        if not str(body.get(keyword, "#")).startswith("#"):
            yield f"refers to another document: {shortened(str(body[keyword]))}"
    if len(str(body.get("pattern", ""))) > MAX_PATTERN:
        yield f"a pattern of more than {MAX_PATTERN:,} characters"
    for low, high in _RANGES:
        if _is_number(body.get(low)) and _is_number(body.get(high)) and body[low] > body[high]:
            yield f"{low} {body[low]} is greater than {high} {body[high]}"


def _header_faults(parts: Sequence[Part]) -> Iterator[str]:
    """Clients that follow the protocol hide a tool whose parameters have invalid headers."""
    headers: set[str] = set()
    for part in parts:
        header = part.body.get(HEADER)
        if header is None:
            continue
        if not isinstance(header, str) or not _TOKEN.fullmatch(header):
            yield f"{part}: {HEADER} is not the name of a header"
        elif not part.is_parameter:
            yield f"{part}: {HEADER} is for parameters only"
        elif part.body.get("type") not in ("string", "integer", "boolean"):
            yield f"{part}: {HEADER} needs a string, an integer or a boolean"
        elif header.lower() in headers:
            yield f"{part}: {HEADER} {header} is used twice"
        else:
            headers.add(header.lower())


def _endless(parts: Sequence[Part]) -> str:
    """The name of a part whose references lead back to it for the same value; empty if there is none."""
    edges: dict[str, list[str]] = {}
    for part in parts:
        address = pointer(part.steps)
        targets = [str(part.body[keyword]) for keyword in _REFERENCES if keyword in part.body]
        edges.setdefault(address, []).extend(target.removeprefix("#") for target in targets)
        if part.same_value_as is not None:
            edges.setdefault(pointer(part.same_value_as), []).append(address)
    for part in parts:
        start = pointer(part.steps)
        pending, visited = list(edges[start]), set[str]()
        while pending:
            current = pending.pop()
            if current == start:
                return str(part)
            if current not in visited:
                visited.add(current)
                pending.extend(edges.get(current, ()))
    return ""


def _default_is_valid(schema: Schema, part: Part) -> bool:
    if "default" not in part.body:
        return True
    uri = "toolhub:schema"
    registry = jsonschema_rs.Registry([(uri, {"$schema": DIALECT, **schema})])
    reference = {"$schema": DIALECT, "$ref": f"{uri}#{quote(pointer(part.steps))}"}
    return bool(validator_of(reference, registry).is_valid(part.body["default"]))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
