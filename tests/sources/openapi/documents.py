"""Documents for tests, and what becomes of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tools_app.sdk.outside import Origin
from tools_app.sources.foreign import described
from tools_app.sources.openapi import Document, Found, listing, read
from tools_app.sources.provider import DescribedTool

ORIGIN = Origin("pets", "openapi", 1, location="https://pets.example")
Json = dict[str, Any]


def document(paths: Mapping[str, Any] | None = None, *, version: str = "3.0.3", **parts: Any) -> Json:
    return {"openapi": version, "info": {"title": "Pets", "version": "1"}, "paths": paths or {}, **parts}


def reading(root: Mapping[str, Any], **options: Any) -> Document:
    return read(json.dumps(root).encode(), **options)


def with_operation(
    operation: Mapping[str, Any], *, path: str = "/pets", method: str = "post", **parts: Any
) -> Document:
    return reading(document({path: {method: operation}}, **parts))


def only(found: Document) -> Found:
    assert found.unsupported == ()
    (operation,) = found.operations
    return operation


def reason(found: Document) -> str:
    """Why the only operation is not supported."""
    assert found.operations == ()
    ((_, why),) = found.unsupported
    return why


def operation_of(operation: Mapping[str, Any], **options: Any) -> Found:
    return only(with_operation(operation, **options))


def schema_of(operation: Mapping[str, Any], **options: Any) -> Json:
    schema: Json = operation_of(operation, **options).tool["inputSchema"]
    return schema


def body_of(schema: Any, *, media_type: str = "application/json", **options: Any) -> Json:
    """The input schema of an operation with this body."""
    return schema_of({"requestBody": {"content": {media_type: {"schema": schema}}}}, **options)


def tools(found: Document, names: Mapping[tuple[str, str], str] | None = None) -> list[DescribedTool]:
    """The tools of the hub for a document, all of which can be used."""
    made, problems = described(ORIGIN, listing(found), names or {}, pin_defaults=True)
    assert problems == []
    return made
