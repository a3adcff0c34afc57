"""The hub as an OpenAPI tool server: each tool that the key can call is an operation."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from django.http import HttpRequest, HttpResponse

from tools_app.access import access
from tools_app.answers import with_outline
from tools_app.api import openapi
from tools_app.api.answers import answer_unless_known
from tools_app.api.authentication import caller_of
from tools_app.api.errors import failures
from tools_app.api.openapi import Document
from tools_app.api.routing import StrictRouter
from tools_app.catalog import catalog
from tools_app.catalog.entry import Entry
from tools_app.sdk.accounts import PARAMETER
from tools_app.sdk.schemas import DIALECT, Schema, parts_of
from tools_app.sdk.tool import Tool

router = StrictRouter(tags=["tools"])

_FAILURES = failures(404, 408, 409, 413, 415, 422, 502)


@router.get("/openapi.json", response={200: Document, 304: None, **failures()}, url_name="tool_server")
async def describe_tools(request: HttpRequest) -> HttpResponse:
    """Get an OpenAPI document of the tools that this key can call.

    Each tool is an operation with its schemas. For clients that import tools from the URL of an OpenAPI document.
    """
    caller = caller_of(request)
    access.require(caller, "tools:list")
    access.require(caller, "tools:execute")
    return answer_unless_known(request, document((await catalog.fresh()).seen_by(caller).callable))


def document(entries: Iterable[Entry]) -> Document:
    tools = [(entry, entry.tool) for entry in entries if entry.tool is not None]
    schemas: dict[str, Schema] = {"Failure": openapi.failure_schema()}
    for entry, tool in tools:
        schemas[f"{tool.name}.arguments"] = _placed(entry.input_schema, f"{tool.name}.arguments")
        schemas[f"{tool.name}.result"] = _placed(_result(tool), f"{tool.name}.result")
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
        "paths": {f"/v1/tools/{entry.shown_name}/call": {"post": _operation(entry, tool)} for entry, tool in tools},
        "components": {
            "schemas": schemas,
            "responses": openapi.failure_responses(),
            "securitySchemes": openapi.SECURITY_SCHEMES,
        },
    }


def _operation(entry: Entry, tool: Tool) -> dict[str, Any]:
    body: dict[str, Any] = {"schema": _reference(f"{tool.name}.arguments")}
    if tool.examples:
        connection = {PARAMETER: entry.choices[0]} if entry.choices else {}
        body["examples"] = {
            f"example{number}": {"summary": example.description, "value": {**connection, **example.parameters}}
            for number, example in enumerate(tool.examples, 1)
        }
    success = {
        "description": "Result of the tool",
        "headers": openapi.called_headers(),
        "content": {"application/json": {"schema": _answer(tool)}},
    }
    operation = {
        "operationId": entry.shown_name,
        "summary": entry.title,
        "description": entry.description,
        "parameters": [openapi.idempotency_key(), openapi.approval()],
        "requestBody": {"required": bool(entry.input_schema.get("required")), "content": {"application/json": body}},
        "responses": {"200": success} | {str(status): openapi.failure_reference(status) for status in _FAILURES},
    }
    return operation | {"tags": [entry.category]} if entry.category else operation


def _answer(tool: Tool) -> Schema:
    return {
        "type": "object",
        "properties": {
            "success": {"const": True},
            "result": _reference(f"{tool.name}.result"),
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


def _result(tool: Tool) -> Schema:
    return with_outline(tool.output_schema) if tool.output_schema is not None else {}


def _reference(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _placed(schema: Schema, name: str) -> Schema:
    """A schema as a component of the document: references within it get its path as a prefix."""
    placed: Schema = copy.deepcopy(schema)
    for part in parts_of(placed):
        # These would make the schema a document of its own.
        part.body.pop("$schema", None)
        part.body.pop("$id", None)
        for keyword in ("$ref", "$dynamicRef"):
            target = part.body.get(keyword, "")
            if target == "#" or target.startswith("#/"):
                part.body[keyword] = f"#/components/schemas/{name}{target[1:]}"
    return placed
