"""Operations as tools: their parameters, bodies and answers, and why some cannot be tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.sources.openapi.documents import document, only, operation_of, reading, reason, tools, with_operation
from tools_app.sdk.operation import Body, Operation, Parameter
from tools_app.sources.openapi import Found
from tools_app.sources.openapi.bodies import FILE

TEXT = {"schema": {"type": "string"}}
JSON_TYPE = "application/json"


def parameter(name: str, place: str = "query", **fields: Any) -> dict[str, Any]:
    return {"name": name, "in": place, **TEXT, **fields}


def request_of(found: Found) -> Operation:
    return Operation.read(found.tool["_operation"])


def sent(*parameters: Any, path: str = "/pets", **options: Any) -> tuple[Parameter, ...]:
    return request_of(operation_of({"parameters": list(parameters)}, path=path, method="get", **options)).parameters


def body(content: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    return {"requestBody": {"content": content, **fields}}


def test_a_whole_operation() -> None:
    found = operation_of(
        {
            "operationId": "addPet",
            "summary": "Adds a pet",
            "description": "Adds a pet to a <b>shelter</b>.",
            "tags": ["pets", "all"],
            "parameters": [
                parameter("dryRun", schema={"type": "boolean", "default": False}, description="Only checks."),
                parameter("shelter", "path", required=True),
            ],
            **body({JSON_TYPE: {"schema": {"type": "object"}}}, required=True, description="The pet"),
            "responses": {"201": {"content": {JSON_TYPE: {"schema": {"type": "object"}}}}, "400": {}},
            "security": [{"key": []}, {}],
        },
        path="/shelters/{shelter}/pets",
        components={"securitySchemes": {"key": {"type": "apiKey", "name": "X-Key", "in": "header"}}},
    )
    assert (found.key, found.method, found.path) == (
        "POST /shelters/{shelter}/pets",
        "POST",
        "/shelters/{shelter}/pets",
    )
    assert (found.tag, found.summary, found.problems) == ("pets", "Adds a pet", ())
    hints = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": False, "openWorldHint": True}
    assert found.claims == hints
    assert found.tool == {
        "name": "add_pet",
        "title": "Adds a pet",
        "description": "Adds a pet to a shelter.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "shelter": {"type": "string"},
                "dryRun": {"type": "boolean", "default": False, "description": "Only checks."},
                "body": {"type": "object", "description": "The pet"},
            },
            "required": ["shelter", "body"],
            "additionalProperties": False,
        },
        "annotations": hints,
        "outputSchema": {"type": "object"},
        "_key": "POST /shelters/{shelter}/pets",
        "_operation": {
            "method": "POST",
            "path": "/shelters/{shelter}/pets",
            "parameters": [
                {"argument": "shelter", "name": "shelter", "place": "path", "style": "simple", "explode": False},
                {"argument": "dryRun", "name": "dryRun", "place": "query", "style": "form", "explode": True},
            ],
            "body": {"argument": "body", "media_type": JSON_TYPE, "encoding": "json", "required": True},
            "security": [[["apiKey", "X-Key", "header"]], []],
            "accepts": [JSON_TYPE],
            "success": ["201"],
        },
    }


@pytest.mark.parametrize(
    ("method", "reads", "destroys", "repeats"),
    [
        ("get", True, False, True),
        ("head", True, False, True),
        ("post", False, False, False),
        ("patch", False, False, False),
        ("put", False, False, True),
        ("delete", False, True, True),
        ("options", False, False, False),
    ],
)
def test_what_a_method_claims(method: str, reads: bool, destroys: bool, repeats: bool) -> None:
    found = with_operation({}, method=method)
    assert only(found).claims == {
        "readOnlyHint": reads,
        "destructiveHint": destroys,
        "idempotentHint": repeats,
        "openWorldHint": True,
    }
    (tool,) = tools(found)
    assert tool.spec.body["claims"] == only(found).claims


# ---- parameters


@pytest.mark.parametrize(
    ("fields", "style", "explode"),
    [
        ({}, "form", True),
        ({"explode": False}, "form", False),
        ({"style": "spaceDelimited"}, "spaceDelimited", False),
        ({"style": "pipeDelimited", "explode": True}, "pipeDelimited", True),
        ({"style": "deepObject", "explode": True}, "deepObject", True),
        ({"style": "simple"}, "form", True),
    ],
)
def test_styles_of_query_parameters(fields: dict[str, Any], style: str, explode: bool) -> None:
    (found,) = sent(parameter("a", **fields))
    assert (found.style, found.explode) == (style, explode)


def test_flags_of_query_parameters_and_parameters_with_content() -> None:
    reserved, empty, content, text = sent(
        parameter("a", allowReserved=True),
        parameter("b", allowEmptyValue=True),
        {"name": "c", "in": "query", "content": {JSON_TYPE: {"schema": {"type": "object"}}}},
        {"name": "d", "in": "query", "content": {"text/csv": TEXT}},
    )
    assert (reserved.allow_reserved, empty.allow_empty) == (True, True)
    assert (content.media_type, text.media_type) == (JSON_TYPE, "")


def test_parameters_of_the_path_apply_to_all_of_its_operations_and_can_be_replaced() -> None:
    item = {
        "parameters": [parameter("page"), {"$ref": "#/components/parameters/Limit"}, parameter("id", "path")],
        "get": {"parameters": [parameter("page", schema={"type": "integer"}), parameter("page", "header")]},
    }
    limit = {"name": "limit", "in": "query", "schema": {"type": "integer"}, "description": "At most this number"}
    found = only(reading(document({"/pets/{id}": item}, components={"parameters": {"Limit": limit}})))
    assert found.tool["inputSchema"]["properties"] == {
        "id": {"type": "string"},
        "page": {"type": "integer"},
        "limit": {"type": "integer", "description": "At most this number"},
        "page_header": {"type": "string"},
    }
    assert found.tool["inputSchema"]["required"] == ["id"]


def test_names_that_clash_or_that_clients_refuse_are_changed_and_the_request_keeps_them() -> None:
    names = ["filter[name]", "filter_name", "$top", "名前", "body", "id"]
    operation = {
        "parameters": [*(parameter(name) for name in names), parameter("id", "path"), parameter("x" * 100)],
        **body({JSON_TYPE: {}}),
    }
    found = operation_of(operation, path="/pets/{id}")
    arguments = {one.name: one.argument for one in request_of(found).parameters if one.place == "query"}
    assert arguments == {
        "filter[name]": "filter_name",
        "filter_name": "filter_name_query",
        "$top": "top",
        "名前": "parameter",
        "body": "body_query",
        "id": "id_query",
        "x" * 100: "x" * 50,
    }
    assert list(found.tool["inputSchema"]["properties"]) == ["id", *arguments.values(), "body"]
    assert "The parameter $top is called top, as clients refuse its name." in found.problems


def test_a_parameter_of_the_path_that_is_not_declared_is_a_text() -> None:
    found = operation_of({"parameters": [parameter("other", "path")]}, path="/pets/{petId}", method="get")
    assert found.tool["inputSchema"]["properties"] == {"petId": {"type": "string"}}
    assert found.tool["inputSchema"]["required"] == ["petId"]
    assert found.problems == (
        "Its path has {petId}, which is not declared: it is a text.",
        "The parameter other is not in its path.",
    )


def test_secrets_and_what_the_request_sets_itself_are_no_arguments() -> None:
    headers = [
        parameter(name, "header") for name in ("Authorization", "content-type", "Accept", "Cookie", "X-Key", "X-Id")
    ]
    found = operation_of(
        {"parameters": [*headers, parameter("api_key"), parameter("q")], "security": [{"header": [], "query": []}]},
        method="get",
        components={
            "securitySchemes": {
                "header": {"type": "apiKey", "name": "X-KEY", "in": "header"},
                "query": {"type": "apiKey", "name": "api_key", "in": "query"},
            }
        },
    )
    assert list(found.tool["inputSchema"]["properties"]) == ["q", "X-Id"]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (parameter("session", "cookie"), "is sent as a cookie, which is not supported"),
        (parameter("pet", "path", style="matrix"), "has the style matrix, which is not supported"),
        (parameter("pet", "path", style="label"), "has the style label, which is not supported"),
        ({"name": "pet", "in": "formData", "type": "string"}, "is in formData, which OpenAPI 3 does not have"),
        (parameter("X Key", "header"), "has a name that no header can have"),
    ],
)
def test_parameters_that_cannot_be_sent(fields: dict[str, Any], why: str) -> None:
    required = with_operation({"parameters": [{**fields, "required": True}]}, path="/{pet}", method="get")
    assert reason(required) == f"the parameter {fields['name']} {why}"
    if fields["in"] != "path":
        optional = operation_of({"parameters": [fields]}, method="get")
        assert optional.problems == (f"The optional parameter {fields['name']} is left out: it {why}.",)
        assert optional.tool["inputSchema"]["properties"] == {}


@pytest.mark.parametrize(
    ("operation", "why"),
    [
        ("text", "it is not an object"),
        ({"parameters": ["x"]}, "a parameter is not an object"),
        ({"parameters": [{"in": "query"}]}, "a parameter has no name or no place (in)"),
        (
            {"parameters": [{"$ref": "#/components/parameters/None"}]},
            "#/components/parameters/None is not in the document",
        ),
        ({"parameters": [{"$ref": "common.yaml#/A"}]}, "common.yaml#/A is in another document"),
        (
            {"parameters": [{"name": "a", "in": "query", "schema": {"$ref": "#/x"}}]},
            "the parameter a cannot be read: #/x",
        ),
        ({"parameters": [parameter(f"p{n}") for n in range(400)]}, "it has more than 300 parameters"),
        ({"requestBody": {"$ref": "#/components/requestBodies/None"}}, "its body cannot be read"),
        ({"requestBody": "x"}, "its body is not an object"),
        (body({}, required=True), "its body is required and has no media type"),
        (
            body({JSON_TYPE: {"schema": {"$ref": "./pet.json"}}}),
            "its body cannot be read: ./pet.json is in another document",
        ),
    ],
)
def test_operations_that_cannot_be_read(operation: Any, why: str) -> None:
    assert why in reason(with_operation(operation))


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("", "its path does not begin with /"),
        ("pets", "its path does not begin with /"),
        ("/pets?x={y}", "its path has a query"),
        ("/my pets", "its path has blanks"),
        ("/" + "a" * 3_000, "its path is too long"),
        ("/\ud800", "its path is too long, or cannot be stored"),
    ],
)
def test_paths_that_cannot_be_called(path: str, why: str) -> None:
    assert why in reason(with_operation({}, path=path))


@pytest.mark.parametrize("path", ["/", "/pets/", "/a%20b/{c}", "/pets.json", "/a/{b}/{c}.{d}", "/v1/things:search"])
def test_paths_are_sent_as_they_are(path: str) -> None:
    found = operation_of({}, path=path)
    assert (found.key, request_of(found).path) == (f"POST {path}", path)


def test_what_is_behind_a_number_sign_is_never_sent() -> None:
    found = operation_of({}, path="/#Action=List")
    assert (found.key, request_of(found).path) == ("POST /#Action=List", "/")
    assert found.problems == ("Its path has #Action=List, which is never sent.",)


def test_trace_is_no_tool() -> None:
    assert "TRACE answers with the request" in reason(with_operation({}, method="trace"))


# ---- bodies


@pytest.mark.parametrize(
    ("content", "media_type", "encoding"),
    [
        (["text/plain", JSON_TYPE], JSON_TYPE, "json"),
        (["application/vnd.pet+json; version=2"], "application/vnd.pet+json; version=2", "json"),
        (["application/json-patch+json", "application/merge-patch+json"], "application/merge-patch+json", "json"),
        (["*/*"], JSON_TYPE, "json"),
        (["multipart/form-data", "application/x-www-form-urlencoded"], "application/x-www-form-urlencoded", "form"),
        (["multipart/form-data"], "multipart/form-data", "multipart"),
        (["multipart/*"], "multipart/form-data", "multipart"),
        (["application/xml"], "application/xml", "text"),
        (["text/*"], "text/plain", "text"),
        (["image/png", "application/octet-stream"], "image/png", "binary"),
        (["image/*"], "application/octet-stream", "binary"),
    ],
)
def test_which_media_type_is_sent(content: list[str], media_type: str, encoding: str) -> None:
    found = operation_of(body(dict.fromkeys(content, TEXT)))
    sent_body = request_of(found).body
    assert sent_body == Body("body", media_type, encoding, False, {})
    assert found.tool["inputSchema"]["properties"]["body"] == (FILE if encoding == "binary" else {"type": "string"})
    assert bool(found.problems) is (len(content) > 1)


def test_parts_of_a_form_keep_their_encoding() -> None:
    found = operation_of(
        body(
            {
                "application/x-www-form-urlencoded": {
                    "schema": {"type": "object", "properties": {"tags": {"type": "array"}}},
                    "encoding": {"tags": {"style": "form", "explode": False, "headers": {}}, "bad": "x", "none": {}},
                }
            }
        )
    )
    sent_body = request_of(found).body
    assert sent_body is not None
    assert sent_body.parts == {"tags": {"style": "form", "explode": False}}


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_files_of_a_form_are_objects(version: str) -> None:
    binary = {"format": "binary"} if version == "3.0.3" else {"contentMediaType": "application/octet-stream"}
    file = {"type": "string", "description": "The picture", **binary}
    schema = {
        "allOf": [
            {"$ref": "#/components/schemas/Common"},
            {"properties": {"picture": file, "more": {"type": "array", "items": file}, "avatar": {"type": "string"}}},
        ],
        "required": ["picture"],
    }
    found = operation_of(
        body({"multipart/form-data": {"schema": schema, "encoding": {"avatar": {"contentType": "image/png"}}}}),
        version=version,
        components={"schemas": {"Common": {"required": ["name"], "properties": {"name": {"type": "string"}}}}},
    )
    listed = found.tool["inputSchema"]["properties"]["body"]
    assert listed["required"] == ["name", "picture"]
    assert listed["properties"] == {
        "name": {"type": "string"},
        "picture": {**FILE, "description": f"The picture {FILE['description']}"},
        "more": {"type": "array", "items": FILE},
        "avatar": FILE,
    }
    sent_body = request_of(found).body
    assert sent_body is not None
    assert sent_body.parts == {
        "avatar": {"contentType": "image/png", "file": True},
        "picture": {"file": True},
        "more": {"file": True},
    }


@pytest.mark.parametrize("media_type", ["multipart/mixed", "multipart/related; type=text/xml", "Multipart/Mixed"])
def test_of_multipart_only_form_data_is_supported(media_type: str) -> None:
    words = "of multipart, only form-data is supported"
    required = {"requestBody": {"required": True, "content": {media_type: {"schema": TEXT}}}}
    assert reason(with_operation(required)) == f"its body is {media_type}; {words}"
    optional = operation_of(body({media_type: {"schema": TEXT}}))
    assert request_of(optional).body is None
    assert optional.problems == (f"Its body is not sent as {media_type}: {words}.",)
    both = operation_of(body({media_type: TEXT, "multipart/form-data": {"schema": TEXT}}))
    assert request_of(both).body == Body("body", "multipart/form-data", "multipart", False, {})
    assert both.problems == (f"Its body is not sent as {media_type}: {words}.",)


def test_a_body_can_be_in_a_component() -> None:
    found = operation_of(
        {"requestBody": {"$ref": "#/components/requestBodies/Pet"}},
        components={"requestBodies": {"Pet": {"required": True, "content": {JSON_TYPE: {}}}}},
    )
    assert found.tool["inputSchema"]["required"] == ["body"]


# ---- answers


@pytest.mark.parametrize(
    ("responses", "success"),
    [
        ({"200": {}, "404": {}, "default": {}}, ("200",)),
        ({"default": {}}, ("default",)),
        ({"2xx": {}, "204": {}}, ("204", "2XX")),
        ({"404": {}}, ()),
        (None, ()),
        (["200"], ()),
    ],
)
def test_which_answers_are_successes(responses: Any, success: tuple[str, ...]) -> None:
    assert request_of(operation_of({"responses": responses})).success == success


def test_media_types_of_answers_and_the_schema_of_small_ones() -> None:
    response = {"content": {"text/csv": TEXT, JSON_TYPE: {"schema": {"$ref": "#/components/schemas/Pet"}}}}
    pet = {"type": "object", "properties": {"name": {"type": "string"}}}
    found = operation_of(
        {"responses": {"200": {"$ref": "#/components/responses/Pet"}, "201": {"$ref": "#/nowhere"}}},
        components={"schemas": {"Pet": pet}, "responses": {"Pet": response}},
    )
    assert request_of(found).accepts == ("text/csv", JSON_TYPE)
    assert found.tool["outputSchema"] == {"$ref": "#/$defs/Pet", "$defs": {"Pet": pet}}


def test_large_answers_are_not_recorded() -> None:
    wide = {"properties": {f"property{number}": {"type": "string"} for number in range(1_000)}}
    assert "outputSchema" not in operation_of({"responses": {"200": {"content": {JSON_TYPE: {"schema": wide}}}}}).tool


# ---- what an operator has to know


def test_servers_and_callbacks_of_an_operation_are_said() -> None:
    found = operation_of(
        {"servers": [{"url": "https://upload.example"}], "callbacks": {"done": {}}, "deprecated": True},
        servers=[{"url": "https://api.example"}],
    )
    assert found.problems == (
        "The document names another server for it (https://upload.example); it is called at the address of the source.",
        "It has callbacks, which this hub does not receive.",
        "The document says that it is deprecated.",
    )
    same = operation_of({"servers": [{"url": "https://api.example"}]}, servers=[{"url": "https://api.example"}])
    assert same.problems == ()


def test_security_is_that_of_the_operation_else_of_the_document() -> None:
    schemes = {
        "key": {"type": "apiKey", "name": "k", "in": "query"},
        "basic": {"type": "http", "scheme": "Basic"},
        "sign": {"$ref": "#/components/securitySchemes/oauth"},
        "oauth": {"type": "oauth2", "flows": {}},
    }
    options: Any = {"components": {"securitySchemes": schemes}, "security": [{"key": [], "basic": []}, {"sign": ["a"]}]}
    usual = operation_of({}, **options)
    assert request_of(usual).security == (
        (("apiKey", "k", "query"), ("http", "basic", "")),
        (("oauth2", "", ""),),
    )
    assert request_of(operation_of({"security": []}, **options)).security == ()
    unknown = operation_of({"security": [{"other": []}]}, **options)
    assert request_of(unknown).security == ((("", "other", ""),),)
    assert unknown.problems == ("It needs the security scheme other, which is not declared.",)
