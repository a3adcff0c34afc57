"""Schemas of OpenAPI as those of tools: the same meaning, and never more than the document says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.sources.openapi.documents import body_of, document, only, operation_of, reading, tools, with_operation
from tools_app.sdk.checker import Checker
from tools_app.sdk.schemas import parts_of
from tools_app.sources.openapi.schemas import BUDGET, NOT_IN_FULL

OBJECT = {"type": "object"}


def converted(schema: Any, **options: Any) -> Any:
    return body_of(schema, **options)["properties"]["body"]


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "string", "nullable": True, "enum": ["a"]}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"anyOf": [OBJECT], "nullable": True}, {"anyOf": [{"anyOf": [OBJECT]}, {"type": "null"}]}),
        ({"type": "integer", "minimum": 0, "exclusiveMinimum": True}, {"type": "integer", "exclusiveMinimum": 0}),
        ({"type": "integer", "maximum": 9, "exclusiveMaximum": False}, {"type": "integer", "maximum": 9}),
        ({"type": "integer", "exclusiveMinimum": 3}, {"type": "integer", "exclusiveMinimum": 3}),
        ({"type": ["string", "null"], "const": "a"}, {"type": ["string", "null"], "const": "a"}),
        ({"const": None}, {"const": None}),
        ({"type": "date"}, {}),
        ({"type": "string", "default": 0}, {"type": "string", "default": 0}),
        ({"type": "boolean", "default": False}, {"type": "boolean", "default": False}),
        ({"type": "string", "minLength": -1, "maxLength": "9", "multipleOf": 0}, {"type": "string"}),
        ({"type": "string", "minLength": 2.0}, {"type": "string", "minLength": 2.0}),
        ({"type": "string", "enum": []}, {"type": "string"}),
        ({"type": "string", "example": "Rex"}, {"type": "string", "examples": ["Rex"]}),
        ({"type": "string", "examples": ["Rex", "Tom"]}, {"type": "string", "examples": ["Rex"]}),
        ({"type": "string", "example": "x" * 200}, {"type": "string"}),
        ({"type": "array", "items": {"type": "string"}}, {"type": "array", "items": {"type": "string"}}),
        ({"type": "object", "additionalProperties": False}, {"type": "object", "additionalProperties": False}),
        ({"type": "object", "additionalProperties": True}, {"type": "object"}),
        ({"type": "string", "xml": {}, "externalDocs": {}, "x-go-name": "A", "title": "T"}, {"type": "string"}),
        (
            {"description": "<p>A  <b>pet</b>,\n<br/>with &lt;id> or <id></p>"},
            {"description": "A pet,\nwith &lt;id> or <id>"},
        ),
        (True, {}),
        (False, {"not": {}}),
        ("nonsense", {}),
    ],
)
def test_keywords(schema: Any, expected: Any) -> None:
    assert converted(schema) == expected


def test_components_are_definitions_and_cycles_stay_references() -> None:
    pet = {"type": "object", "properties": {"parent": {"$ref": "#/components/schemas/Pet"}}}
    found = with_operation(
        {"requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}}},
        components={"schemas": {"Pet": pet, "Unused": OBJECT}},
    )
    schema = only(found).tool["inputSchema"]
    assert schema["properties"]["body"] == {"$ref": "#/$defs/Pet"}
    assert schema["$defs"] == {"Pet": {"type": "object", "properties": {"parent": {"$ref": "#/$defs/Pet"}}}}
    assert only(found).problems == ("It has a schema that refers to itself; some clients cannot read those.",)
    (tool,) = tools(found)
    assert "unchecked" not in tool.spec.runtime
    checker = Checker(tool.spec.body["inputSchema"])
    assert checker.accepts({"body": {"parent": {"parent": {}}}})
    assert not checker.accepts({"body": {"parent": {"parent": 1}}})


def test_definitions_are_named_after_what_they_refer_to() -> None:
    properties = {
        "a": {"$ref": "#/components/schemas/A%20b~1c"},
        "b": {"$ref": "#/paths/~1pets/post/requestBody/content/application~1json/schema/properties/c"},
        "c": {"type": "string"},
    }
    schema = body_of({"properties": properties}, components={"schemas": {"A b/c": {"type": "integer"}}})
    assert sorted(schema["$defs"].values(), key=str) == [{"type": "integer"}, {"type": "string"}]
    assert all(name.isascii() and len(name) <= 64 and "/" not in name for name in schema["$defs"])


@pytest.mark.parametrize("beside", ["3.0.3", "3.1.0"])
def test_what_is_beside_a_reference_counts_since_3_1(beside: str) -> None:
    reference = {"$ref": "#/components/schemas/A", "description": "Beside", "minLength": 2}
    schema = body_of(
        {"properties": {"a": reference}}, version=beside, components={"schemas": {"A": {"type": "string"}}}
    )
    expected = {"$ref": "#/$defs/A", "description": "Beside"} | ({"minLength": 2} if beside == "3.1.0" else {})
    assert schema["properties"]["body"]["properties"]["a"] == expected


def test_read_only_properties_are_for_answers_and_write_only_ones_for_requests() -> None:
    pet = {
        "type": "object",
        "required": ["id", "name", "secret"],
        "properties": {
            "id": {"type": "string", "readOnly": True},
            "at": {"$ref": "#/components/schemas/Time"},
            "name": {"type": "string"},
            "secret": {"type": "string", "writeOnly": True},
        },
    }
    content = {"content": {"application/json": {"schema": pet}}}
    tool = operation_of(
        {"requestBody": content, "responses": {"200": content}},
        components={"schemas": {"Time": {"type": "string", "readOnly": True}}},
    ).tool
    body, answer = tool["inputSchema"]["properties"]["body"], tool["outputSchema"]
    assert (list(body["properties"]), body["required"]) == (["name", "secret"], ["name", "secret"])
    assert (list(answer["properties"]), answer["required"]) == (["id", "at", "name"], ["id", "name"])


def test_alternatives_accept_more_where_their_parts_do() -> None:
    cat = {"type": "object", "properties": {"id": {"readOnly": True, "type": "integer"}, "name": {"type": "string"}}}
    assert "oneOf" in converted({"oneOf": [{"type": "string"}, {"type": "integer"}]})
    schema = converted({"oneOf": [cat, cat], "not": {"required": ["id"]}})
    assert "anyOf" in schema
    assert "oneOf" not in schema
    assert "not" not in schema


def test_a_schema_that_is_elsewhere_accepts_everything_and_is_said() -> None:
    found = operation_of(
        {
            "requestBody": {
                "content": {"application/json": {"schema": {"properties": {"a": {"$ref": "https://x.example/a.json"}}}}}
            }
        }
    )
    part = found.tool["inputSchema"]["properties"]["body"]["properties"]["a"]
    assert part == {"description": "Defined elsewhere: https://x.example/a.json"}
    assert "references to those are not followed" in found.problems[0]


def test_references_that_lead_back_to_themselves_are_said() -> None:
    loop = {"A": {"$ref": "#/components/schemas/B"}, "B": {"$ref": "#/components/schemas/A"}}
    found = operation_of(
        {
            "requestBody": {
                "content": {"application/json": {"schema": {"properties": {"a": {"$ref": "#/components/schemas/A"}}}}}
            }
        },
        components={"schemas": loop},
    )
    assert "a reference that leads back to itself" in found.problems[0]


def test_a_discriminator_is_said_in_words() -> None:
    schema = {
        "oneOf": [{"type": "object"}],
        "discriminator": {"propertyName": "kind", "mapping": {"cat": "#/components/schemas/Cat", "dog": "Dog"}},
    }
    assert converted(schema)["description"] == "kind says which one it is: cat, dog."


def test_long_lists_of_values_are_described() -> None:
    found = operation_of(
        {"parameters": [{"name": "zone", "in": "query", "schema": {"enum": [f"zone-{n}" for n in range(500)]}}]},
        method="get",
    )
    zone = found.tool["inputSchema"]["properties"]["zone"]
    assert "enum" not in zone
    assert zone["description"].startswith("One of 500 values, such as zone-0, zone-1")


def _wide(levels: int, width: int = 8) -> Any:
    if levels == 0:
        return {"type": "string", "description": "A value of this service. " * 20}
    return {"type": "object", "properties": {f"part{n}": _wide(levels - 1, width) for n in range(width)}}


def test_of_a_large_schema_the_upper_levels_are_listed() -> None:
    found = operation_of({"requestBody": {"content": {"application/json": {"schema": _wide(4)}}}})
    schema = found.tool["inputSchema"]
    assert len(json.dumps(schema)) < 3 * BUDGET
    assert found.problems == ("Its schemas are large: only their upper levels are listed.",)
    body = schema["properties"]["body"]
    assert len(body["properties"]) == 8
    assert len(body["properties"]["part7"]["properties"]) == 8
    cut = [part for part in parts_of(schema) if part.body.get("description") == NOT_IN_FULL]
    assert cut
    assert all(set(part.body) <= {"type", "description"} for part in cut)
    (tool,) = tools(with_operation({"requestBody": {"content": {"application/json": {"schema": _wide(4)}}}}))
    deep = {"part7": {"part7": {"part7": {"part7": 1, "other": 2}}}}
    assert Checker(tool.spec.body["inputSchema"]).accepts({"body": deep})


def test_properties_that_cannot_be_named_are_accepted() -> None:
    many = {f"property{n}": {"type": "string"} for n in range(5_000)}
    schema = converted({"type": "object", "properties": many, "additionalProperties": False})
    assert schema == {"type": "object"}


def test_a_schema_of_thousands_of_levels_takes_no_stack() -> None:
    schema: Any = {"type": "string"}
    for _ in range(90):
        schema = {"type": "array", "items": schema}
    found = reading(document({"/a": {"post": {"requestBody": {"content": {"application/json": {"schema": schema}}}}}}))
    assert len(found.operations) == 1


def test_components_that_refer_to_each_other_thousands_of_times_take_no_time() -> None:
    schemas = {
        f"A{n}": {
            "type": "object",
            "properties": {f"p{k}": {"$ref": f"#/components/schemas/A{(n * 7 + k) % 400}"} for k in range(20)},
        }
        for n in range(400)
    }
    schema = body_of({"$ref": "#/components/schemas/A0"}, components={"schemas": schemas})
    assert len(json.dumps(schema)) < 3 * BUDGET


@pytest.mark.parametrize("name", ["\x00", "\ud800", "x" * 600])
def test_properties_that_cannot_be_stored_are_left_out(name: str) -> None:
    schema = {"type": "object", "required": [name], "properties": {name: {"type": "string"}, "a": {"type": "string"}}}
    assert converted(schema) == {"type": "object", "properties": {"a": {"type": "string"}}}


def test_texts_that_cannot_be_stored_are_marked() -> None:
    assert converted({"description": "a\x00b\ud800"}) == {
        "description": "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}"
    }
