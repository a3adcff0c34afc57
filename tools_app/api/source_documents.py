"""OpenAPI documents of sources: preview one, replace it, show and select its operations."""

from __future__ import annotations

from typing import Any, Final

from django.http import HttpRequest
from pydantic import Field

from tools_app import governance
from tools_app.access import actions
from tools_app.api.authentication import actor_of
from tools_app.api.bodies import Body, Reason
from tools_app.api.errors import Failure
from tools_app.api.routing import StrictRouter
from tools_app.api.slow import run_apart
from tools_app.api.source_items import DocumentPreview, SourceDetail, named
from tools_app.base import database

# What a request of 8 MiB can hold. Larger documents are read from a URL, or by the command.
MOST_DOCUMENT: Final = 8 * 1024 * 1024
MOST_SELECTED: Final = 2_000

router = StrictRouter(tags=["sources"])


class DocumentBody(Body):
    """An OpenAPI document, or where it is."""

    document: str = Field(
        default="", max_length=MOST_DOCUMENT, description="The document, as JSON or YAML; empty: `documentUrl` has it"
    )
    document_url: str = Field(
        default="",
        max_length=2_000,
        description="URL of the document, without secrets. It is read again every hour, and when it is asked for",
    )

    def given(self) -> dict[str, Any]:
        return {"text": self.document.encode() if self.document else None, "address": self.document_url}


class PreviewedDocument(DocumentBody):
    name: str = Field(default="", max_length=16, description="Of the source that it would be", examples=["shop"])
    internal: bool = Field(
        default=False,
        description="Permit a private address and plain http. Only people and keys with `admin:*` can do this",
    )
    select: list[str] | None = Field(
        default=None, max_length=MOST_SELECTED, description="Operations, or patterns for them; null: all"
    )


class NewDocument(DocumentBody):
    reason: Reason = ""


class Selection(Body):
    select: list[str] | None = Field(
        max_length=MOST_SELECTED,
        description="Keys of operations, or patterns for their keys, paths or names, such as `GET /pets*`, or "
        "`tag:NAME`; null: all, also those that the document gets later",
        examples=[["GET /pets/{petId}", "tag:orders"]],
    )
    reason: Reason = ""


@router.post("/preview", response=DocumentPreview)
async def preview_document(request: HttpRequest, body: PreviewedDocument) -> DocumentPreview:
    """Show the operations of an OpenAPI document as the tools that they would be. Requires `sources:manage`.

    The key must not be restricted to toolsets. Nothing is stored.
    """
    actor = actor_of(request, actions.SOURCE_PREVIEW)
    parts = {"name": body.name, "internal": body.internal, "select": body.select, **body.given()}
    return DocumentPreview.shown(await run_apart(governance.preview_document, **parts, actor=actor))


@router.get("/{source_name}/operations", response={200: DocumentPreview, 304: None, 409: Failure})
async def list_operations(request: HttpRequest, source_name: str) -> DocumentPreview:
    """List the operations of the document of a source, and which of them are imported. Requires `tools:manage`.

    The key must not be restricted to toolsets. The document is the one that was read last.
    """
    actor = actor_of(request, actions.SOURCES_READ)
    return DocumentPreview.shown(await run_apart(governance.preview_source, named(source_name), actor=actor))


@router.patch("/{source_name}/operations", response={200: SourceDetail, 409: Failure})
async def select_operations(request: HttpRequest, source_name: str, body: Selection) -> SourceDetail:
    """Select the operations of a document that are imported as tools. Requires `sources:manage`.

    The key must not be restricted to toolsets. New tools are off, and wait for approval; those that are not selected
    any more are refused, and then retired, like tools that a server no longer lists.
    """
    actor = actor_of(request, actions.SOURCE_SELECT)
    await run_apart(governance.select_operations, named(source_name), body.select, actor=actor, reason=body.reason)
    return await database.run(SourceDetail.named, source_name)


@router.post("/{source_name}/document", response={200: SourceDetail, 409: Failure})
async def replace_document(request: HttpRequest, source_name: str, body: NewDocument) -> SourceDetail:
    """Replace the OpenAPI document of a source, or its URL. Requires `sources:manage`.

    The key must not be restricted to toolsets. Without `admin:*` it cannot approve what the source lists then. Changed
    operations wait for approval; agents see the approved versions meanwhile.
    """
    actor = actor_of(request, actions.SOURCE_DOCUMENT)
    parts = {**body.given(), "reason": body.reason}
    await run_apart(governance.replace_document, named(source_name), **parts, actor=actor)
    return await database.run(SourceDetail.named, source_name)
