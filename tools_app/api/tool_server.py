"""The hub as an OpenAPI tool server: each tool that the key can call is an operation."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from django.http import HttpRequest

from tools_app.access import actions
from tools_app.answers import with_outline
from tools_app.api import openapi
from tools_app.api.authentication import require
from tools_app.api.calling import FAILURES
from tools_app.api.openapi import Document
from tools_app.api.routing import StrictRouter
from tools_app.catalog import catalog
from tools_app.catalog.entry import Entry
from tools_app.sdk.schemas import DIALECT, Schema, parts_of
from tools_app.sdk.spec import ToolSpec

router = StrictRouter(tags=["tools"])


@router.get("/openapi.json", response={200: Document, 304: None}, url_name="tool_server")
async def describe_tools(request: HttpRequest) -> Document:
    """Get an OpenAPI document of the tools that this key can call.

    Each tool is an operation with its schemas. For clients that import tools from the URL of an OpenAPI document.
    """
    caller = require(request, actions.TOOLS_LIST)
    actions.TOOLS_CALL.require(caller)
    return document((await catalog.fresh()).seen_by(caller).callable)


def document(entries: Iterable[Entry]) -> Document:
    tools = list(entries)
    schemas: dict[str, Schema] = {"Failure": openapi.failure_schema()}
    for entry in tools:
        schemas[f"{entry.name}.arguments"] = _as_component(entry.input_schema, f"{entry.name}.arguments")
        schemas[f"{entry.name}.result"] = _as_component(_result(entry.spec), f"{entry.name}.result")
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "ToolHub tools",
            "version": "1",
            "description": "The tools that your key can call. An operator can disable each of them at any time.",
        },
        "jsonSchemaDialect": DIALECT,
        "servers": openapi.SERVERS,
        "security": openapi.SECURITY,
        "paths": {f"/v1/tools/{entry.shown_name}/call": {"post": _operation(entry)} for entry in tools},
        "components": {
            "schemas": schemas,
            "responses": openapi.failure_responses(),
            "securitySchemes": openapi.SECURITY_SCHEMES,
        },
    }


def _operation(entry: Entry) -> dict[str, Any]:
    body: dict[str, Any] = {"schema": _reference(f"{entry.name}.arguments")}
    if entry.spec.examples:
        connection = {entry.connection_parameter: entry.choices[0]} if entry.choices else {}
        body["examples"] = {
            f"example{number}": {"summary": example.description, "value": {**connection, **example.parameters}}
            for number, example in enumerate(entry.spec.examples, 1)
        }
    success = {
        "description": "Result of the tool",
        "headers": openapi.called_headers(),
        "content": {"application/json": {"schema": _answer(entry)}},
    }
    operation = {
        "operationId": entry.shown_name,
        "summary": entry.title,
        "description": entry.description,
        "parameters": [openapi.idempotency_key(), openapi.approval()],
        "requestBody": {"required": bool(entry.input_schema.get("required")), "content": {"application/json": body}},
        "responses": {"200": success} | {str(status): openapi.failure_reference(status) for status in FAILURES},
    }
    return operation | {"tags": [entry.category]} if entry.category else operation


def _answer(entry: Entry) -> Schema:
    return {
        "type": "object",
        "properties": {
            "success": {"const": True},
            "result": _reference(f"{entry.name}.result"),
            "executionTime": {"type": "integer", "description": "Milliseconds"},
            "timestamp": {"type": "string", "format": "date-time"},
            "callId": {"type": "string"},
            "cached": {"type": "boolean", "description": "The result comes from the cache"},
            "untrusted": {"type": "boolean", "description": "The result may contain external content"},
            "invisibleCharactersLeftOut": {
                "type": "integer",
                "description": "Number of invisible characters removed from the result",
            },
        },
        "required": ["success", "result", "executionTime", "timestamp", "callId"],
    }


def _result(spec: ToolSpec) -> Schema:
    return with_outline(spec.output_schema) if spec.output_schema is not None else {}


def _reference(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _as_component(schema: Schema, name: str) -> Schema:
    """A schema as a component of the document: references within it get its path as a prefix."""
    component: Schema = copy.deepcopy(schema)
    for part in parts_of(component):
        # These would make the schema a document of its own.
        part.body.pop("$schema", None)
        part.body.pop("$id", None)
        for keyword in ("$ref", "$dynamicRef"):
            target = part.body.get(keyword, "")
            if target == "#" or target.startswith("#/"):
                part.body[keyword] = f"#/components/schemas/{name}{target[1:]}"
    return component
