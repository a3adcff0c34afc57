"""Foreign schemas as they are listed and checked here: never stricter than what the source says."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema_rs
import pytest

from tests.sources.foreign.skeletons import DRAFT_07, Json, one, tool, with_schema
from tools_app.sdk.spec import ToolSpec
from tools_app.sources.foreign import original_arguments
from tools_app.sources.foreign.schemas import normalised

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def spec(schema: Any) -> ToolSpec:
    return one(with_schema(schema)).spec


def listed(schema: Any) -> Json:
    return spec(schema).input_schema


def parameters(**parts: Any) -> Json:
    return {"type": "object", "properties": parts}


@pytest.mark.parametrize("schema", [None, True, {}, {"type": "object"}, {"$schema": DRAFT_07}])
def test_nothing_is_an_object_without_parameters(schema: Any) -> None:
    assert listed(schema) == {"type": "object", "properties": {}}
    assert spec(schema).unchecked == ""


def test_a_tool_without_a_schema() -> None:
    assert one({"name": "ping"}).spec.input_schema == {"type": "object", "properties": {}}


@pytest.mark.parametrize("schema", ["text", 5, [], False])
def test_what_is_no_schema_costs_the_check_only(schema: Any) -> None:
    assert listed(schema) == {"type": "object", "properties": {}}
    assert spec(schema).unchecked == "it is not a JSON object"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"items": [{"enum": [1]}], "additionalItems": False}, {"prefixItems": [{"enum": [1]}], "items": False}),
        ({"minimum": 1, "exclusiveMinimum": True}, {"exclusiveMinimum": 1}),
        ({"maximum": 1, "exclusiveMaximum": False}, {"maximum": 1}),
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"$id": "x", "$comment": "a"}, {"$comment": "a"}),
        ({"type": "string", "default": None}, {"type": "string"}),
        ({"type": "string", "default": "a"}, {"type": "string", "default": "a"}),
        ({"type": "string", "format": "no-such"}, {"type": "string", "format": "no-such"}),
        ({"x-message": "Send it.", "x-or-number": True, "x-mcp-header": "Id"}, {}),
        ({"type": "any"}, {"description": "Type: any."}),
        ({"dependencies": {"a": ["b"], "c": {"required": ["d"]}}},
         {"dependentSchemas": {"c": {"required": ["d"]}}, "dependentRequired": {"a": ["b"]}}),
    ],
)  # fmt: skip
def test_earlier_drafts_become_the_present_one(before: Json, after: Json) -> None:
    made = spec({"$schema": DRAFT_07, **parameters(a=before)})
    assert made.input_schema == parameters(a=after)
    assert made.unchecked == ""


def test_what_stands_beside_a_reference_counts_as_its_draft_says() -> None:
    part = {"$ref": "#/definitions/Id", "description": "An id.", "maxLength": 1}
    schema = {**parameters(id=part), "definitions": {"Id": {"type": "string"}}}
    old, new = spec({"$schema": DRAFT_07, **schema}), spec(schema)
    assert old.input_schema["properties"]["id"] == {"$ref": "#/$defs/Id", "description": "An id."}
    assert old.input_schema["$defs"] == {"Id": {"type": "string"}}
    assert "definitions" not in old.input_schema
    assert old.checker.accepts({"id": "long"})
    assert not new.checker.accepts({"id": "long"})


def test_references_are_kept_wherever_their_targets_are() -> None:
    schema = {
        "$id": "https://tracker.example/find",
        **parameters(
            **{"user id": {"type": "integer"}},
            same={"$ref": "#/properties/user%20id"},
            node={"$ref": "https://tracker.example/find#/definitions/Node~1A"},
            named={"$ref": "#name"},
        ),
        "definitions": {
            "Node/A": {"properties": {"next": {"$ref": "#/definitions/Node~1A"}, "id": {"type": "string"}}},
            "Name": {"$id": "#name", "type": "string"},
        },
    }
    made = spec(schema)
    assert made.unchecked == ""
    assert made.checker.accepts({"same": 1, "node": {"next": {"next": {"id": "a"}}}, "named": "a"})
    for wrong in ({"same": "a"}, {"node": {"next": {"id": 1}}}, {"named": 1}):
        assert not made.checker.accepts(wrong)


@pytest.mark.parametrize("address", ["https://tracker.example/other.json", "#/nowhere", "other.json#/a", "#nothing"])
def test_a_reference_to_elsewhere_is_left_to_the_source(address: str) -> None:
    made = spec(parameters(a={"$ref": address}, b={"type": "integer"}))
    assert "$ref" not in json.dumps(made.input_schema)
    assert made.input_schema["properties"]["a"] == {"description": f"Defined elsewhere: {address}"}
    assert "a: refers to something outside" in made.unchecked
    assert made.checker.accepts({"a": 1, "b": "also"})


def test_references_relative_to_another_address_are_left_to_the_source() -> None:
    made = spec(parameters(a={"$id": "https://tracker.example/a", "items": {"$ref": "#/$defs/B"}, "$defs": {"B": {}}}))
    assert "relative to an address of its own" in made.unchecked


def test_a_pattern_that_needs_backtracking_becomes_text() -> None:
    pattern = "^(?=.*[0-9]).{8,}$"
    made = spec(parameters(password={"type": "string", "description": "Yours.", "pattern": pattern}))
    assert made.input_schema["properties"]["password"] == {
        "type": "string",
        "description": f"Yours.\nPattern: {pattern}",
    }
    assert made.unchecked == ""
    assert made.checker.accepts({"password": "x"})


def test_names_that_such_a_pattern_allows_stay_allowed() -> None:
    schema = {
        **parameters(),
        "patternProperties": {"(?!x)": {}, "^y$": {"type": "string"}},
        "additionalProperties": False,
    }
    made = spec(schema)
    assert made.checker.accepts({"z": 1})
    assert not made.checker.accepts({"y": 1})


@pytest.mark.parametrize("inverting", ["not", "if"])
def test_what_a_weaker_condition_would_refuse_is_not_checked(inverting: str) -> None:
    made = spec(parameters(a={inverting: {"pattern": "(?!x)"}, "then": {"type": "integer"}}))
    assert "cannot be checked" in made.unchecked


@pytest.mark.parametrize(
    "schema",
    [
        parameters(a={"type": "string", "minLength": "3"}, b={"type": "integer"}),
        {"type": "object", "properties": [], "required": {}},
        parameters(a="text", b={"type": "integer"}),
        parameters(a={"enum": "x"}, b={"anyOf": []}),
        parameters(a={"$ref": 5}, b={"items": 5}),
        parameters(required=True, b={"required": "a"}),
        {"type": "object", "properties": {"properties": {"properties": {"properties": 1}}}},
        {"type": "object", "description": ["a"], "$defs": {"A": 5}, "dependentRequired": {"a": [1]}},
    ],
)
def test_only_what_is_no_json_schema_is_dropped(schema: Json) -> None:
    made = spec(schema)
    jsonschema_rs.meta.validate({"$schema": DIALECT, **made.input_schema})
    assert made.input_schema["type"] == "object"
    if isinstance(schema.get("properties"), dict):
        assert made.input_schema["properties"].keys() == schema["properties"].keys()


def test_nonsense_everywhere_is_a_tool_without_a_check() -> None:
    made = spec(parameters(**{f"a{number}": {"minLength": "x"} for number in range(100)}))
    assert made.input_schema == {"type": "object", "properties": {}}
    assert made.unchecked.startswith("it is not a valid JSON Schema")


def test_required_as_draft_03_writes_it() -> None:
    made = spec(parameters(a={"type": "string", "required": True}, b={"required": False}))
    assert made.input_schema == {**parameters(a={"type": "string"}, b={}), "required": ["a"]}


@pytest.mark.parametrize("named", ["array", ["string", "null"]])
def test_a_root_of_another_type(named: Any) -> None:
    made = spec({"type": named})
    assert made.input_schema["type"] == "object"
    assert made.unchecked == 'its root is not "type": "object"'


# ---- the root


def test_alternatives_leave_the_root_and_are_left_to_the_source() -> None:
    made = spec(
        {
            "type": "object",
            "properties": {"limit": {"type": "integer"}},
            "required": ["limit"],
            "oneOf": [
                {"properties": {"id": {"type": "integer"}}, "required": ["id"]},
                {"properties": {"id": {"type": "string"}, "name": {}}, "required": ["name", "limit"]},
            ],
        }
    )
    assert made.input_schema == {
        "type": "object",
        "properties": {
            "limit": {"type": "integer"},
            "id": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
            "name": {},
        },
        "required": ["limit"],
        "description": "Parameters that are needed together: id; or name, limit.",
    }
    assert made.unchecked == "it has alternatives at its root"


def test_everything_that_always_holds_at_the_root_is_checked() -> None:
    made = spec(
        {
            "$ref": "#/$defs/Find",
            "$defs": {"Find": {"properties": {"a": {"type": "string"}}, "allOf": [{"$ref": "#/$defs/Page"}]},
                      "Page": {"properties": {"page": {"minimum": 1}, "a": {"minLength": 2}}, "required": ["page"]}},
        }
    )  # fmt: skip
    assert made.unchecked == ""
    assert made.input_schema.keys() == {"type", "properties", "required", "$defs"}
    assert made.checker.accepts({"page": 1, "a": "bc"})
    for wrong in ({}, {"page": 0}, {"page": 1, "a": "b"}, {"page": 1, "a": 5}):
        assert not made.checker.accepts(wrong)


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf", "not", "enum", "const", "$ref"])
def test_no_client_sees_them_at_the_root(keyword: str) -> None:
    value: Any = {"allOf": [{}], "anyOf": [{}], "oneOf": [{}], "not": {"type": "null"}, "enum": [{}], "const": {}}
    made = spec({"type": "object", keyword: value.get(keyword, "#/$defs/A"), "$defs": {"A": {"$ref": "#"}}})
    assert keyword not in made.input_schema


# ---- limits


def test_more_subschemas_than_can_be_checked_are_passed_through() -> None:
    parts = {f"a{number}": {"type": "integer"} for number in range(1_000)}
    made = spec(parameters(**parts))
    assert made.unchecked == "it has more than 1,000 subschemas"
    assert made.input_schema == parameters(**parts)
    assert made.checker.accepts({"a1": "text"})
    parts.pop("a0")
    assert spec(parameters(**parts)).unchecked == ""


def test_deeper_than_can_be_checked_is_passed_through() -> None:
    def nested(levels: int) -> Json:
        return parameters(a=nested(levels - 1)) if levels else {"type": "string"}

    assert spec(nested(15)).unchecked == ""
    made = spec(nested(16))
    assert made.unchecked == "it is nested deeper than 16 levels"
    assert made.input_schema == nested(16)


def test_references_that_double_at_every_step_are_not_followed() -> None:
    links = {f"a{number}": {"allOf": [{"$ref": f"#/$defs/a{number + 1}"}] * 2} for number in range(40)}
    made = spec({**parameters(a={"$ref": "#/$defs/a0"}), "$defs": {**links, "a40": {"type": "string"}}})
    assert made.unchecked == "its references make a check too expensive"
    assert made.checker.accepts({"a": 1})


def test_definitions_that_refer_to_themselves_are_checked() -> None:
    value = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#/$defs/Json"}}]}
    made = spec({**parameters(a={"$ref": "#/$defs/Json"}), "$defs": {"Json": value}})
    assert made.unchecked == ""
    assert made.checker.accepts({"a": [["b"], "c"]})
    assert not made.checker.accepts({"a": [[1]]})


def test_dynamic_references_are_left_to_the_source() -> None:
    made = spec({**parameters(a={"$dynamicRef": "#node"}), "$dynamicAnchor": "node"})
    assert "a dynamic reference" in made.unchecked
    assert made.input_schema == parameters(a={})


def test_a_definition_is_not_changed_by_reading_it() -> None:
    schema = {"$schema": DRAFT_07, **parameters(**{"a b": {"items": [{"type": "string", "default": None}]}})}
    before = json.dumps(schema)
    normalised(schema)
    assert json.dumps(schema) == before


def test_what_is_listed_is_read_as_it_is() -> None:
    """Nothing is left to do the second time."""
    schema = parameters(
        **{"user id": {"$ref": "#/definitions/Id"}, "list": {"items": [{"type": "string", "default": 5}]}}
    ) | {"definitions": {"Id": {"pattern": "(?!x)"}}}
    once = normalised(schema)
    assert normalised(once.schema).schema == once.schema


# ---- keys


KEYS = {
    "type": "object",
    "properties": {
        "$filter": {"type": "string"},
        "user id": {"type": "object", "properties": {"first name": {"type": "string"}}, "required": ["first name"]},
        "tags": {"type": "array", "items": {"$ref": "#/$defs/Tag"}},
        "plain": {"type": "string", "default": "$filter"},
    },
    "required": ["user id", "plain"],
    "dependentRequired": {"$filter": ["user id"]},
    "additionalProperties": False,
    "$defs": {"Tag": {"anyOf": [{"type": "null"}, {"type": "object", "properties": {"@id": {}}, "required": ["@id"]}]}},
}


def renamed(made: ToolSpec, original: str) -> str:
    keys: dict[str, str] = made.runtime["keys"]
    return next(new for new, old in keys.items() if old == original)


def test_names_that_clients_refuse_are_renamed_everywhere() -> None:
    made = spec(KEYS)
    schema = made.input_schema
    assert made.unchecked == ""
    keys = made.runtime["keys"]
    assert sorted(keys.values()) == ["$filter", "@id", "first name", "user id"]
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", new) for new in keys)
    user = renamed(made, "user id")
    assert re.fullmatch("user_id_[0-9a-f]{8}", user)
    assert schema["required"] == [user, "plain"]
    assert schema["dependentRequired"] == {renamed(made, "$filter"): [user]}
    assert schema["properties"][user]["required"] == [renamed(made, "first name")]
    assert schema["properties"]["plain"] == {"type": "string", "default": "$filter"}


def test_arguments_get_their_own_names_back() -> None:
    made = spec(KEYS)
    user, first, tag = (renamed(made, name) for name in ("user id", "first name", "@id"))
    arguments = {user: {first: "Ann"}, "tags": [{tag: 1}, None], "plain": first}
    assert made.checker.accepts(arguments)
    assert not made.checker.accepts({"plain": "a"})
    assert original_arguments(made, arguments) == {
        "user id": {"first name": "Ann"},
        "tags": [{"@id": 1}, None],
        "plain": first,
    }
    assert arguments[user] == {first: "Ann"}


def test_names_are_renamed_alike_in_every_order() -> None:
    other = {**KEYS, "properties": dict(reversed(KEYS["properties"].items()))}  # type: ignore[attr-defined]
    assert spec(other).runtime["keys"] == spec(KEYS).runtime["keys"]


def test_a_name_that_is_there_already_is_not_given() -> None:
    taken = renamed(spec(parameters(**{"a b": {}})), "a b")
    made = spec(parameters(**{"a b": {"type": "string"}, taken: {"type": "integer"}}))
    assert made.runtime["keys"].keys().isdisjoint({taken})
    assert original_arguments(made, {renamed(made, "a b"): "x", taken: 1}) == {"a b": "x", taken: 1}


def test_long_and_nameless_keys() -> None:
    made = spec(parameters(**{"x" * 65: {}, "キー": {}, "": {}}))
    assert sorted(len(new) for new in made.runtime["keys"]) == [18, 18, 49]
    assert original_arguments(made, dict.fromkeys(made.runtime["keys"], 1)) == {"x" * 65: 1, "キー": 1, "": 1}


def test_objects_in_enumerations_have_the_listed_names_too() -> None:
    made = spec(parameters(a={"enum": [{"b c": 1}], "default": {"b c": 1}}, **{"b c": {}}))
    new = renamed(made, "b c")
    assert made.input_schema["properties"]["a"] == {"enum": [{new: 1}], "default": {new: 1}}


# ---- results


def test_output_schemas_are_listed_and_not_enforced() -> None:
    output = {"$schema": DRAFT_07, **parameters(**{"user id": {"type": "string"}})}
    made = one(tool(outputSchema=output)).spec
    assert made.output_schema == parameters(**{"user id": {"type": "string"}})
    assert made.output_checker is None


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (parameters(a={"description": "x" * 8_200}), "it is larger than 8 kB"),
        ({"type": "array"}, 'its root is not "type": "object"'),
        ({"type": "object", "properties": {"a": {"$ref": "other.json"}}}, "a: refers to something outside"),
        ("text", "it is not a JSON object"),
    ],
)
def test_output_schemas_that_cost_more_than_they_are_worth_are_not_listed(output: Any, reason: str) -> None:
    made = one(tool(outputSchema=output))
    assert made.spec.output_schema is None
    assert made.spec.runtime["output"].startswith(reason)
    assert json.loads(made.raw)["outputSchema"] == output


# ---- what hostile sources send


def test_every_default_that_does_not_fit_is_dropped() -> None:
    parts = {f"a{number}": {"type": "string", "default": number} for number in range(900)}
    made = spec(parameters(**parts))
    assert made.unchecked == ""
    assert "default" not in json.dumps(made.input_schema)


def test_large_defaults_are_not_checked_and_not_listed() -> None:
    items = {"type": "array", "items": {"allOf": [{"minimum": 0}] * 400}}
    made = spec(parameters(a={**items, "default": [1] * 1_000}, b={**items, "default": [1]}))
    assert made.input_schema["properties"].keys() == {"a", "b"}
    assert "default" not in made.input_schema["properties"]["a"]
    assert made.input_schema["properties"]["b"]["default"] == [1]


def test_more_patterns_than_are_compiled_become_text() -> None:
    made = spec(parameters(**{f"a{number}": {"pattern": f"^{number}$"} for number in range(201)}))
    assert made.input_schema["properties"]["a199"] == {"pattern": "^199$"}
    assert made.input_schema["properties"]["a200"] == {"description": "Pattern: ^200$"}
    assert made.unchecked == ""


def test_hundreds_of_alternatives_for_one_parameter() -> None:
    made = spec({"anyOf": [{"properties": {"a": {"minLength": number}}} for number in range(900)]})
    assert [len(part["anyOf"]) for part in made.input_schema["properties"].values()] == [900]
    assert made.unchecked == "it has alternatives at its root"


def test_numbers_of_any_size() -> None:
    made = spec(parameters(a={"minimum": 10**30, "default": 10**30}, b={"enum": [10**300, -1e308]}))
    assert made.unchecked == ""
    assert made.checker.accepts({"a": 10**31, "b": 10**300})
