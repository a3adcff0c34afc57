"""Connections to sources outside whose listings a test decides, and records of what they listed."""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Mapping
from typing import Any

import pytest

from tools_app.base import ports
from tools_app.models import Definition, Source, SourceStatus, ToolRecord
from tools_app.sdk.outside import Listing, Origin
from tools_app.sdk.runner import Runner
from tools_app.sdk.spec import ToolSpec
from tools_app.sources import foreign
from tools_app.sources.provider import DescribedTool


class ProgrammableUpstreams:
    """Stands in for the room `upstream`, at its port."""

    def __init__(self) -> None:
        # By the name of the source: what it lists, or why it cannot be reached.
        self.listings: dict[str, Listing | Exception] = {}
        self.listed: list[Origin] = []
        self.reconnected: list[str] = []
        # While it is cleared, listings wait.
        self.hold = threading.Event()
        self.hold.set()

    def runner(self, origin: Origin, spec: ToolSpec) -> Runner:
        raise NotImplementedError

    def listing(self, origin: Origin) -> Listing:
        self.listed.append(origin)
        self.hold.wait(10)
        outcome = self.listings.get(origin.name, Listing(()))
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def reconnect(self, name: str) -> None:
        self.reconnected.append(name)

    def origins(self) -> list[Origin]:
        return []

    def end(self, origins: Collection[Origin]) -> None: ...

    async def aclose(self) -> None:
        pass

    def connect(self, monkeypatch: pytest.MonkeyPatch) -> ProgrammableUpstreams:
        monkeypatch.setattr(ports.upstreams, "_find", lambda: self)
        return self


def raw_tool(name: str, **others: Any) -> dict[str, Any]:
    """A definition as it comes over the wire."""
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    return {"name": name, "description": f"Do {name}.", "inputSchema": schema, **others}


def listing(*tools: Mapping[str, Any], **others: Any) -> Listing:
    return Listing(tools, server="fake 1.0", era="2025-11-25", **others)


def record_tool(source: Source, name: str, *, enabled: bool = False, **annotations: bool) -> ToolRecord:
    """A tool that the source has listed, and that no operator has approved."""
    described = _described(source, name, annotations)
    tool = ToolRecord.objects.create(
        name=described.spec.name,
        description=described.spec.description,
        original_name=name,
        source=source,
        source_kind=source.kind,
        pack=source.name,
        enabled=enabled,
        runtime=dict(described.spec.runtime),
    )
    tool.definition = _definition(tool, described)
    tool.save()
    return tool


def record_version(tool: ToolRecord, words: str, **annotations: bool) -> Definition:
    """Another version of a tool, with these words added to its description."""
    assert tool.source is not None
    return _definition(tool, _described(tool.source, tool.original_name, annotations, words))


def _described(source: Source, name: str, annotations: Mapping[str, bool], words: str = "") -> DescribedTool:
    origin = source.origin
    assert origin is not None
    raw = raw_tool(name, annotations=dict(annotations))
    raw["description"] += words
    (described,), problems = foreign.described(origin, Listing([raw]), {}, pin_defaults=True)
    assert not problems
    return described


def _definition(tool: ToolRecord, described: DescribedTool) -> Definition:
    assert tool.source is not None
    return Definition.objects.create(
        tool=tool,
        hash=described.spec.hash,
        version="",
        epoch=tool.source.epoch,
        body=described.spec.body,
        body_text=json.dumps(described.spec.body),
        raw=described.raw,
        pin_hash=described.pin_hash,
        normaliser=described.normaliser,
    )


def status_of(name: str) -> SourceStatus:
    return SourceStatus.objects.get(source__name=name)
