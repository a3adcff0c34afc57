"""From what is loaded to what is remembered: records for new tools, definitions for changed ones.

Done by `serve` and `synctools` only. Running it twice changes nothing, running it in two processes at once is safe,
and what operators decided is never touched.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from django.db import connection, transaction
from django.utils import timezone

from tools_app.models import Definition, Tag, ToolRecord, ToolTag
from tools_app.models.audit import note_all
from tools_app.registry import Loaded, Registry
from tools_app.tool import folded

# Any number will do, as long as nobody else in this database uses it: "toolhub" as base 36, cut to 31 bits.
_ADVISORY_LOCK: Final = 1_620_934_711
_OWN_COLUMNS: Final = ("name", "source", "pack", "place")
_DEFINED_COLUMNS: Final = ("title", "description", "version", "category", "author", "read_only")


@dataclass
class SyncReport:
    """What a sync did, by tool name."""

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
    """Make the records say what is loaded."""
    with transaction.atomic():
        _alone()
        return _Sync(registry, actor, timezone.now()).run()


def _alone() -> None:
    # SQLite has taken its one write lock with BEGIN IMMEDIATE already.
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_ADVISORY_LOCK])


class _Sync:
    def __init__(self, registry: Registry, actor: str, now: datetime) -> None:
        self.registry, self.actor, self.now = registry, actor, now
        self.report = SyncReport()
        self.notes: list[tuple[str, str, dict[str, Any]]] = []

    def run(self) -> SyncReport:
        known = {record.folded_name: record for record in ToolRecord.objects.select_related("definition")}
        for loaded in self.registry:
            record = known.pop(loaded.tool.folded_name, None)
            if record is None:
                self.add(loaded)
            else:
                self.meet(record, loaded)
        for record in known.values():
            # A tool whose file is there but broken has not gone: it waits to be mended.
            waits = any(problem.keeps_out(record.name, record.place) for problem in self.registry.problems)
            if record.retired_at is None and not waits:
                self.retire(record)
        if self.notes:
            note_all(self.notes, actor=self.actor)
        return self.report

    def add(self, loaded: Loaded) -> None:
        tool = loaded.tool
        enabled = not tool.starts_off
        record = ToolRecord.objects.create(**_own(loaded), **_defined(loaded), enabled=enabled, registered_at=self.now)
        self._define(record, loaded)
        self.report.added.append(tool.name)
        self.notes.append(("tool.register", tool.name, {"version": [None, tool.effective_version]}))

    def meet(self, record: ToolRecord, loaded: Loaded) -> None:
        tool = loaded.tool
        returned = record.retired_at is not None
        redefined = record.definition is None or record.definition.hash != tool.fingerprint
        moved = any(getattr(record, column) != value for column, value in _own(loaded).items())
        if not (returned or redefined or moved):
            self.report.unchanged += 1
            return
        for column, value in {**_own(loaded), **_defined(loaded)}.items():
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
        """Point the record at the definition it has now, which may be one it had before."""
        tool = loaded.tool
        definition, _ = Definition.objects.get_or_create(
            tool=record,
            hash=tool.fingerprint,
            defaults={
                "version": tool.effective_version,
                "body": tool.definition(),
                "first_seen_at": self.now,
                # The operator's own Python approves itself: whoever can change it can do anything here.
                "approved_at": self.now,
                "approved_by": f"source:{loaded.origin}",
            },
        )
        record.definition = definition
        record.save(update_fields=["definition"])
        self._tag(record, set(tool.tags))

    def _tag(self, record: ToolRecord, declared: set[str]) -> None:
        """Declared tags follow the author; tags that an operator added stay."""
        there = dict(ToolTag.objects.filter(tool=record).values_list("tag__name", "declared"))
        gone = [name for name, was_declared in there.items() if was_declared and name not in declared]
        if gone:
            ToolTag.objects.filter(tool=record, tag__name__in=gone).delete()
        for name in sorted(declared - there.keys()):
            tag, _ = Tag.objects.get_or_create(name=name)
            ToolTag.objects.create(tool=record, tag=tag, declared=True)

    def retire(self, record: ToolRecord) -> None:
        record.retired_at = self.now
        record.save(update_fields=["retired_at", "updated_at"])
        self.report.retired.append(record.name)
        self.notes.append(("tool.retire", record.name, {}))


def _own(loaded: Loaded) -> dict[str, Any]:
    """Where the tool comes from."""
    tool = loaded.tool
    return {
        "name": tool.name,
        "source": str(loaded.origin),
        "pack": loaded.pack,
        "place": tool.place[:500],
    }


def _defined(loaded: Loaded) -> dict[str, Any]:
    """What the tool is, as far as lists show it."""
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
    """Write down a single tool that was registered by code."""
    with transaction.atomic():
        _alone()
        work = _Sync(Registry(), actor, timezone.now())
        record = ToolRecord.objects.select_related("definition").filter(folded_name=loaded.tool.folded_name).first()
        if record is None:
            work.add(loaded)
        else:
            work.meet(record, loaded)
        note_all(work.notes, actor=actor)


def retire(name: str, *, actor: str) -> bool:
    """Let a single tool go that was taken out of the registry. False: there was none."""
    with transaction.atomic():
        record = ToolRecord.objects.present().filter(folded_name=folded(name)).first()
        if record is None:
            return False
        work = _Sync(Registry(), actor, timezone.now())
        work.retire(record)
        note_all(work.notes, actor=actor)
    return True
