"""What an OpenAPI document describes, after it was read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tools_app.sdk.outside import Listing


class DocumentError(ValueError):
    """Nothing of a document can be read. `next_step` says what to do about it."""

    def __init__(self, message: str, next_step: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.next_step = next_step


@dataclass(frozen=True, slots=True)
class Server:
    """Where the service can be: a URL, which can be relative and have variables."""

    url: str
    # Name → default, choices and description.
    variables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    description: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """An operation that can be a tool."""

    # Method and path, which identify the operation.
    key: str
    method: str
    path: str
    tag: str
    summary: str
    # The definition as JSON text: documents have up to thousands, and few of them are looked at.
    definition: str
    # The estimated cost of listing the tool.
    tokens: int
    claims: Mapping[str, bool]
    # What an operator has to know before importing it.
    problems: tuple[str, ...] = ()
    # What is declared for its successful answers, as JSON text; empty unless it was asked for.
    answers: str = ""

    @property
    def tool(self) -> dict[str, Any]:
        """The definition in the form in which MCP servers list tools, with `_key` and `_operation`."""
        tool: dict[str, Any] = json.loads(self.definition)
        return tool


@dataclass(frozen=True, slots=True)
class Document:
    # The version of OpenAPI.
    openapi: str
    title: str = ""
    # The version of the API.
    version: str = ""
    description: str = ""
    servers: tuple[Server, ...] = ()
    operations: tuple[Found, ...] = ()
    # Keys of operations that cannot be tools, and the reasons.
    unsupported: tuple[tuple[str, str], ...] = ()
    # Name → kind, name and place as in `Operation.security`, and what an operator needs for a connection.
    security_schemes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # What the document has besides operations, and what is ignored.
    notes: tuple[str, ...] = ()


def listing(document: Document) -> Listing:
    """The operations of a document, as other sources outside list their tools."""
    return Listing(
        tools=[found.tool for found in document.operations],
        server=" ".join(filter(None, (document.title, document.version))),
        era=f"OpenAPI {document.openapi}",
    )
