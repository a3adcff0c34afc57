"""Synchronises the records with the loaded tools: new records, changed definitions.

A full sync is done by `serve` and `synctools` only; changes of the tools directory are recorded by every process
(`follow`). Both are idempotent and safe to run concurrently, and never change operators' decisions.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Final

from django.db import connection, transaction
from django.utils import timezone

from tools_app.base import conf
from tools_app.models import Definition, Tag, ToolRecord, ToolTag
from tools_app.models.audit import note_all
from tools_app.sdk import wording
from tools_app.sdk.names import folded
from tools_app.sources.registry import Loaded, Origin, Registry

log = logging.getLogger("tools_app.sources")

# An arbitrary number that nothing else in this database uses: "toolhub" as base 36, cut to 31 bits.
_ADVISORY_LOCK: Final = 1_620_934_711
_OWN_COLUMNS: Final = ("name", "source", "pack", "place")
_DEFINED_COLUMNS: Final = ("title", "description", "version", "category", "author", "read_only")


@dataclass
class SyncReport:
    """The result of a sync, by tool name."""

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    returned: list[str] = field(default_factory=list)
    retired: list[str] = field(default_factory=list)
    unchanged: int = 0

    def __str__(self) -> str:
        parts = [
            f"{len(names)} {word} ({', '.join(names[:5])}{', …' if len(names) > 5 else ''})"
            for word, names in (
                ("new", self.added),
                ("changed", self.changed),
                ("back", self.returned),
                ("gone", self.retired),
            )
            if names
        ]
        if self.unchanged or not parts:
            parts.append(f"{self.unchanged} unchanged")
        return ", ".join(parts)


def sync(registry: Registry, *, actor: str = "sync") -> SyncReport:
    """Update the records to the loaded tools."""
    with transaction.atomic():
        _lock()
        return _Sync(registry, actor, timezone.now()).run()


def _lock() -> None:
    # SQLite holds its only write lock already, through BEGIN IMMEDIATE.
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_ADVISORY_LOCK])


class _Sync:
    def __init__(self, registry: Registry, actor: str, now: datetime) -> None:
        self.registry, self.actor, self.now = registry, actor, now
        self.report = SyncReport()
        self.notes: list[tuple[str, str, dict[str, Any]]] = []

    def run(self) -> SyncReport:
        records = {record.folded_name: record for record in ToolRecord.objects.select_related("definition")}
        for loaded in self.registry:
            record = records.pop(loaded.tool.folded_name, None)
            if record is None:
                self.add(loaded)
            else:
                self.meet(record, loaded)
        for record in records.values():
            # A tool whose file fails to load is not gone: the file may be fixed.
            is_broken = any(problem.keeps_out(record.name, record.place) for problem in self.registry.problems)
            if record.retired_at is None and not is_broken:
                self.retire(record)
        if self.notes:
            note_all(self.notes, actor=self.actor)
        return self.report

    def add(self, loaded: Loaded) -> None:
        tool = loaded.tool
        enabled = not tool.starts_off
        record = ToolRecord.objects.create(**_origin(loaded), **_row(loaded), enabled=enabled, registered_at=self.now)
        self._define(record, loaded)
        self.report.added.append(tool.name)
        self.notes.append(("tool.register", tool.name, {"version": [None, tool.effective_version]}))

    def meet(self, record: ToolRecord, loaded: Loaded) -> None:
        tool = loaded.tool
        self._update_findings(record, loaded)
        returned = record.retired_at is not None
        redefined = record.definition is None or record.definition.hash != tool.fingerprint
        moved = any(getattr(record, column) != value for column, value in _origin(loaded).items())
        if record.definition is not None and not redefined:
            self.approve(record.definition, loaded)
        if not (returned or redefined or moved):
            self.report.unchanged += 1
            return
        for column, value in {**_origin(loaded), **_row(loaded)}.items():
            setattr(record, column, value)
        record.retired_at = None
        record.save(update_fields=[*_OWN_COLUMNS, *_DEFINED_COLUMNS, "folded_name", "retired_at", "updated_at"])
        if returned:
            self.report.returned.append(tool.name)
            self.notes.append(("tool.return", tool.name, {}))
        if redefined:
            before = record.definition
            self._define(record, loaded)
            changes = {
                "version": [before.version if before else None, tool.effective_version],
                "definition": [before.hash if before else None, tool.fingerprint],
            }
            self.report.changed.append(tool.name)
            self.notes.append(("tool.redefine", tool.name, changes))
        elif not returned:
            self.report.unchanged += 1

    def _define(self, record: ToolRecord, loaded: Loaded) -> None:
        """Set the record's current definition, which may be an earlier one."""
        tool = loaded.tool
        findings = self.findings(loaded)
        definition, new = Definition.objects.get_or_create(
            tool=record,
            hash=tool.fingerprint,
            defaults={
                "version": tool.effective_version,
                "body": tool.definition(),
                "first_seen_at": self.now,
                "findings": findings,
            },
        )
        for finding in findings if new else ():
            # Logged too, because an author who edits the tool reads the log rather than the admin.
            log.warning("%s: %s; read it as an agent would, and reword it", tool.name, finding)
        self.approve(definition, loaded)
        record.definition = definition
        record.save(update_fields=["definition"])
        self._tag(record, set(tool.tags))

    def approve(self, definition: Definition, loaded: Loaded) -> None:
        """Approve the definition if it is undecided and its source approves itself, like the operator's own Python: its
        authors can execute any code here anyway. Refused definitions stay refused."""
        needs_approval = str(loaded.origin) in conf.value("TOOLHUB_SOURCES_TO_APPROVE")
        if needs_approval or definition.approved_at is not None or definition.refused_at is not None:
            return
        definition.approved_at, definition.approved_by = self.now, f"source:{loaded.origin}"
        definition.save(update_fields=["approved_at", "approved_by"])

    def findings(self, loaded: Loaded) -> list[str]:
        """Wording that might mislead an agent. A tool may mention the tools of its own pack."""
        others = wording.Others(loaded.pack, self._packs)
        return [str(finding) for finding in wording.findings(loaded.tool.definition(), others)]

    @cached_property
    def _packs(self) -> dict[str, str]:
        """The pack of every tool, present or retired."""
        packs = dict(ToolRecord.objects.values_list("folded_name", "pack"))
        return packs | {loaded.tool.folded_name: loaded.pack for loaded in self.registry}

    def _update_findings(self, record: ToolRecord, loaded: Loaded) -> None:
        """Check the wording again: the rules may have changed, or other tools may have been added."""
        definition = record.definition
        if definition is None or definition.hash != loaded.tool.fingerprint:
            return
        if definition.findings != (findings := self.findings(loaded)):
            definition.findings = findings
            definition.save(update_fields=["findings"])

    def _tag(self, record: ToolRecord, declared: set[str]) -> None:
        """Declared tags follow the definition; tags that an operator added stay."""
        current = dict(ToolTag.objects.filter(tool=record).values_list("tag__name", "declared"))
        obsolete = [name for name, was_declared in current.items() if was_declared and name not in declared]
        if obsolete:
            ToolTag.objects.filter(tool=record, tag__name__in=obsolete).delete()
        for name in sorted(declared - current.keys()):
            tag, _ = Tag.objects.get_or_create(name=name)
            ToolTag.objects.create(tool=record, tag=tag, declared=True)

    def retire(self, record: ToolRecord) -> None:
        record.retired_at = self.now
        record.save(update_fields=["retired_at", "updated_at"])
        self.report.retired.append(record.name)
        self.notes.append(("tool.retire", record.name, {}))


def _origin(loaded: Loaded) -> dict[str, Any]:
    """The columns for the origin of the tool."""
    tool = loaded.tool
    return {
        "name": tool.name,
        "source": str(loaded.origin),
        "pack": loaded.pack,
        "place": tool.place[:500],
    }


def _row(loaded: Loaded) -> dict[str, Any]:
    """The columns for the definition of the tool."""
    tool = loaded.tool
    return {
        "title": tool.title,
        "description": tool.description,
        "version": tool.effective_version,
        "category": tool.category,
        "author": tool.author,
        "read_only": tool.hints.read_only,
    }


def register(loaded: Loaded, *, actor: str) -> None:
    """Record a single tool that was registered by code."""
    follow([loaded], actor=actor)


def follow(tools: Collection[Loaded], removed: Collection[str] = (), *, actor: str) -> SyncReport:
    """Record these tools as present or gone, and no others: other processes may have loaded other tools."""
    with transaction.atomic():
        _lock()
        work = _Sync(Registry(), actor, timezone.now())
        names = [loaded.tool.folded_name for loaded in tools]
        records = {
            record.folded_name: record
            for record in ToolRecord.objects.select_related("definition").filter(folded_name__in=names)
        }
        for loaded in tools:
            if (record := records.get(loaded.tool.folded_name)) is None:
                work.add(loaded)
            else:
                work.meet(record, loaded)
        for record in ToolRecord.objects.present().filter(folded_name__in=list(map(folded, removed))):
            work.retire(record)
        note_all(work.notes, actor=actor)
        return work.report


def names_of(packs: Iterable[str]) -> set[str]:
    """Names of the recorded tools of shipped packs: a process in which they rest must not give these names away."""
    if not (names := list(packs)):
        return set()
    records = ToolRecord.objects.present().filter(source=Origin.SHIPPED, pack__in=names)
    return set(records.values_list("folded_name", flat=True))


def retire(name: str, *, actor: str) -> bool:
    """Retire a single tool that was removed from the registry. False: there was none."""
    return bool(follow([], [name], actor=actor).retired)
