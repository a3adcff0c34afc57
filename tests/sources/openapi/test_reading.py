"""Whole documents: everything in them becomes a tool, or is named with the reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.sources.openapi.documents import document, reading
from tools_app.sources.foreign import definitions
from tools_app.sources.openapi import DocumentError, Server, listing, read
from tools_app.sources.openapi.operations import MOST_OUTPUT


def test_what_a_document_says_of_its_service() -> None:
    found = reading(
        document(
            {},
            version="3.1.0",
            info={"title": "Pet  shop", "version": 2, "description": "<p>All about pets</p>"},
            servers=[
                {"url": "/api/v1"},
                {
                    "url": "https://{region}.pets.example",
                    "variables": {"region": {"default": "eu", "enum": ["eu", "us"], "description": "Where"}},
                    "description": "Production",
                },
                {"description": "nothing"},
                "nonsense",
            ],
            webhooks={"created": {"post": {}}},
            components={
                "securitySchemes": {
                    "basic": {"type": "http", "scheme": "basic", "description": "Name and password"},
                    "sign": {
                        "type": "oauth2",
                        "flows": {
                            "clientCredentials": {
                                "tokenUrl": "https://pets.example/token",
                                "scopes": {"read": "Reads"},
                            },
                            "other": {},
                        },
                    },
                    "connect": {"type": "openIdConnect", "openIdConnectUrl": "https://pets.example/.well-known"},
                    "nonsense": {"type": "x"},
                    "missing": {"$ref": "#/x"},
                }
            },
        )
    )
    assert (found.openapi, found.title, found.version, found.description) == (
        "3.1.0",
        "Pet shop",
        "2",
        "All about pets",
    )
    region = {"default": "eu", "choices": ["eu", "us"], "description": "Where"}
    assert found.servers == (
        Server("/api/v1"),
        Server("https://{region}.pets.example", {"region": region}, "Production"),
    )
    assert found.notes == ("The document has 1 webhooks, which this hub does not receive.",)
    schemes = found.security_schemes
    assert list(schemes) == ["basic", "sign", "connect"]
    assert (schemes["basic"]["kind"], schemes["basic"]["name"]) == ("http", "basic")
    assert schemes["connect"]["address"] == "https://pets.example/.well-known"
    assert schemes["sign"]["flows"] == {
        "clientCredentials": {"tokenUrl": "https://pets.example/token", "scopes": ["read"]}
    }
    assert listing(found).server == "Pet shop 2"


def test_path_items_can_be_references_and_extensions_are_no_paths() -> None:
    found = reading(
        document(
            {
                "/a": {"$ref": "#/components/pathItems/Shared", "summary": "x"},
                "/b": {"$ref": "#/paths/~1a"},
                "/c": {"$ref": "other.yaml#/c"},
                "/d": "nonsense",
                "/e": {"get": {}, "x-internal": True, "summary": "all", "servers": []},
                "x-groups": {"get": {}},
            },
            version="3.1.0",
            components={"pathItems": {"Shared": {"get": {"operationId": "shared"}}}},
        )
    )
    assert [one.key for one in found.operations] == ["GET /a", "GET /b", "GET /e"]
    assert dict(found.unsupported) == {
        "/c": "its path cannot be read: other.yaml#/c is in another document, and references to those are not followed",
        "/d": "its path is not an object",
    }


def test_one_operation_that_cannot_be_read_costs_no_other() -> None:
    parts: dict[str, Any] = {"get": {}, "post": {"parameters": 7}, "put": 3, "delete": {"parameters": [None]}}
    found = reading(document({"/a": parts}))
    assert [one.key for one in found.operations] == ["GET /a", "POST /a"]
    assert [key for key, _ in found.unsupported] == ["PUT /a", "DELETE /a"]


@pytest.mark.parametrize("paths", [{}, None, [], "x"])
def test_a_document_without_operations_is_read(paths: Any) -> None:
    found = read(json.dumps({"openapi": "3.1.0", "paths": paths}).encode())
    assert (found.operations, found.unsupported) == ((), ())


def test_only_selected_operations_are_made() -> None:
    body = json.dumps(document({"/a": {"get": {}, "post": {}}, "/b": {"get": 1}, "/c": 1})).encode()
    found = read(body, selected=["POST /a", "GET /none"])
    assert [one.key for one in found.operations] == ["POST /a"]
    assert found.unsupported == (("/c", "its path is not an object"),)


@pytest.mark.parametrize(
    ("root", "message", "next_step"),
    [
        (
            {"swagger": "2.0", "paths": {}},
            "The document is Swagger 2.0; OpenAPI 3.0 or 3.1 is needed",
            "swagger2openapi",
        ),
        ({"asyncapi": "3.0.0"}, "It is an AsyncAPI document", "OpenAPI"),
        ({"info": {}, "item": []}, "It is a collection", "OpenAPI"),
        ({"paths": {}}, "does not say which version of OpenAPI it has", "openapi: 3.1.0"),
        ({"openapi": "4.0.0"}, "does not say which version of OpenAPI it has", "openapi: 3.1.0"),
        ({"openapi": {"x": 1}}, "does not say which version of OpenAPI it has", "openapi: 3.1.0"),
    ],
)
def test_other_documents_are_refused_with_what_to_do(root: Any, message: str, next_step: str) -> None:
    with pytest.raises(DocumentError, match=message) as caught:
        read(json.dumps(root).encode())
    assert next_step in caught.value.next_step


@pytest.mark.parametrize(
    ("text", "version"), [("3.0", "3.0"), ("3.1.1", "3.1.1"), ("'3.0.3'", "3.0.3"), ("3.2.0", "3.2.0")]
)
def test_versions_of_openapi_3(text: str, version: str) -> None:
    found = read(f"openapi: {text}\npaths: {{}}\n".encode())
    assert found.openapi == version
    assert bool(found.notes) is (version == "3.2.0")


def test_dates_and_numbers_of_yaml_are_read_as_they_are() -> None:
    found = read(
        b"""
openapi: 3.0.3
info: {title: Calendar, version: 2024-01-31}
paths:
  /days/{day}:
    get:
      operationId: getDay
      parameters:
        - {name: day, in: path, required: true, schema: {type: string, format: date, example: 2024-01-31}}
        - {name: flag, in: query, schema: {type: string, enum: [on, off, no, yes]}}
      responses:
        200: {description: ok}
        404: {description: none}
"""
    )
    assert found.version == "2024-01-31"
    tool = found.operations[0].tool
    assert tool["inputSchema"]["properties"]["day"]["examples"] == ["2024-01-31"]
    assert tool["inputSchema"]["properties"]["flag"]["enum"] == ["on", "off", "no", "yes"]
    assert tool["_operation"]["success"] == ["200"]


def test_an_output_schema_is_recorded_up_to_the_size_that_is_listed() -> None:
    assert MOST_OUTPUT == definitions.MOST_OUTPUT


def test_what_a_tool_costs_is_estimated_without_its_output_schema() -> None:
    small, large = (
        reading(document({"/a": {"get": {"responses": {"200": {"content": content}}}}})).operations[0]
        for content in ({}, {"application/json": {"schema": {"type": "object", "description": "x" * 200}}})
    )
    assert small.tokens == large.tokens
    assert 40 < small.tokens < 100
