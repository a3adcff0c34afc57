"""What is wrong with a value, in words for an agent: the schema is compiled once, checking takes microseconds."""

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
MAX_CHOICES_TOLD: Final = 30
# All faults are looked for in values of up to this many parts; in larger ones the first is told, since the
# validator has no way to stop at the twentieth.
SMALL: Final = 1_000

_DIGITS: Final = re.compile("0|[1-9][0-9]{0,14}")
_encode: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


class Checker:
    """A compiled schema: says everything that is wrong with a value, in words for an agent."""

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
        """What is wrong, missing parameters first: MAX_PROBLEMS at most, and how many more there are.

        Empty when the value fits.
        """
        try:
            if self._validator.is_valid(value):
                _encode(value).encode()  # where the schema takes anything, the validator does not look
                return []
            errors = self._errors(value)
            found = [told for error in errors for told in self._told(error)]
        except (ValueError, TypeError, RecursionError):  # it holds what JSON does not know
            return [_not_json(value)]
        found.sort(key=lambda told: told.rank)
        told = [one.problem for one in found[:MAX_PROBLEMS]]
        more = len(found) - len(told) + sum(map(_untold, errors))
        return [*told, Problem.more(more)] if more else told

    def with_defaults(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments, completed by the schema's top-level defaults, and ids of the type that the schema names."""
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

    def _told(self, error: jsonschema_rs.ValidationError) -> list[_Told]:
        where = list(error.instance_path)
        steps = tuple(str(step) for step in error.schema_path)
        own = self._messages.get(steps[:-1])
        match error.kind:
            case Kind.Required(property=name):
                own = self._messages.get((*steps[:-1], "properties", name))
                return [_missing([*where, name], own)]
            case Kind.AdditionalProperties(unexpected=names) | Kind.UnevaluatedProperties(unexpected=names):
                known = ", ".join(sorted(self._properties(steps[:-1]))) or "none"
                return [_unknown([*where, name], known) for name in names[:MAX_PROBLEMS]]
            case Kind.Type(types=types):
                # null says that there is no value: the words for a missing one fit.
                return [_mistyped(where, types, error.instance, own if error.instance is None else None)]
            case Kind.AnyOf(context=branches) | Kind.OneOfNotValid(context=branches):
                return self._alternatives(where, branches, own)
            case kind:
                return [_unfit(where, _expectation(kind), own)]

    def _alternatives(
        self, where: list[str | int], branches: list[list[jsonschema_rs.ValidationError]], own: str | None
    ) -> list[_Told]:
        """Why none of several schemas fits: what is wrong with the one that was meant, where that is clear."""
        firsts = [branch[0] for branch in branches if branch]
        types = [error.kind for error in firsts if isinstance(error.kind, Kind.Type)]
        here = [error for error in firsts if list(error.instance_path) == where]
        if len(types) == len(here) == len(branches):
            return [_mistyped(where, [name for kind in types for name in kind.types], firsts[0].instance)]
        meant = [
            branch
            for branch in branches
            if not any(isinstance(e.kind, Kind.Type) and list(e.instance_path) == where for e in branch)
        ]
        if len(meant) == 1 and own is None:
            return [told for error in meant[0] for told in self._told(error)]
        expected = [told.problem.expected for error in firsts for told in self._told(error)[:1]]
        return [_unfit(where, ", or ".join(dict.fromkeys(expected)), own)]

    def _properties(self, steps: Sequence[str]) -> Mapping[str, Any]:
        node: Any = self.schema
        for step in steps:
            if isinstance(node, list):
                node = node[int(step)] if step.isdecimal() and int(step) < len(node) else None
            else:
                node = node.get(step) if isinstance(node, dict) else None
        found = node.get("properties") if isinstance(node, dict) else None
        return found if isinstance(found, dict) else {}


@dataclass(frozen=True, slots=True)
class _Told:
    """A problem, and how early it is told."""

    rank: int
    problem: Problem


def _untold(error: jsonschema_rs.ValidationError) -> int:
    """How many of the names that nobody asked for `_told` leaves out."""
    match error.kind:
        case Kind.AdditionalProperties(unexpected=names) | Kind.UnevaluatedProperties(unexpected=names):
            return max(0, len(names) - MAX_PROBLEMS)
    return 0


def _missing(path: Sequence[Any], own: str | None) -> _Told:
    message = own or f"Required parameter missing: {named(path)}"
    return _Told(0, Problem(address(path), message, "a value"))


def _mistyped(path: Sequence[Any], types: Sequence[str], value: Any, own: str | None = None) -> _Told:
    if "integer" in types and isinstance(value, int | float) and not isinstance(value, bool):
        # It is a number, and told to be one a caller would send it again.
        whole = ["a whole number" if name == "integer" else name for name in types]
        return _unfit(path, _either(whole))
    expected = _either(map(shown_type, types))
    subject = f"parameter {named(path)}" if path else "the arguments"
    return _Told(1, Problem(address(path), own or f"Invalid type for {subject}: expected {expected}", expected))


def _either(names: Iterable[str]) -> str:
    return " or ".join(sorted(dict.fromkeys(names), key="null".__eq__))


def _unfit(path: Sequence[Any], expected: str, own: str | None = None) -> _Told:
    subject = f"parameter {named(path)}" if path else "the arguments"
    message = own or f"Invalid value for {subject}: expected {expected}"
    return _Told(2, Problem(address(path), message, expected))


def _unknown(path: Sequence[Any], known: str) -> _Told:
    return _Told(3, Problem(address(path), f"Unknown parameter: {named(path)}", f"one of: {known}"))


def _expectation(kind: Kind) -> str:
    """What would have been accepted; never what was sent, which may be a secret."""
    match kind:
        case Kind.Enum(options=[only]) | Kind.Constant(expected_value=only):
            return _value(only)
        case Kind.Enum(options=options):
            told = ", ".join(map(_value, options[:MAX_CHOICES_TOLD]))
            more = f", … ({len(options)} in all)" if len(options) > MAX_CHOICES_TOLD else ""
            return f"one of {told}{more}"
        case Kind.Pattern(pattern=pattern):
            return f"text that matches {pattern}"
        case Kind.MinLength(limit=1) | Kind.MinItems(limit=1) | Kind.MinProperties(limit=1):
            return "a value that is not empty"
        case Kind.FalseSchema():
            return "no value"
    template = EXPECTATIONS.get(kind.name)
    return template.format(kind.value) if template else "what the schema describes"


# Keyword → what it asks for, in words.
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
    """The value with something else at a place; the same object where there is nothing to change."""
    if not place:
        return change(value)
    step, rest = place[0], place[1:]
    if step == EACH:
        if not isinstance(value, list) or len(value) > SMALL:
            return value
        changed = [_changed(item, rest, change) for item in value]
        return changed if any(new is not old for new, old in zip(changed, value, strict=True)) else value
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
    waiting, seen = [value], 0
    while waiting:
        current = waiting.pop()
        seen += 1
        if isinstance(current, dict | list | tuple):
            if seen + len(waiting) + len(current) > SMALL:
                return False
            waiting.extend(current.values() if isinstance(current, dict) else current)
    return True


def _not_json(value: Any) -> Problem:
    """Where a value that cannot be sent as JSON is not JSON."""
    waiting: list[tuple[tuple[Any, ...], Any]] = [((), value)]
    while waiting:
        path, current = waiting.pop()
        if len(path) > MAX_NESTING:
            return _unfit(path[:3], f"at most {MAX_NESTING} levels").problem
        match current:
            case dict():
                if any(not isinstance(key, str) or not _encodable(key) for key in current):
                    return _unfit(path, "names that are text").problem
                waiting.extend(((*path, key), item) for key, item in reversed(current.items()))
            case list() | tuple():
                waiting.extend(((*path, index), item) for index, item in reversed(list(enumerate(current))))
            case str() if not _encodable(current):
                return _unfit(path, "text without halves of surrogate pairs").problem
            case float() if not math.isfinite(current):
                return _unfit(path, "a finite number").problem
            case None | bool() | int() | float() | str():
                pass
            case _:
                return _unfit(path, "a JSON value").problem
    return _unfit((), "JSON").problem


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
