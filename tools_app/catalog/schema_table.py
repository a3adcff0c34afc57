"""A JSON Schema as a table for people: one row per value, nested values below their parent."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from django.utils.translation import gettext

from tools_app.sdk.checker import EXPECTATIONS

MOST_ROWS: Final = 200
MOST_DEPTH: Final = 6
MOST_CHOICES: Final = 30

# Keyword → English phrase. Other keywords are visible in the raw schema only.
LIMITS: Final = {
    **{keyword: words for keyword, words in EXPECTATIONS.items() if "{}" in words},
    "pattern": "matches {}",
    "format": "format {}",
}


@dataclass(frozen=True, slots=True)
class SchemaRow:
    path: str
    depth: int
    type: str
    required: bool
    default: str
    constraints: str
    description: str

    def __str__(self) -> str:
        text = ", ".join(filter(None, (self.type, "required" if self.required else "optional", self.constraints)))
        return f"{text}: {self.description}" if self.description else text


def rows(schema: object) -> list[SchemaRow]:
    """The values that a schema describes, in its order; at most `MOST_ROWS`."""
    if not isinstance(schema, Mapping):
        return []
    table: list[SchemaRow] = []
    for one in _properties(schema, definitions(schema), "", 0):
        table.append(one)
        if len(table) == MOST_ROWS:
            break
    return table


def _properties(part: Mapping[str, Any], defs: Mapping[str, Any], path: str, depth: int) -> Iterator[SchemaRow]:
    properties = part.get("properties")
    if not isinstance(properties, Mapping) or depth > MOST_DEPTH:
        return
    names = part.get("required")
    required = set(map(str, names)) if isinstance(names, list) else set()
    for name, child in properties.items():
        yield from _value(f"{path}{name}", child, defs, depth, str(name) in required)


def row(path: str, part: Any, defs: Mapping[str, Any], *, required: bool, depth: int = 0) -> SchemaRow:
    """One value, without what is in it."""
    shape = resolved(part, defs)
    return SchemaRow(
        path=path,
        depth=depth,
        type=_type(shape, defs),
        required=required,
        default=_text(shape["default"]) if "default" in shape else "",
        constraints=", ".join(_constraints(shape, defs)),
        description=str(shape.get("description", "")),
    )


def rows_below(path: str, part: Any, defs: Mapping[str, Any]) -> list[SchemaRow]:
    """What is in a value; at most `MOST_ROWS`."""
    return list(islice(_value(path, part, defs, 0, False), 1, MOST_ROWS))


def _value(path: str, part: Any, defs: Mapping[str, Any], depth: int, required: bool) -> Iterator[SchemaRow]:
    shape = resolved(part, defs)
    yield row(path, part, defs, required=required, depth=depth)
    yield from _properties(shape, defs, f"{path}.", depth + 1)
    items = resolved(shape.get("items"), defs)
    yield from _properties(items, defs, f"{path}[].", depth + 1)
    for option in _options(shape, defs):
        yield from _properties(option, defs, f"{path}.", depth + 1)


def definitions(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    definitions_part = schema.get("$defs")
    return definitions_part if isinstance(definitions_part, Mapping) else {}


def resolved(part: Any, defs: Mapping[str, Any]) -> Mapping[str, Any]:
    """A part with its references resolved; empty if the chain is too long."""
    for _ in range(MOST_DEPTH):
        if not isinstance(part, Mapping):
            return {}
        reference = part.get("$ref")
        if not isinstance(reference, str):
            return part
        rest = {key: value for key, value in part.items() if key != "$ref"}
        target = defs.get(reference.removeprefix("#/$defs/"))
        part = {**target, **rest} if isinstance(target, Mapping) else rest
    return {}


def _options(part: Mapping[str, Any], defs: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    for keyword in ("anyOf", "oneOf"):
        options = part.get(keyword)
        if isinstance(options, list):
            return [resolved(option, defs) for option in options]
    return []


def _type(part: Mapping[str, Any], defs: Mapping[str, Any], depth: int = 0) -> str:
    types = part.get("type")
    if isinstance(types, list):
        return _either(map(str, types))
    if types == "array" and depth < MOST_DEPTH:
        items = resolved(part.get("items"), defs)
        return gettext("array of %(items)s") % {"items": _type(items, defs, depth + 1)} if items else "array"
    if isinstance(types, str):
        return types
    if depth < MOST_DEPTH and (options := _options(part, defs)):
        return _either(dict.fromkeys(_type(option, defs, depth + 1) for option in options))
    if "enum" in part or "const" in part:
        values = part.get("enum", [part.get("const")])
        kinds = {type(value).__name__ for value in values} if isinstance(values, list) else set()
        return "string" if kinds == {"str"} else "value"
    return "any"


def _either(kinds: Iterable[str]) -> str:
    return f" {gettext('or')} ".join(kinds)


def _constraints(part: Mapping[str, Any], defs: Mapping[str, Any]) -> Iterator[str]:
    if "const" in part:
        yield gettext("always %(value)s") % {"value": _text(part["const"])}
    choices = part.get("enum")
    if isinstance(choices, list):
        texts = [_text(choice) for choice in choices[:MOST_CHOICES]]
        texts += ["…"] if len(choices) > MOST_CHOICES else []
        yield gettext("one of %(choices)s") % {"choices": ", ".join(texts)}
    for keyword, words in LIMITS.items():
        if keyword in part:
            yield gettext(words).format(_text(part[keyword], quoted=False))
    if part.get("uniqueItems") is True:
        yield gettext("unique items")
    for inner in (resolved(part.get("items"), defs), *_options(part, defs)):
        if inner:
            each = gettext("each %(limit)s") if "items" in part else "%(limit)s"
            yield from (each % {"limit": words} for words in _constraints_of_leaf(inner))


def _constraints_of_leaf(part: Mapping[str, Any]) -> Iterator[str]:
    """The constraints of an item or option itself; its own parts have their own rows."""
    yield from _constraints({key: part[key] for key in part if key not in {"items", "anyOf", "oneOf"}}, {})


def _text(value: Any, *, quoted: bool = True) -> str:
    if isinstance(value, str) and (not quoted or value):
        return value
    return json.dumps(value, ensure_ascii=False)
