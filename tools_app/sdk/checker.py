"""Validation with messages for agents: the schema is compiled once, a check takes microseconds."""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import jsonschema_rs
from jsonschema_rs import ValidationErrorKind as Kind

from tools_app.sdk.errors import Problem, shortened
from tools_app.sdk.schemas import EACH, MAX_NESTING, Place, Schema, address, compiled, named, shown_type

MAX_PROBLEMS: Final = 20
MAX_CHOICES_LISTED: Final = 30
# Values of up to this many parts are checked for all problems, larger ones for the first only: the validator cannot
# stop at the twentieth.
SMALL: Final = 1_000

_DIGITS: Final = re.compile("0|[1-9][0-9]{0,14}")
_encode: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


class Checker:
    """A compiled schema that lists all problems of a value, in words for an agent."""

    __slots__ = ("_defaults", "_digits", "_messages", "_numbers", "_validator", "schema")

    def __init__(
        self,
        schema: Schema,
        messages: Mapping[tuple[str, ...], str] | None = None,
        numbers: frozenset[Place] = frozenset(),
        digits: frozenset[Place] = frozenset(),
    ) -> None:
        self.schema = schema
        self._validator = compiled(schema)
        self._messages = dict(messages or {})
        self._numbers = numbers
        self._digits = digits
        self._defaults = {
            name: part["default"]
            for name, part in schema.get("properties", {}).items()
            if isinstance(part, dict) and "default" in part
        }

    def accepts(self, value: Any) -> bool:
        return not self.problems(value)

    def problems(self, value: Any) -> list[Problem]:
        """The problems of a value, missing parameters first: at most MAX_PROBLEMS, and the number of the others.

        Empty if the value is valid.
        """
        try:
            if self._validator.is_valid(value):
                _encode(value).encode()  # parts for which the schema allows anything are not checked by the validator
                return []
            errors = self._errors(value)
            ranked = [entry for error in errors for entry in self._describe(error)]
        except (ValueError, TypeError, RecursionError):  # the value contains something that is not JSON
            return [_not_json(value)]
        ranked.sort(key=lambda entry: entry.rank)
        problems = [entry.problem for entry in ranked[:MAX_PROBLEMS]]
        more = len(ranked) - len(problems) + sum(map(_omitted_names, errors))
        return [*problems, Problem.more(more)] if more else problems

    def with_defaults(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments with the schema's top-level defaults, and with ids converted to the type in the schema."""
        for place in self._numbers:
            arguments = _changed(arguments, place, _as_text)
        for place in self._digits:
            arguments = _changed(arguments, place, _as_number)
        missing = self._defaults.keys() - arguments.keys()
        if not missing:
            return arguments
        return arguments | {name: copy.deepcopy(self._defaults[name]) for name in missing}

    def _errors(self, value: Any) -> list[jsonschema_rs.ValidationError]:
        if is_small(value):
            return list(self._validator.iter_errors(value))
        try:
            self._validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            return [error]
        return []

    def _describe(self, error: jsonschema_rs.ValidationError) -> list[_RankedProblem]:
        path = list(error.instance_path)
        steps = tuple(str(step) for step in error.schema_path)
        message = self._messages.get(steps[:-1])
        match error.kind:
            case Kind.Required(property=name):
                message = self._messages.get((*steps[:-1], "properties", name))
                return [_missing([*path, name], message)]
            case Kind.AdditionalProperties(unexpected=names) | Kind.UnevaluatedProperties(unexpected=names):
                allowed_names = ", ".join(sorted(self._properties(steps[:-1]))) or "none"
                return [_unknown([*path, name], allowed_names) for name in names[:MAX_PROBLEMS]]
            case Kind.Type(types=types):
                # null means that there is no value: the message for a missing value applies.
                return [_mistyped(path, types, error.instance, message if error.instance is None else None)]
            case Kind.AnyOf(context=branches) | Kind.OneOfNotValid(context=branches):
                return self._alternatives(path, branches, message)
            case kind:
                return [_invalid(path, _expectation(kind), message)]

    def _alternatives(
        self, path: list[str | int], branches: list[list[jsonschema_rs.ValidationError]], message: str | None
    ) -> list[_RankedProblem]:
        """Why none of several schemas matches. If only one has the right type, its problems are described."""
        firsts = [branch[0] for branch in branches if branch]
        types = [error.kind for error in firsts if isinstance(error.kind, Kind.Type)]
        at_path = [error for error in firsts if list(error.instance_path) == path]
        if len(types) == len(at_path) == len(branches):
            return [_mistyped(path, [name for kind in types for name in kind.types], firsts[0].instance)]
        right_type = [
            branch
            for branch in branches
            if not any(isinstance(e.kind, Kind.Type) and list(e.instance_path) == path for e in branch)
        ]
        if len(right_type) == 1 and message is None:
            return [entry for error in right_type[0] for entry in self._describe(error)]
        expected = [entry.problem.expected for error in firsts for entry in self._describe(error)[:1]]
        return [_invalid(path, ", or ".join(dict.fromkeys(expected)), message)]

    def _properties(self, steps: Sequence[str]) -> Mapping[str, Any]:
        node: Any = self.schema
        for step in steps:
            if isinstance(node, list):
                node = node[int(step)] if step.isdecimal() and int(step) < len(node) else None
            else:
                node = node.get(step) if isinstance(node, dict) else None
        properties = node.get("properties") if isinstance(node, dict) else None
        return properties if isinstance(properties, dict) else {}


@dataclass(frozen=True, slots=True)
class _RankedProblem:
    """A problem, and its rank in the list."""

    rank: int
    problem: Problem


def _omitted_names(error: jsonschema_rs.ValidationError) -> int:
    """The number of unknown parameters that `_describe` leaves out."""
    match error.kind:
        case Kind.AdditionalProperties(unexpected=names) | Kind.UnevaluatedProperties(unexpected=names):
            return max(0, len(names) - MAX_PROBLEMS)
    return 0


def _missing(path: Sequence[Any], message: str | None) -> _RankedProblem:
    return _RankedProblem(0, Problem(address(path), message or f"Required parameter missing: {named(path)}", "a value"))


def _mistyped(path: Sequence[Any], types: Sequence[str], value: Any, message: str | None = None) -> _RankedProblem:
    if "integer" in types and isinstance(value, int | float) and not isinstance(value, bool):
        # The value is a number already: with "expected number", a caller would send it again.
        whole = ["a whole number" if name == "integer" else name for name in types]
        return _invalid(path, _either(whole))
    expected = _either(map(shown_type, types))
    subject = f"parameter {named(path)}" if path else "the arguments"
    message = message or f"Invalid type for {subject}: expected {expected}"
    return _RankedProblem(1, Problem(address(path), message, expected))


def _either(names: Iterable[str]) -> str:
    return " or ".join(sorted(dict.fromkeys(names), key="null".__eq__))


def _invalid(path: Sequence[Any], expected: str, message: str | None = None) -> _RankedProblem:
    subject = f"parameter {named(path)}" if path else "the arguments"
    message = message or f"Invalid value for {subject}: expected {expected}"
    return _RankedProblem(2, Problem(address(path), message, expected))


def _unknown(path: Sequence[Any], allowed_names: str) -> _RankedProblem:
    return _RankedProblem(3, Problem(address(path), f"Unknown parameter: {named(path)}", f"one of: {allowed_names}"))


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
            return "a value that is not empty"
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


def is_small(value: Any) -> bool:
    """Whether it has no more than SMALL parts."""
    pending, count = [value], 0
    while pending:
        current = pending.pop()
        count += 1
        if isinstance(current, dict | list | tuple):
            if count + len(pending) + len(current) > SMALL:
                return False
            pending.extend(current.values() if isinstance(current, dict) else current)
    return True


def _not_json(value: Any) -> Problem:
    """The first place at which a value is not JSON."""
    pending: list[tuple[tuple[Any, ...], Any]] = [((), value)]
    while pending:
        path, current = pending.pop()
        if len(path) > MAX_NESTING:
            return _invalid(path[:3], f"at most {MAX_NESTING} levels").problem
        match current:
            case dict():
                if any(not isinstance(key, str) or not _encodable(key) for key in current):
                    return _invalid(path, "names that are text").problem
                pending.extend(((*path, key), item) for key, item in reversed(current.items()))
            case list() | tuple():
                pending.extend(((*path, index), item) for index, item in reversed(list(enumerate(current))))
            case str() if not _encodable(current):
                return _invalid(path, "text without lone surrogates").problem
            case float() if not math.isfinite(current):
                return _invalid(path, "a finite number").problem
            case None | bool() | int() | float() | str():
                pass
            case _:
                return _invalid(path, "a JSON value").problem
    return _invalid((), "JSON").problem


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
