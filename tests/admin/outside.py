"""Sources outside with what they offer, as a description records it."""

from __future__ import annotations

import json
from typing import Any

from django.utils import timezone

from tools_app.models import Definition, Source, SourceStatus, ToolRecord
from tools_app.sdk.spec import ToolSpec

READS = {"readOnlyHint": True, "idempotentHint": True}
ADDS = {"readOnlyHint": False, "destructiveHint": False}


def make_source(name: str = "wiki", **values: Any) -> Source:
    """A source outside that was listed just now."""
    kind = "mcp_stdio" if "command" in values else "mcp_http"
    location = "" if "command" in values else f"https://{name}.example.com/mcp"
    status = values.pop("status", {})
    source = Source.objects.create(**{"name": name, "prefix": name, "kind": kind, "location": location} | values)
    listed = {"server": "wiki-server 1.2.3", "era": "2025-11-25", "described_at": timezone.now()}
    SourceStatus.objects.create(source=source, **listed | status)
    return source


def offer(
    source: Source,
    original: str,
    *,
    description: str = "Reads pages.",
    annotations: dict[str, Any] | None = None,
    approved: bool = False,
    enabled: bool = False,
    kind: str = "tool",
    **values: Any,
) -> ToolRecord:
    """A tool, prompt or resource of a source, with its first version."""
    name = f"{source.name}_{original}"
    record = ToolRecord(
        name=name, kind=kind, source=source, source_kind=source.kind, pack=source.name, original_name=original,
        description=description, enabled=enabled,
        runtime={"original": original, "upstream": source.name, "starts_off": True, "outside": True}, **values,
    )  # fmt: skip
    record.save()
    record.definition = version_of(record, original, description, annotations, approved=approved)
    record.save()
    return record


def change(record: ToolRecord, description: str, **values: Any) -> Definition:
    """A version that waits behind the approved one, in place of another that waited."""
    record.offered = version_of(record, record.original_name, description, **values)
    record.save()
    return record.offered


def version_of(
    record: ToolRecord,
    original: str,
    description: str,
    annotations: dict[str, Any] | None = None,
    *,
    approved: bool = False,
    **values: Any,
) -> Definition:
    raw = {"name": original, "description": description, "inputSchema": {"type": "object"}}
    if annotations is not None:
        raw["annotations"] = annotations
    body = {
        "kind": record.kind,
        "name": record.name,
        "title": record.title,
        "description": description,
        "inputSchema": {"type": "object"},
        "annotations": {},
        "tags": [],
        "aliases": [],
        "untrusted": True,
        "pin": json.dumps(raw),
    }
    if record.kind == ToolRecord.Kind.TOOL:
        del body["kind"]
    assert record.source is not None
    now = timezone.now()
    decided = {"approved_at": now, "approved_by": "user:chief"} if approved else {}
    return Definition.objects.create(
        tool=record, hash=ToolSpec.of(body, {}).hash, version="", body=body, body_text=json.dumps(body),
        raw=json.dumps(raw), epoch=record.source.epoch, **decided, **values,
    )  # fmt: skip
