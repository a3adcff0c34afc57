"""Validation with messages for agents: the schema is compiled once, a check takes microseconds.

Only this module phrases what is wrong with a value: the faults that JSON Schema finds in the arguments of tools, and
those that pydantic finds in REST requests.
"""

from __future__ import annotations

import copy
import json
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, Final

import jsonschema_rs
from jsonschema_rs import ValidationErrorKind as Kind

from tools_app.sdk import heavy
from tools_app.sdk.errors import Problem, shortened
from tools_app.sdk.schemas import EACH, MAX_NESTING, Place, Schema, address, compiled, named, shown_type
from tools_app.text.budget import written

ARGUMENTS: Final = "the arguments"
MAX_PROBLEMS: Final = 20
MAX_CHOICES_LISTED: Final = 30
# Values of up to this many parts are checked for all problems, larger ones for the first only: the validator cannot
# stop at the twentieth.
SMALL: Final = 1_000

_DIGITS: Final = re.compile("0|[1-9][0-9]{0,14}")
# Names that callers send are compared as far, and have to be as similar, from 0 to 1.
MOST_COMPARED: Final = 64
_LIKE: Final = 0.75
_BETWEEN_WORDS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[-_. ]+")


class Checker:
    """A compiled schema that lists all problems of a value, in words for an agent."""

    __slots__ = ("_defaults", "_digits", "_messages", "_numbers", "_validator", "schema")

    def __init__(
        self,
        schema: Schema,
        messages: Mapping[tuple[str, ...], str] | None = None,
        numbers: frozenset[Place] = frozenset(),
        digits: frozenset[Place] = frozenset(),
        *,
        fills_in: bool = True,
    ) -> None:
        self.schema = schema
        self._validator = compiled(schema)
        self._messages = dict(messages or {})
        self._numbers = numbers
        self._digits = digits
        self._defaults = {
            name: part["default"]
            for name, part in schema.get("properties", {}).items()
            if fills_in and isinstance(part, dict) and "default" in part
        }

    def accepts(self, value: Any) -> bool:
        return not self.problems(value)

    def problems(self, value: Any, parts: int | None = None) -> list[Problem]:
        """The problems of a value, missing parameters first: at most MAX_PROBLEMS, and the number of the others.

        Empty if the value is valid. `parts`: their number, if the value was measured and is known to be JSON.
        """
        try:
            if self._validator.is_valid(value):
                if parts is None:
                    written(value).encode()  # where the schema allows anything, the validator checks nothing
                return []
            is_small = (heavy.measured(value, SMALL).parts if parts is None else parts) <= SMALL
            errors = self._errors(value, is_small)
            ranked = [entry for error in errors for entry in self._describe(error)]
        except (ValueError, TypeError, RecursionError):  # the value contains something that is not JSON
            return [not_json(value)]
        ranked.sort(key=operator.itemgetter(0))
        return listed([problem for _, problem in ranked], len(ranked) + sum(map(_omitted_names, errors)))

    def with_defaults(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments with the schema's top-level defaults, and with ids converted to the type in the schema."""
        for place in self._numbers:
            arguments = _changed(arguments, place, _as_text)
        for place in self._digits:
            arguments = _changed(arguments, place, _as_number)
        missing = [name for name in self._defaults if name not in arguments]
        if not missing:
            return arguments
        return arguments | {name: copy.deepcopy(self._defaults[name]) for name in missing}

    def _errors(self, value: Any, is_small: bool) -> list[jsonschema_rs.ValidationError]:
        if is_small:
            return list(self._validator.iter_errors(value))
        try:
            self._validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            return [error]
        return []

    def _describe(self, error: jsonschema_rs.ValidationError) -> list[tuple[int, Problem]]:
        """The problems, each with its rank in the list."""
        path = list(error.instance_path)
        steps = tuple(str(step) for step in error.schema_path)
        message = self._messages.get(steps[:-1])
        match error.kind:
            case Kind.Required(property=name):
                message = self._messages.get((*steps[:-1], "properties", name))
                return [(0, missing([*path, name], message=message))]
            case Kind.AdditionalProperties(unexpected=names) | Kind.UnevaluatedProperties(unexpected=names):
                allowed = sorted(self._properties(steps[:-1]))
                return [(3, unknown([*path, name], _allowed(name, allowed))) for name in names[:MAX_PROBLEMS]]
            case Kind.Type(types=types):
                # null means that there is no value: the message for a missing value applies.
                rank, problem = _of_type(path, types, error.instance, message if error.instance is None else None)
                if error.instance is None and self._is_optional(steps):
                    # Many models send null for what they do not need.
                    problem = replace(problem, expected=f"{problem.expected}, or leave it out")
                return [(rank, problem)]
            case Kind.AnyOf(context=branches) | Kind.OneOfNotValid(context=branches):
                return self._alternatives(path, branches, message)
            case kind:
                return [(2, invalid(path, _expectation(kind), message=message))]

    def _alternatives(
        self, path: list[str | int], branches: list[list[jsonschema_rs.ValidationError]], message: str | None
    ) -> list[tuple[int, Problem]]:
        """Why none of several schemas matches. If only one has the right type, its problems are described."""
        firsts = [branch[0] for branch in branches if branch]
        types = [error.kind for error in firsts if isinstance(error.kind, Kind.Type)]
        at_path = [error for error in firsts if list(error.instance_path) == path]
        if len(types) == len(at_path) == len(branches):
            return [_of_type(path, [name for kind in types for name in kind.types], firsts[0].instance)]
        right_type = [
            branch
            for branch in branches
            if not any(isinstance(e.kind, Kind.Type) and list(e.instance_path) == path for e in branch)
        ]
        if len(right_type) == 1 and message is None:
            return [entry for error in right_type[0] for entry in self._describe(error)]
        expected = [problem.expected for error in firsts for _, problem in self._describe(error)[:1]]
        return [(2, invalid(path, ", or ".join(dict.fromkeys(expected)), message=message))]

    def _properties(self, steps: Sequence[str]) -> Mapping[str, Any]:
        properties = self._node(steps).get("properties")
        return properties if isinstance(properties, dict) else {}

    def _is_optional(self, steps: Sequence[str]) -> bool:
        """Whether the value with this schema path, of its `type`, can be left out."""
        return steps[-3:-2] == ("properties",) and steps[-2] not in self._node(steps[:-3]).get("required", ())

    def _node(self, steps: Sequence[str]) -> Mapping[str, Any]:
        node: Any = self.schema
        for step in steps:
            if isinstance(node, list):
                node = node[int(step)] if step.isdecimal() and int(step) < len(node) else None
            else:
                node = node.get(step) if isinstance(node, dict) else None
        return node if isinstance(node, dict) else {}


def missing(path: Sequence[Any], expected: str = "a value", *, message: str | None = None) -> Problem:
    return Problem(address(path), message or f"Required parameter missing: {named(path)}", expected)


def unknown(path: Sequence[Any], expected: str = "") -> Problem:
    return Problem(address(path), f"Unknown parameter: {named(path)}", expected)


def mistyped(path: Sequence[Any], expected: str, *, message: str | None = None, whole: str = ARGUMENTS) -> Problem:
    """`whole` is what a path of no steps means."""
    message = message or f"Invalid type for {_subject(path, whole)}: expected {expected}"
    return Problem(address(path), message, expected)


def invalid(path: Sequence[Any], expected: str, *, message: str | None = None, whole: str = ARGUMENTS) -> Problem:
    message = message or f"Invalid value for {_subject(path, whole)}: expected {expected}"
    return Problem(address(path), message, expected)


def rejected(path: Sequence[Any], reason: str, expected: str = "") -> Problem:
    """The problem of a value that matches its schema, but cannot be used."""
    reason += f"; expected {expected}" if expected else ""
    return Problem(address(path), f"Invalid value for parameter {named(path)}: {reason}", expected)


def listed(problems: Sequence[Problem], total: int) -> list[Problem]:
    """The first problems of all, and the number of the others."""
    first = list(problems[:MAX_PROBLEMS])
    return [*first, Problem.more(total - len(first))] if total > len(first) else first


def described(fault: Mapping[str, Any], path: Sequence[Any], whole: str) -> Problem:
    """The problem for one of pydantic's errors. It never repeats the value that was sent."""
    kind, limits = fault["type"], fault.get("ctx", {})
    if kind == "missing":
        return missing(path, message=None if path else "A JSON object is required")
    if kind == "extra_forbidden":
        return unknown(path)
    if expected := _PYDANTIC_TYPES.get(kind):
        return mistyped(path, expected, whole=whole)
    if kind == "string_too_short":
        return invalid(path, _NOT_EMPTY, whole=whole)
    keyword, limit = _PYDANTIC_LIMITS.get(kind, ("", "expected"))
    return invalid(path, EXPECTATIONS.get(keyword, "{}").format(limits.get(limit, "another value")), whole=whole)


def _subject(path: Sequence[Any], whole: str) -> str:
    return f"parameter {named(path)}" if path else whole


def _omitted_names(error: jsonschema_rs.ValidationError) -> int:
    """The number of unknown parameters that `_describe` leaves out."""
    match error.kind:
        case Kind.AdditionalProperties(unexpected=names) | Kind.UnevaluatedProperties(unexpected=names):
            return max(0, len(names) - MAX_PROBLEMS)
    return 0


def _of_type(path: Sequence[Any], types: Sequence[str], value: Any, message: str | None = None) -> tuple[int, Problem]:
    if "integer" in types and isinstance(value, int | float) and not isinstance(value, bool):
        # The value is a number already: with "expected number", a caller would send it again.
        return 2, invalid(path, _either("a whole number" if name == "integer" else name for name in types))
    return 1, mistyped(path, _either(map(shown_type, types)), message=message)


def _allowed(name: str, allowed: Sequence[str]) -> str:
    """The names that exist, the one that was probably meant first."""
    names = f"one of: {', '.join(allowed) or 'none'}"
    name_meant = meant(name, allowed)
    return f"{name_meant}, or {names}" if name_meant else names


def meant(name: str, allowed: Sequence[str]) -> str:
    """The name that differs only in style, or in what it is the name of (`issue_id` and `id`), or in a few letters."""
    by_words = {_words(candidate): candidate for candidate in allowed}
    words = _words(name[:MOST_COMPARED])
    if words in by_words:
        return by_words[words]
    endings = [candidate for other, candidate in by_words.items() if _ends(words, other) or _ends(other, words)]
    if len(endings) == 1:
        return endings[0]
    close = get_close_matches(words, by_words, 1, _LIKE)
    return by_words[close[0]] if close else ""


def _words(name: str) -> str:
    """`workflowId`, `Workflow-ID` and `workflow_id` are the same words."""
    return _BETWEEN_WORDS.sub("_", name).lower()


def _ends(words: str, ending: str) -> bool:
    return bool(ending) and words.endswith(f"_{ending}")


def _either(names: Iterable[str]) -> str:
    return " or ".join(sorted(dict.fromkeys(names), key="null".__eq__))


def _expectation(kind: Kind) -> str:
    """The accepted value in words; never the value that was sent, which can be a secret."""
    match kind:
        case Kind.Enum(options=[only]) | Kind.Constant(expected_value=only):
            return _value(only)
        case Kind.Enum(options=options):
            choices = ", ".join(map(_value, options[:MAX_CHOICES_LISTED]))
            more = f", … ({len(options)} in total)" if len(options) > MAX_CHOICES_LISTED else ""
            return f"one of {choices}{more}"
        case Kind.Pattern(pattern=pattern):
            return f"text that matches {pattern}"
        case Kind.MinLength(limit=1) | Kind.MinItems(limit=1) | Kind.MinProperties(limit=1):
            return _NOT_EMPTY
        case Kind.FalseSchema():
            return "no value"
    template = EXPECTATIONS.get(kind.name)
    return template.format(kind.value) if template else "what the schema describes"


# Schema keyword → the accepted value, in words.
EXPECTATIONS: Final = {
    "minimum": "{} or more",
    "maximum": "{} or less",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "minProperties": "at least {} entries",
    "maxProperties": "at most {} entries",
    "uniqueItems": "items that differ from each other",
}
_NOT_EMPTY: Final = "a value that is not empty"
# Types of pydantic's errors → the expected type, or the schema keyword and the name of the limit.
_PYDANTIC_TYPES: Final = {
    "string_type": "string",
    "int_type": "integer",
    "bool_type": "boolean",
    "dict_type": "object",
    "model_type": "object",
    "model_attributes_type": "object",
    "list_type": "array",
}
_PYDANTIC_LIMITS: Final = {
    "greater_than_equal": ("minimum", "ge"),
    "less_than_equal": ("maximum", "le"),
    "string_too_long": ("maxLength", "max_length"),
}


def _value(value: Any) -> str:
    return shortened(value if isinstance(value, str) else json.dumps(value))


def _changed(value: Any, place: Place, change: Callable[[Any], Any]) -> Any:
    """The value with `change` applied at a place; the same object if nothing changes."""
    if not place:
        return change(value)
    step, rest = place[0], place[1:]
    if step == EACH:
        if not isinstance(value, list) or len(value) > SMALL:
            return value
        items = [_changed(item, rest, change) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    if not isinstance(value, dict) or step not in value:
        return value
    part = _changed(value[step], rest, change)
    return value if part is value[step] else value | {step: part}


def _as_text(value: Any) -> Any:
    return str(value) if type(value) is int and abs(value) < 2**53 else value


def _as_number(value: Any) -> Any:
    return int(value) if isinstance(value, str) and _DIGITS.fullmatch(value) else value


def not_json(value: Any) -> Problem:
    """The first place at which a value is not JSON."""
    pending: list[tuple[tuple[Any, ...], Any]] = [((), value)]
    while pending:
        path, current = pending.pop()
        if len(path) > MAX_NESTING:
            return invalid(path[:3], f"at most {MAX_NESTING} levels")
        match current:
            case dict():
                if any(not isinstance(key, str) or not _encodable(key) for key in current):
                    return invalid(path, "names that are text")
                pending.extend(((*path, key), item) for key, item in reversed(current.items()))
            case list() | tuple():
                pending.extend(((*path, index), item) for index, item in reversed(list(enumerate(current))))
            case str() if not _encodable(current):
                return invalid(path, "text without lone surrogates")
            case float() if not math.isfinite(current):
                return invalid(path, "a finite number")
            case None | bool() | int() | float() | str():
                pass
            case _:
                return invalid(path, "a JSON value")
    return invalid((), "JSON")


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
