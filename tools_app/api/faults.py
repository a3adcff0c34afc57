"""Translates pydantic's validation errors into the messages that the hub uses for tool arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tools_app.sdk.checker import MAX_PROBLEMS
from tools_app.sdk.errors import Problem, shortened
from tools_app.sdk.schemas import dotted, pointer

_TYPES: Final = {
    "string_type": "string",
    "int_type": "integer",
    "bool_type": "boolean",
    "dict_type": "object",
    "model_type": "object",
    "model_attributes_type": "object",
    "list_type": "array",
}


def problems(faults: Sequence[dict[str, Any]]) -> list[Problem]:
    """The problems for the first of pydantic's errors, and the number of further ones."""
    first = [problem(fault) for fault in faults[:MAX_PROBLEMS]]
    more = len(faults) - len(first)
    return [*first, Problem.more(more)] if more else first


def problem(fault: dict[str, Any]) -> Problem:
    """The problem for one of pydantic's errors. It never repeats the value that was sent."""
    source, *path = fault["loc"]
    # Ninja inserts the name of the view's parameter; for a query only if it does not know the rest.
    path = path[-1:] if source == "query" else path[1:]
    kind = fault["type"]
    name = shortened(dotted(path)) if path else "the body"
    where = pointer([shortened(str(step)) for step in path])
    if kind == "missing":
        return Problem(where, f"Required parameter missing: {name}" if path else "A JSON object is required", "a value")
    if kind == "extra_forbidden":
        return unknown(path)
    subject = f"parameter {name}" if path else name
    if expected := _TYPES.get(kind):
        return Problem(where, f"Invalid type for {subject}: expected {expected}", expected)
    expected = _expectation(kind, fault.get("ctx", {}))
    return Problem(where, f"Invalid value for {subject}: expected {expected}", expected)


def unknown(path: Sequence[Any]) -> Problem:
    """The problem for an unknown field or parameter."""
    where = pointer([shortened(str(step)) for step in path])
    return Problem(where, f"Unknown parameter: {shortened(dotted(path))}")


def _expectation(kind: str, limits: dict[str, Any]) -> str:
    match kind:
        case "greater_than_equal":
            return f"{limits['ge']} or more"
        case "less_than_equal":
            return f"{limits['le']} or less"
        case "string_too_short":
            return "a value that is not empty"
        case "string_too_long":
            return f"at most {limits['max_length']} characters"
    return str(limits.get("expected", "another value"))
