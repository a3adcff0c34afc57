"""Whatever a document holds: its operations become tools that can be listed and checked, or have a reason."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sources.openapi.documents import document, reading, tools
from tools_app.sdk.checker import Checker
from tools_app.sdk.operation import Operation
from tools_app.sdk.schemas import compiled, parts_of
from tools_app.sources.openapi.operations import METHODS

KEY = re.compile(r"[A-Za-z0-9_.-]{1,64}")
NAME = re.compile(r"[a-z][a-z0-9_-]{0,49}")

names = st.sampled_from(["id", "name", "body", "$top", "filter[a]", "@odata.type", "Ünï", "a b", "x" * 70, ""])
texts = st.sampled_from(["", "A text.", "<p>Text</p>", "no\u200bthing", "x" * 2_000, "a\ud800"])
odd = st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), texts, st.lists(st.integers(), max_size=2))
references = st.sampled_from(["A", "B", "C/D", "None"]).map(lambda name: {"$ref": f"#/components/schemas/{name}"})
keywords = {
    "type": st.sampled_from(["string", "integer", "object", "array", "null", "file", ["string", "null"], 3]),
    "format": st.sampled_from(["binary", "date", "int64"]),
    "nullable": st.booleans(),
    "readOnly": st.booleans(),
    "writeOnly": st.booleans(),
    "description": texts,
    "enum": st.lists(odd, max_size=3),
    "const": odd,
    "default": odd,
    "example": odd,
    "minimum": odd,
    "exclusiveMinimum": odd,
    "maxLength": odd,
    "multipleOf": odd,
    "pattern": st.sampled_from(["^a+$", "(?=a)", "(", "[a-z]{1,3}"]),
    "required": st.one_of(st.lists(names, max_size=3), st.booleans()),
    "uniqueItems": odd,
    "discriminator": st.fixed_dictionaries({"propertyName": names}),
    "$id": texts,
}


def _larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    parts = {
        **keywords,
        "properties": st.dictionaries(names, inner, max_size=3),
        "patternProperties": st.dictionaries(st.sampled_from(["^x", "(?!a)"]), inner, max_size=2),
        "items": st.one_of(inner, st.lists(inner, max_size=2)),
        "additionalProperties": inner,
        **{name: st.lists(inner, max_size=2) for name in ("allOf", "anyOf", "oneOf")},
        "not": inner,
        "if": inner,
        "then": inner,
    }
    return st.fixed_dictionaries({}, optional=parts)


schemas = st.recursive(st.one_of(references, odd, st.fixed_dictionaries({}, optional=keywords)), _larger, max_leaves=12)
parameters = st.fixed_dictionaries(
    {"name": st.one_of(names, odd), "in": st.sampled_from(["query", "path", "header", "cookie", "body"])},
    optional={
        "schema": schemas,
        "style": st.sampled_from(["form", "simple", "matrix", "deepObject", "nonsense"]),
        "explode": odd,
        "required": odd,
        "description": texts,
        "content": st.dictionaries(
            st.sampled_from(["application/json", "text/plain"]), st.fixed_dictionaries({"schema": schemas})
        ),
    },
)
media = st.dictionaries(
    st.sampled_from(
        ["application/json", "application/x-www-form-urlencoded", "multipart/form-data", "text/csv", "*/*"]
    ),
    st.one_of(odd, st.fixed_dictionaries({}, optional={"schema": schemas, "encoding": st.dictionaries(names, odd)})),
    max_size=2,
)
operations = st.one_of(
    odd,
    st.fixed_dictionaries(
        {},
        optional={
            "operationId": st.one_of(names, texts),
            "summary": texts,
            "description": texts,
            "parameters": st.one_of(st.lists(parameters, max_size=3), odd),
            "requestBody": st.one_of(st.fixed_dictionaries({"content": media}, optional={"required": odd}), odd),
            "responses": st.dictionaries(
                st.sampled_from(["200", "default", "4XX"]), st.one_of(odd, st.fixed_dictionaries({"content": media}))
            ),
            "security": st.one_of(odd, st.lists(st.dictionaries(names, st.just([])), max_size=2)),
            "tags": odd,
            "servers": odd,
        },
    ),
)
paths = st.dictionaries(
    st.sampled_from(["/", "/{id}", "/a/{b}/{c}", "/{$top}/", "", "x", "/?a", "/#b"]),
    st.dictionaries(st.sampled_from([*METHODS, "parameters"]), operations, max_size=3),
    max_size=3,
)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(["3.0.3", "3.1.0"]), paths, st.dictionaries(st.sampled_from(["A", "B"]), schemas))
def test_every_operation_is_a_tool_that_clients_accept_or_has_a_reason(
    version: str, parts: dict[str, Any], components: dict[str, Any]
) -> None:
    root = document(parts, version=version, components={"schemas": components})
    found = reading(json.loads(json.dumps(root)))
    keys = {f"{method.upper()} {path}" for path, item in parts.items() for method in item if method in METHODS}
    reported = [one.key for one in found.operations] + [key for key, _ in found.unsupported]
    assert sorted(reported) == sorted(keys)
    # A reason with the name of an exception: a form that the reader does not expect.
    assert not [reason for _, reason in found.unsupported if not reason or "Error" in reason]
    made = tools(found)
    assert [one.spec.key for one in made] == [one.key for one in found.operations]
    for one in made:
        schema = one.spec.body["inputSchema"]
        assert NAME.fullmatch(one.spec.name)
        assert all(KEY.fullmatch(name) for part in parts_of(schema) for name in part.body.get("properties", ()))
        if not one.spec.runtime.get("unchecked"):
            Checker(schema)
        else:
            compiled(schema)
        operation = Operation.read(one.spec.runtime["operation"])
        arguments = [parameter.argument for parameter in operation.parameters]
        arguments += [operation.body.argument] if operation.body is not None else []
        # Those of parameters are never renamed after they were read.
        assert sorted(arguments) == sorted(schema["properties"])
