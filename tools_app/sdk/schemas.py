"""JSON Schemas: compiled ones, their parts, and names for the places of values. Draft 2020-12.

A compiled schema matches patterns in linear time and never opens a connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import jsonschema_rs

from tools_app.sdk.errors import shortened

Schema = dict[str, Any]

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
MAX_NESTING: Final = 64
# Enough for any hand-written pattern. Time grows with the size of the compiled pattern: at this limit the worst
# case takes about 20 ms on 100 kB, at ten times the limit it takes seconds.
PATTERN_BYTES: Final = 100_000
# Keys that annotations add for the validator; all are removed before publishing. A custom validation message:
MESSAGE: Final = "x-message"
# A text that can be sent as a whole number, and a whole number that can be sent as a text of digits:
OR_NUMBER: Final = "x-or-number"
OR_DIGITS: Final = "x-or-digits"

_MAPS: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
_SINGLES: Final = (
    *("items", "contains", "unevaluatedItems", "additionalProperties", "unevaluatedProperties"),
    *("propertyNames", "not", "if", "then", "else", "contentSchema"),
)
# Subschemas under these keywords apply to the same value as their parent.
_IN_PLACE: Final = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"})
_OPTIONS: Final = jsonschema_rs.RegexOptions(size_limit=PATTERN_BYTES)


class SchemaError(ValueError):
    """A schema, or an annotation to convert into one, is not valid; the message says why."""


def compiled(schema: Schema) -> Any:
    """A validator that matches patterns in linear time and never fetches anything.

    Raises:
        SchemaError: the schema is not valid, refers to another document, or has a pattern that needs backtracking.
    """
    return validator_of({"$schema": DIALECT, **schema})


def validator_of(schema: Schema, registry: jsonschema_rs.Registry | None = None) -> Any:
    try:
        return jsonschema_rs.validator_for(schema, registry=registry, pattern_options=_OPTIONS, offline=True)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise SchemaError(_explained(first)) from error


def shown_type(name: str) -> str:
    """The name of a type in messages and parameter lists: `number` for both kinds of numbers."""
    return "number" if name == "integer" else name


# The place of a value: names of properties, and EACH for the items of a list.
Place = tuple[str, ...]
EACH: Final = ""


@dataclass(frozen=True, slots=True)
class Part:
    """A subschema and its path."""

    body: Schema
    steps: tuple[str, ...] = ()
    depth: int = 1
    is_parameter: bool = False
    same_value_as: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        """The path in a readable form: `.nodes[].name`."""
        steps, text = iter(self.steps), ""
        for keyword in steps:
            if keyword in _MAPS:
                text += f".{shortened(next(steps))}"
            elif keyword in _LISTS:
                next(steps)
            elif keyword == "items":
                text += "[]"
        return text

    def __str__(self) -> str:
        return self.name.lstrip(".") or "the root"

    def child(self, body: Schema, keyword: str, key: str | None = None) -> Part:
        return Part(
            body,
            (*self.steps, keyword) if key is None else (*self.steps, keyword, key),
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


def with_parts(schema: Schema, change: Callable[[Schema], Schema]) -> Schema:
    """A copy with the results of `change` instead of the subschemas directly below. Everything else is shared."""
    copied = dict(schema)
    for keyword, value in schema.items():
        if keyword in _MAPS and isinstance(value, dict):
            copied[keyword] = {key: change(body) if isinstance(body, dict) else body for key, body in value.items()}
        elif keyword in _LISTS and isinstance(value, list):
            copied[keyword] = [change(body) if isinstance(body, dict) else body for body in value]
        elif keyword in _SINGLES and isinstance(value, dict):
            copied[keyword] = change(value)
    return copied


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
