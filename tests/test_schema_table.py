"""A schema as a table: every value of any schema with its type and limits."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools_app import sources
from tools_app.catalog.schema_table import MOST_ROWS, SchemaRow, rows


def only(part: dict[str, Any], **schema: Any) -> SchemaRow:
    [row] = rows({"type": "object", "properties": {"value": part}, **schema})
    return row


def test_a_shipped_tool_reads_as_its_author_meant_it() -> None:
    loaded = sources.current().loaded("calculate")
    assert loaded is not None
    operation, a, _ = rows(loaded.spec.input_schema)
    assert (operation.path, operation.type, operation.required) == ("operation", "string", True)
    assert operation.constraints == "one of add, subtract, multiply, divide"
    assert (a.type, a.description) == ("number", "The first number")


@pytest.mark.parametrize(
    ("part", "type_", "constraints"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 100}, "integer", "1 or more, 100 or less"),
        ({"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.5}, "number", "more than 0, a multiple of 0.5"),
        ({"type": "string", "minLength": 1, "pattern": "^a+$"}, "string", "at least 1 characters, matches ^a+$"),
        ({"type": ["string", "null"]}, "string or null", ""),
        ({"anyOf": [{"type": "string", "maxLength": 5}, {"type": "null"}]}, "string or null", "at most 5 characters"),
        ({"type": "array", "items": {"type": "integer", "minimum": 1}, "maxItems": 3}, "array of integer",
         "at most 3 items, each 1 or more"),
        ({"enum": ["a", "b"]}, "string", "one of a, b"),
        ({"enum": [1, None, ""]}, "value", 'one of 1, null, ""'),
        ({"const": True}, "value", "always true"),
        ({"type": "string", "format": "date"}, "string", "format date"),
        ({}, "any", ""),
    ],
)  # fmt: skip
def test_types_and_limits_are_described_in_words(part: dict[str, Any], type_: str, constraints: str) -> None:
    row = only(part)
    assert (row.type, row.constraints) == (type_, constraints)


@pytest.mark.parametrize(("default", "shown"), [(0, "0"), (False, "false"), (None, "null"), ("", '""'), ("x", "x")])
def test_a_default_is_shown_as_it_is_sent(default: object, shown: str) -> None:
    assert only({"default": default}).default == shown
    assert only({}).default == ""


def test_nested_values_follow_their_parent() -> None:
    point = {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}
    schema = {
        "type": "object",
        "properties": {"where": point, "path": {"type": "array", "items": {"$ref": "#/$defs/point"}}},
        "$defs": {"point": point},
    }
    assert [(row.path, row.depth, row.required) for row in rows(schema)] == [
        ("where", 0, False),
        ("where.x", 1, True),
        ("path", 0, False),
        ("path[].x", 1, True),
    ]


def test_a_schema_that_contains_itself_comes_to_an_end() -> None:
    node = {"type": "object", "properties": {"left": {"$ref": "#/$defs/node"}, "right": {"$ref": "#/$defs/node"}}}
    found = rows({"type": "object", "properties": {"root": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}})
    assert len(found) <= MOST_ROWS
    loop = rows({"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}})
    assert [row.type for row in loop] == ["any"]


def test_a_very_wide_schema_is_cut() -> None:
    assert len(rows({"properties": {f"p{number}": {} for number in range(5_000)}})) == MOST_ROWS


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(
                    ["type", "properties", "items", "anyOf", "required", "enum", "$ref", "$defs", "default", "minimum"]
                ),
                inner,
            )
        ),
        max_leaves=20,
    )
)
def test_no_recorded_schema_breaks_the_page(schema: object) -> None:
    for row in rows(schema):
        assert isinstance(row.type, str)
