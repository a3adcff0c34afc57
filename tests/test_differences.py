"""What programs are told of two versions of a tool."""

from __future__ import annotations

from typing import Any

from tools_app.catalog.differences import between, readable


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": ["city"]}


def test_every_difference_has_a_place_and_both_sides() -> None:
    old = {"version": "1.0.0", "annotations": {"readOnlyHint": True}, "inputSchema": schema(city={"type": "string"})}
    new = {
        "version": "1.1.0",
        "annotations": {"readOnlyHint": False},
        "inputSchema": schema(
            city={"type": "string", "minLength": 2}, days={"type": "integer", "description": "How many."}
        ),
        "examples": [{"parameters": {}}],
    }
    assert [(one.kind, one.part, readable(one.before), readable(one.after)) for one in between(old, new)] == [
        ("changed", "version", "1.0.0", "1.1.0"),
        ("changed", "hint readOnlyHint", "true", "false"),
        ("changed", "parameter city constraints", "", "at least 2 characters"),
        ("added", "parameter days", "", "integer, optional: How many."),
        ("added", "examples", "", '[\n  {\n    "parameters": {}\n  }\n]'),
    ]


def test_a_schema_that_no_table_can_show_is_shown_in_full() -> None:
    old, new = schema(city={}), {**schema(city={}), "minProperties": 1}
    [only] = between({"inputSchema": old}, {"inputSchema": new})
    assert (only.part, only.before, only.after) == ("inputSchema", old, new)
