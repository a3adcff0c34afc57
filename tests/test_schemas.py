"""Which schemas may be published: nothing fetched, nothing endless, nothing slow, and every fault in words."""

from __future__ import annotations

import contextlib
import copy
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from tools_app.sdk.published import MAX_DEPTH, MAX_SUBSCHEMAS, faults, take_messages
from tools_app.sdk.schemas import DIALECT, MESSAGE, Schema, SchemaError, compiled, dotted, parts_of, pointer


def an_object(**properties: Any) -> Schema:
    return {"type": "object", "properties": properties}


def nested(levels: int) -> Schema:
    schema: Schema = {"type": "object"}
    for _ in range(levels - 1):
        schema = {"type": "object", "properties": {"inner": schema}}
    return schema


class Canary:
    """A server that must not receive requests."""

    def __init__(self) -> None:
        self.visits = 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._socket.getsockname()[1]}/s"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self._socket.accept()[0].close()
                self.visits += 1

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()


@pytest.fixture
def canary() -> Iterator[Canary]:
    bird = Canary()
    yield bird
    bird.close()
    assert bird.visits == 0


GOOD = {
    "nothing": {"type": "object"},
    "closed": {"type": "object", "properties": {}, "additionalProperties": False},
    "all keywords": an_object(
        s={"type": "string", "minLength": 1, "maxLength": 1, "pattern": "^a+$"},
        n={"type": "number", "minimum": 1, "maximum": 1.0, "default": 1},
        i={"type": ["integer", "null"], "default": None},
        a={"type": "array", "items": {"type": "string"}, "minItems": 0, "maxItems": 9, "default": ["x"]},
        e={"enum": ["a", 1, None], "default": "a"},
        u={"anyOf": [{"type": "string"}, {"const": 5}], "default": 5},
        anything=True,
        nothing=False,
    ),
    "dialect": {"$schema": DIALECT, "type": "object"},
    "dialect with a fragment": {"$schema": DIALECT + "#", "type": "object"},
    "recursion that gets smaller": {
        **an_object(tree={"$ref": "#/$defs/node"}),
        "$defs": {"node": an_object(children={"type": "array", "items": {"$ref": "#/$defs/node"}})},
    },
    "recursion to the root": an_object(child={"$ref": "#"}),
    "default behind a reference": an_object(a={"$ref": "#/properties/b", "default": 1}, b={"type": "integer"}),
    "names that need escaping": an_object(**{"a/b~c %d": {"type": "integer", "default": 1}}),
    "properties that are called like keywords": an_object(
        items={"type": "string"},
        properties={"type": "object"},
        allOf={"type": "string"},
        **{"$ref": {"type": "string"}},
    ),
    "as deep as may be": nested(MAX_DEPTH),
    "as many as may be": an_object(**{f"p{n}": {} for n in range(MAX_SUBSCHEMAS - 1)}),
    "data that looks like a schema": an_object(a={"default": {"$ref": "http://x.test/", "type": "nonsense"}}),
    "a header": an_object(a={"type": "string", "x-mcp-header": "Region"}),
}


@pytest.mark.parametrize("schema", GOOD.values(), ids=GOOD)
def test_a_publishable_schema_has_no_faults(schema: Schema) -> None:
    before = copy.deepcopy(schema)
    assert faults(schema) == []
    assert schema == before


BAD: dict[str, tuple[Any, str]] = {
    "not an object": ([], "the schema must be a JSON object"),
    "true": (True, "the schema must be a JSON object"),
    "no type": ({"properties": {}}, 'the root must be "type": "object"'),
    "array root": ({"type": "array"}, 'the root must be "type": "object"'),
    "list of types": ({"type": ["object"]}, 'the root must be "type": "object"'),
    "unknown type": (an_object(a={"type": "text"}), "a: unknown type 'text'"),
    "type that is no text": (an_object(a={"type": ["string", {"x": 1}]}), "a: unknown type ['string', {'x': 1}]"),
    "type nested": (an_object(a={"type": "array", "items": an_object(b={"type": 5})}), "a[].b: unknown type 5"),
    "min above max": (an_object(a={"minimum": 5, "maximum": 4}), "a: minimum 5 is greater than maximum 4"),
    "minLength above": (an_object(a={"minLength": 2, "maxLength": 1}), "a: minLength 2 is greater than maxLength 1"),
    "minItems above": (an_object(a={"minItems": 2, "maxItems": 1}), "a: minItems 2 is greater than maxItems 1"),
    "minimum that is text": (an_object(a={"minimum": "1"}), '"1" is not of type "number"'),
    "required that is text": ({"type": "object", "required": "a"}, '"a" is not of type "array"'),
    "properties that is a list": ({"type": "object", "properties": [1]}, '[1] is not of type "object"'),
    "old items": (an_object(a={"items": [{}]}), '[{}] is not of types "boolean", "object"'),
    "default of another type": (an_object(a={"type": "integer", "default": "x"}), "a: the default is not valid"),
    "default true for a number": (an_object(a={"type": "number", "default": True}), "a: the default is not valid"),
    "default not a number": (an_object(a={"type": "number", "default": float("nan")}), "a: the default is not valid"),
    "default outside the enum": (an_object(a={"enum": ["x"], "default": "y"}), "a: the default is not valid"),
    "default nested": (
        an_object(a={"type": "array", "items": {"type": "string", "default": 1}}),
        "a[]: the default is not valid",
    ),
    "default behind a reference": (
        {**an_object(a={"$ref": "#/$defs/n", "default": "x"}), "$defs": {"n": {"type": "integer"}}},
        "a: the default is not valid",
    ),
    "reference to nothing": (an_object(a={"$ref": "#/$defs/b"}), "Pointer '/$defs/b' does not exist"),
    "deep": (nested(MAX_DEPTH + 1), f"nested deeper than {MAX_DEPTH} levels"),
    "many": (an_object(**{f"p{n}": {} for n in range(MAX_SUBSCHEMAS)}), f"more than {MAX_SUBSCHEMAS} subschemas"),
    "lone surrogate": (an_object(a={"description": "\ud800"}), "Failed to get UTF-8 representation"),
    "header with CRLF": (
        an_object(a={"type": "string", "x-mcp-header": "A\r\nEvil: 1"}),
        "a: x-mcp-header is not the name of a header",
    ),
    "header on a number": (
        an_object(a={"type": "number", "x-mcp-header": "A"}),
        "a: x-mcp-header needs a string, an integer or a boolean",
    ),
    "header inside a list": (
        an_object(a={"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}),
        "a[]: x-mcp-header is for parameters only",
    ),
    "header twice": (
        an_object(a={"type": "string", "x-mcp-header": "A"}, b={"type": "string", "x-mcp-header": "a"}),
        "b: x-mcp-header a is used twice",
    ),
}


@pytest.mark.parametrize(("schema", "fault"), BAD.values(), ids=BAD)
def test_an_unpublishable_schema_is_refused_with_a_reason(schema: Any, fault: str) -> None:
    assert faults(schema)[0].startswith(fault)


def test_every_fault_is_reported_not_only_the_first() -> None:
    schema = an_object(a={"type": "text"}, b={"minimum": 2, "maximum": 1}, c={"$ref": "other.json"})
    assert faults(schema) == [
        "a: unknown type 'text'",
        "b: minimum 2 is greater than maximum 1",
        "c: refers to another document: other.json",
    ]


ELSEWHERE = ("CANARY", "https://example.org/s", "file:///etc/passwd", "other.json", "//host/x", "%23/x")


@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef", "$recursiveRef"])
@pytest.mark.parametrize("target", ELSEWHERE)
def test_other_documents_are_refused_without_a_connection(keyword: str, target: str, canary: Canary) -> None:
    target = target.replace("CANARY", canary.address)
    for schema in (
        {"type": "object", keyword: target},
        an_object(a={keyword: target}),
        an_object(a={"type": "array", "items": {keyword: target}}),
        an_object(a={"not": {"anyOf": [{keyword: target}]}}),
        {"type": "object", "dependentSchemas": {"a": {keyword: target}}},
        {"type": "object", "unevaluatedProperties": {keyword: target}},
    ):
        assert "refers to another document" in faults(schema)[0]


def test_a_reference_hidden_where_no_schema_belongs_is_refused_without_a_connection(canary: Canary) -> None:
    schema = {**an_object(a={"$ref": "#/x-hidden"}), "x-hidden": {"$ref": canary.address}}
    assert "Retrieval is disabled" in faults(schema)[0]


@pytest.mark.parametrize("dialect", ["CANARY", "file:///etc/passwd", "http://json-schema.org/draft-07/schema#", 5])
def test_another_dialect_is_refused_without_a_connection(dialect: Any, canary: Canary) -> None:
    dialect = canary.address if dialect == "CANARY" else dialect
    for schema in ({"$schema": dialect, "type": "object"}, an_object(a={"$id": "http://x.test/", "$schema": dialect})):
        assert "uses another dialect" in faults(schema)[0]


def test_compiling_by_itself_opens_no_connection_either(canary: Canary) -> None:
    for schema in ({"$ref": canary.address}, {"$schema": canary.address}, {"$id": canary.address, "$ref": "x"}):
        with pytest.raises(SchemaError):
            compiled(schema)


def test_the_validator_would_fetch_if_it_were_let() -> None:
    bird = Canary()
    with pytest.raises((jsonschema_rs.ReferencingError, ValueError)):
        jsonschema_rs.validator_for({"$ref": bird.address})
    bird.close()
    assert bird.visits > 0


ENDLESS = {
    "itself": {"type": "object", "$ref": "#"},
    "two in a circle": {
        **an_object(a={"$ref": "#/$defs/x"}),
        "$defs": {"x": {"$ref": "#/$defs/y"}, "y": {"$ref": "#/$defs/x"}},
    },
    "through allOf": {**an_object(a={"$ref": "#/$defs/x"}), "$defs": {"x": {"allOf": [{"$ref": "#/$defs/x"}]}}},
    "through not": {**an_object(a={"$ref": "#/$defs/x"}), "$defs": {"x": {"not": {"$ref": "#/$defs/x"}}}},
    "through a dependent schema": {"type": "object", "dependentSchemas": {"a": {"$ref": "#"}}},
}


@pytest.mark.parametrize("schema", ENDLESS.values(), ids=ENDLESS)
def test_a_schema_that_leads_back_to_itself_is_refused(schema: Schema) -> None:
    assert [fault for fault in faults(schema) if "has an infinite reference to itself" in fault]


@pytest.mark.parametrize("pattern", ["(", "[z-a]", "(?=a)b", "(?!a)b", "(?<=a)b", "(?<!a)b", r"(a)\1", "a{1001}{1001}"])
def test_a_broken_or_backtracking_pattern_is_refused(pattern: str) -> None:
    for schema in (
        an_object(a={"type": "string", "pattern": pattern}),
        {"type": "object", "patternProperties": {pattern: {}}},
        {"type": "object", "propertyNames": {"pattern": pattern}},
    ):
        (fault,) = faults(schema)
        assert "or backreferences, which are refused because matching them can take exponential time" in fault


def test_an_invalid_pattern_is_refused() -> None:
    assert faults(an_object(a={"pattern": "a" * 1001})) == ["a: a pattern of more than 1,000 characters"]


ATTACKS: dict[str, Any] = {
    "1,000 levels": nested(1_000),
    "1,000 levels of data": an_object(a={"default": nested(1_000)}),
    "100,000 subschemas": an_object(**{f"p{n}": {"type": "string"} for n in range(100_000)}),
    "100,000 alternatives": {"type": "object", "anyOf": [{}] * 100_000},
    "100,000 choices": an_object(a={"enum": list(range(100_000))}),
    "a description of 10 MB": an_object(a={"description": "x" * 10_000_000}),
    "a name of 10 MB": an_object(**{"x" * 10_000_000: {}}),
    "a pattern of 1 MB": an_object(a={"pattern": "a?" * 500_000}),
    "a pattern that grows": an_object(a={"pattern": "(((a{1,50}){1,50}){1,50}){1,50}"}),
}


@pytest.mark.parametrize("schema", ATTACKS.values(), ids=ATTACKS)
def test_an_attack_is_refused_at_once(schema: Schema) -> None:
    begun = time.process_time()
    assert faults(schema)
    assert time.process_time() - begun < 2


def test_a_schema_that_contains_itself_is_refused() -> None:
    schema = an_object()
    schema["properties"]["self"] = schema
    assert faults(schema) == ["nested deeper than 64 levels"]


def test_data_in_a_schema_has_its_bounds_too() -> None:
    deep: Any = 1
    for _ in range(60):
        deep = [deep]
    assert faults(an_object(a={"default": deep})) == []
    assert faults(an_object(a={"default": [deep]})) == ["nested deeper than 64 levels"]
    assert faults(an_object(a={"enum": list(range(19_000))})) == []
    assert faults(an_object(a={"enum": list(range(20_000))})) == ["larger than 20,000 values or 262,144 characters"]


def test_the_bounds_are_those_that_clients_can_rely_on() -> None:
    assert (MAX_DEPTH, MAX_SUBSCHEMAS) == (16, 200)


def test_a_long_fault_is_cut_and_printable() -> None:
    (fault,) = faults({"type": "object", "required": "\x1b[2J" + "x" * 5_000})
    assert len(fault) <= 200
    assert fault.isprintable()


def test_messages_are_taken_out_of_schemas_and_left_in_data() -> None:
    schema = an_object(
        a={"type": "string", MESSAGE: "A is required"},
        b={"type": "array", "items": {"type": "string", MESSAGE: "Each is text"}},
        c={"default": {MESSAGE: "data"}},
    )
    before = copy.deepcopy(schema)
    published, messages = take_messages(schema)
    assert messages == {("properties", "a"): "A is required", ("properties", "b", "items"): "Each is text"}
    assert published == an_object(
        a={"type": "string"}, b={"type": "array", "items": {"type": "string"}}, c={"default": {MESSAGE: "data"}}
    )
    assert schema == before


def test_parts_come_outer_ones_first_with_names_for_people() -> None:
    schema = an_object(
        nodes={"type": "array", "items": an_object(name={}, **{"x\ny": {}})}, either={"anyOf": [{}, {"not": {}}]}
    )
    assert [str(part) for part in parts_of(schema)] == [
        *("the root", "nodes", "nodes[]", "nodes[].name", "nodes[].x�y"),
        *("either", "either", "either", "either"),
    ]


@pytest.mark.parametrize(
    ("path", "text", "as_pointer"),
    [([], "(all)", ""), (["a"], "a", "/a"), (["nodes", 0, "a/b~"], "nodes.0.a/b~", "/nodes/0/a~1b~0")],
)
def test_places_are_named_with_dots_and_as_json_pointers(path: list[Any], text: str, as_pointer: str) -> None:
    assert (dotted(path), pointer(path)) == (text, as_pointer)
