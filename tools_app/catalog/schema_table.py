"""A JSON Schema as a table that people can read: one row a value, nested ones below the one they belong to."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.utils.translation import gettext

from tools_app.sdk.checker import EXPECTATIONS

MOST_ROWS: Final = 200
MOST_DEPTH: Final = 6
MOST_CHOICES: Final = 30

# Keyword → how it reads, as callers are told it in English. What is not here still stands in the raw schema.
LIMITS: Final = {
    **{keyword: words for keyword, words in EXPECTATIONS.items() if "{}" in words},
    "pattern": "matches {}",
    "format": "format {}",
}


@dataclass(frozen=True, slots=True)
class Row:
    path: str
    depth: int
    type: str
    required: bool
    default: str
    constraints: str
    description: str

    def __str__(self) -> str:
        told = ", ".join(filter(None, (self.type, "required" if self.required else "optional", self.constraints)))
        return f"{told}: {self.description}" if self.description else told


def rows(schema: object) -> list[Row]:
    """The values that a schema describes, in its own order; at most `MOST_ROWS` of them."""
    if not isinstance(schema, Mapping):
        return []
    found: list[Row] = []
    for row in _properties(schema, definitions(schema), "", 0):
        found.append(row)
        if len(found) == MOST_ROWS:
            break
    return found


def _properties(part: Mapping[str, Any], known: Mapping[str, Any], path: str, depth: int) -> Iterator[Row]:
    properties = part.get("properties")
    if not isinstance(properties, Mapping) or depth > MOST_DEPTH:
        return
    needed = part.get("required")
    required = set(map(str, needed)) if isinstance(needed, list) else set()
    for name, child in properties.items():
        yield from _value(f"{path}{name}", child, known, depth, str(name) in required)


def _value(path: str, part: Any, known: Mapping[str, Any], depth: int, required: bool) -> Iterator[Row]:
    shape = resolved(part, known)
    yield Row(
        path=path,
        depth=depth,
        type=_type(shape, known),
        required=required,
        default=_text(shape["default"]) if "default" in shape else "",
        constraints=", ".join(_constraints(shape, known)),
        description=str(shape.get("description", "")),
    )
    yield from _properties(shape, known, f"{path}.", depth + 1)
    items = resolved(shape.get("items"), known)
    yield from _properties(items, known, f"{path}[].", depth + 1)
    for option in _options(shape, known):
        yield from _properties(option, known, f"{path}.", depth + 1)


def definitions(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    found = schema.get("$defs")
    return found if isinstance(found, Mapping) else {}


def resolved(part: Any, known: Mapping[str, Any]) -> Mapping[str, Any]:
    """A part with its reference followed; a chain of references ends sooner or later, or at nothing."""
    for _ in range(MOST_DEPTH):
        if not isinstance(part, Mapping):
            return {}
        reference = part.get("$ref")
        if not isinstance(reference, str):
            return part
        rest = {key: value for key, value in part.items() if key != "$ref"}
        target = known.get(reference.removeprefix("#/$defs/"))
        part = {**target, **rest} if isinstance(target, Mapping) else rest
    return {}


def _options(part: Mapping[str, Any], known: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    for keyword in ("anyOf", "oneOf"):
        options = part.get(keyword)
        if isinstance(options, list):
            return [resolved(option, known) for option in options]
    return []


def _type(part: Mapping[str, Any], known: Mapping[str, Any], depth: int = 0) -> str:
    named = part.get("type")
    if isinstance(named, list):
        return _either(map(str, named))
    if named == "array" and depth < MOST_DEPTH:
        items = resolved(part.get("items"), known)
        return gettext("array of %(items)s") % {"items": _type(items, known, depth + 1)} if items else "array"
    if isinstance(named, str):
        return named
    if depth < MOST_DEPTH and (options := _options(part, known)):
        return _either(dict.fromkeys(_type(option, known, depth + 1) for option in options))
    if "enum" in part or "const" in part:
        values = part.get("enum", [part.get("const")])
        kinds = {type(value).__name__ for value in values} if isinstance(values, list) else set()
        return "string" if kinds == {"str"} else "value"
    return "any"


def _either(kinds: Iterable[str]) -> str:
    return f" {gettext('or')} ".join(kinds)


def _constraints(part: Mapping[str, Any], known: Mapping[str, Any]) -> Iterator[str]:
    if "const" in part:
        yield gettext("always %(value)s") % {"value": _text(part["const"])}
    choices = part.get("enum")
    if isinstance(choices, list):
        shown = [_text(choice) for choice in choices[:MOST_CHOICES]]
        shown += ["…"] if len(choices) > MOST_CHOICES else []
        yield gettext("one of %(choices)s") % {"choices": ", ".join(shown)}
    for keyword, words in LIMITS.items():
        if keyword in part:
            yield gettext(words).format(_text(part[keyword], quoted=False))
    if part.get("uniqueItems") is True:
        yield gettext("unique items")
    for inner in (resolved(part.get("items"), known), *_options(part, known)):
        if inner:
            each = gettext("each %(limit)s") if "items" in part else "%(limit)s"
            yield from (each % {"limit": words} for words in _constraints_of_leaf(inner))


def _constraints_of_leaf(part: Mapping[str, Any]) -> Iterator[str]:
    """What holds for an item or an option itself; its own parts have rows of their own."""
    yield from _constraints({key: part[key] for key in part if key not in {"items", "anyOf", "oneOf"}}, {})


def _text(value: Any, *, quoted: bool = True) -> str:
    if isinstance(value, str) and (not quoted or value):
        return value
    return json.dumps(value, ensure_ascii=False)
