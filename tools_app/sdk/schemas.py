"""Which JSON Schemas can be published: without external references, of limited size, and fast to validate.

Draft 2020-12. A compiled schema matches patterns in linear time and never opens a connection.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import jsonschema_rs

from tools_app.sdk.errors import shortened

Schema = dict[str, Any]

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
MAX_DEPTH: Final = 16
MAX_SUBSCHEMAS: Final = 200
MAX_VALUES: Final = 20_000
MAX_CHARACTERS: Final = 256 * 1024
MAX_PATTERN: Final = 1_000
MAX_NESTING: Final = 64
# Enough for any hand-written pattern. Time grows with the size of the compiled pattern: at this limit the worst
# case takes about 20 ms on 100 kB, at ten times the limit it takes seconds.
PATTERN_BYTES: Final = 100_000
# Keys that annotations add for the validator; all are removed before publishing. A custom validation message:
MESSAGE: Final = "x-message"
# A text that can be sent as a whole number, and a whole number that can be sent as a text of digits:
OR_NUMBER: Final = "x-or-number"
OR_DIGITS: Final = "x-or-digits"
HEADER: Final = "x-mcp-header"

_MAPS: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
_SINGLES: Final = (
    *("items", "contains", "unevaluatedItems", "additionalProperties", "unevaluatedProperties"),
    *("propertyNames", "not", "if", "then", "else", "contentSchema"),
)
# Subschemas under these keywords apply to the same value as their parent.
_IN_PLACE: Final = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"})
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
_RANGES: Final = (("minimum", "maximum"), ("minLength", "maxLength"), ("minItems", "maxItems"))
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_OPTIONS: Final = jsonschema_rs.RegexOptions(size_limit=PATTERN_BYTES)


class SchemaError(ValueError):
    """A schema, or an annotation to convert into one, is not valid; the message says why."""


def compiled(schema: Schema) -> Any:
    """A validator that matches patterns in linear time and never fetches anything.

    Raises:
        SchemaError: the schema is not valid, refers to another document, or has a pattern that needs backtracking.
    """
    return _validator_of({"$schema": DIALECT, **schema})


def _validator_of(schema: Schema, registry: jsonschema_rs.Registry | None = None) -> Any:
    try:
        return jsonschema_rs.validator_for(schema, registry=registry, pattern_options=_OPTIONS, offline=True)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise SchemaError(_explained(first)) from error


def shown_type(name: str) -> str:
    """The name of a type in messages and parameter lists: `number` for both kinds of numbers."""
    return "number" if name == "integer" else name


def take_messages(schema: Schema) -> tuple[Schema, dict[tuple[str, ...], str]]:
    """Remove the custom messages: the schema to publish, and schema path → message."""
    published: Schema = copy.deepcopy(schema)
    messages: dict[tuple[str, ...], str] = {}
    for part in parts_of(published):
        if isinstance(message := part.body.pop(MESSAGE, None), str):
            messages[part.steps] = message
    return published, messages


# The place of a value: names of properties, and EACH for the items of a list.
Place = tuple[str, ...]
EACH: Final = ""


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


@dataclass(frozen=True, slots=True)
class Part:
    """A subschema, its path, and a readable name for the path: `nodes[].name`."""

    body: Schema
    steps: tuple[str, ...] = ()
    name: str = ""
    depth: int = 1
    is_parameter: bool = False
    same_value_as: tuple[str, ...] | None = None

    def __str__(self) -> str:
        return self.name.lstrip(".") or "the root"

    def child(self, body: Schema, keyword: str, key: str | None = None) -> Part:
        suffix = f".{shortened(key or '')}" if keyword in _MAPS else "[]" if keyword == "items" else ""
        return Part(
            body,
            (*self.steps, keyword) if key is None else (*self.steps, keyword, key),
            self.name + suffix,
            self.depth + 1,
            keyword == "properties" and (self.is_parameter or not self.steps),
            self.steps if keyword in _IN_PLACE else None,
        )

    def children(self) -> Iterator[Part]:
        for keyword, value in self.body.items():
            if keyword in _MAPS and isinstance(value, dict):
                for key, body in value.items():
                    if isinstance(body, dict):
                        yield self.child(body, keyword, str(key))
            elif keyword in _LISTS and isinstance(value, list):
                for index, body in enumerate(value):
                    if isinstance(body, dict):
                        yield self.child(body, keyword, str(index))
            elif keyword in _SINGLES and isinstance(value, dict):
                yield self.child(value, keyword)


def parts_of(schema: Schema) -> Iterator[Part]:
    """Every subschema, parents first."""
    pending = [Part(schema)]
    while pending:
        part = pending.pop()
        yield part
        pending.extend(reversed(list(part.children())))


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
    return bool(_validator_of(reference, registry).is_valid(part.body["default"]))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _explained(fault: str) -> str:
    if fault.endswith('is not a "regex"'):
        pattern = shortened(fault.removesuffix(' is not a "regex"'))
        return (
            f"{pattern} is not a regular expression, is too large, or needs lookaround or backreferences, "
            "which are refused because matching them can take exponential time"
        )
    return shortened(fault, 200)


# ---- naming places


def named(path: Sequence[Any]) -> str:
    """A place in the arguments for messages: short and printable, since callers choose some of the names."""
    return shortened(dotted(path))


def address(path: Sequence[Any]) -> str:
    """The JSON Pointer of a place in the arguments, each step short and printable."""
    return pointer([shortened(str(step)) for step in path])


def dotted(path: Sequence[Any]) -> str:
    return ".".join(str(step) for step in path) or "(all)"


def pointer(path: Sequence[Any]) -> str:
    """The JSON Pointer of a place."""
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in path)
