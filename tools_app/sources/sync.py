"""Records what sources describe: new tools, changed definitions, tools that are gone.

Each source is recorded by itself, and only after it was described successfully: a source that cannot be described
changes nothing. Safe to run concurrently; never changes operators' decisions.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import EllipsisType
from typing import Any, Final

from django.db import connection, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from tools_app import sources
from tools_app.base.ports import SignInRequiredError, UnavailableError
from tools_app.models import Definition, Source, SourceStatus, Tag, ToolRecord, ToolTag
from tools_app.models.audit import note_all
from tools_app.models.sources import UPGRADED, LoadProblem
from tools_app.models.tools import DESCRIPTIVE
from tools_app.sdk import wording
from tools_app.sdk.heavy import without_collections
from tools_app.sdk.names import folded
from tools_app.sdk.spec import Kind, ToolSpec
from tools_app.sources.provider import DescribedTool, Provider, SourceContents
from tools_app.sources.registry import RegistrationError
from tools_app.text import hygiene
from tools_app.text.redaction import redacted_text

log = logging.getLogger("tools_app.sources")

# An arbitrary number that nothing else in this database uses: "toolhub" as base 36, cut to 31 bits.
_ADVISORY_LOCK: Final = 1_620_934_711
# Tools per transaction. On SQLite, other writers wait for each, polling for its end: the pause after it is as long as
# the transaction was, so that they get in between.
BATCH: Final = 20
# Values of ToolRecord.source_kind, which other programs read.
_SOURCE_KINDS: Final[Mapping[str, str]] = {Source.Kind.FOLDER: "file"}
# Kinds that are known by their name; resources are known by their URI.
_NAMED: Final = (Kind.TOOL, Kind.PROMPT)
# Seconds until a source with problems is described again although its files are the same.
_RETRY_SECONDS: Final = 60.0
_MOST_DOUBLINGS: Final = 6
# Seconds until a source outside is tried again, doubled with each failure.
_OUTSIDE_SECONDS: Final = 30.0
_OUTSIDE_MOST_SECONDS: Final = 3600.0
# How often an unchanged listing is noted.
_NOTE_SECONDS: Final = 60.0


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
        if self.unchanged:
            parts.append(f"{self.unchanged} unchanged")
        return ", ".join(parts) or "nothing has changed"


def sync(*, changed_only: bool = False, complete: bool = True, actor: str = "sync") -> SyncReport:
    """Record what all sources of this process describe.

    `changed_only`: skip those whose files have not changed since they were described; nothing of them is imported.
    `complete`: this process has all sources of the hub, so the tools of others are retired.
    """
    report = SyncReport()
    providers = sources.current().providers
    rows = {row.name: row for row in Source.objects.select_related("status")}
    for name, provider in providers.items():
        row = rows.get(name)
        # Tools that code registers are recorded when it does.
        is_idle = provider.kind == Source.Kind.CODE and not len(sources.current().code.loaded())
        if not is_idle and not (changed_only and row is not None and _is_unchanged(row, provider)):
            sync_source(provider, actor=actor, report=report)
    if complete:
        _retire_unconfigured(rows, providers.keys(), actor, report)
    return report


def sync_changed(provider: Provider, *, actor: str) -> SyncReport:
    """Record what one source describes, unless its files are those that were described last."""
    row = Source.objects.select_related("status").filter(name=provider.name).first()
    if row is not None and _is_unchanged(row, provider):
        return SyncReport()
    return sync_source(provider, actor=actor)


def sync_source(provider: Provider, *, actor: str, report: SyncReport | None = None) -> SyncReport:
    """Record what one source describes, or that it cannot be described."""
    report = report or SyncReport()
    try:
        return describe(provider, actor=actor, report=report)
    except UnavailableError:
        return report


def describe(provider: Provider, *, actor: str, report: SyncReport | None = None) -> SyncReport:
    """Record what one source describes.

    Raises:
        UnavailableError: it cannot be described. That is recorded, unless the source was changed meanwhile.
    """
    report = report or SyncReport()
    # What sets another time meanwhile knows of a change that the description may lack.
    statuses = SourceStatus.objects.filter(source__name=provider.name)
    due_at = statuses.values_list("next_try_at", flat=True).first()
    try:
        described = provider.describe()
    except UnavailableError as error:
        is_refused = isinstance(error, SignInRequiredError)
        availability = SourceStatus.Availability.SIGN_IN if is_refused else SourceStatus.Availability.DOWN
        record_failure(provider, str(error), availability, due_at)
        raise
    row = _row_of(provider)
    if provider.origin is not None and _is_recorded(row, described):
        return _note_unchanged(row, due_at, report)
    tools, problems, names = described.tools, list(described.problems), _Names(row)
    seconds = 0.0
    for start in range(0, len(tools), BATCH):
        time.sleep(seconds)
        batch = _Batch(row, names, actor, report, tools[start : start + BATCH])
        begun = time.monotonic()
        with transaction.atomic():
            lock()
            with without_collections():
                # An operator may have decided since the last batch.
                _refresh(row, provider)
                problems += batch.run()
        seconds = time.monotonic() - begun
    with transaction.atomic():
        lock()
        _refresh(row, provider)
        _finish(row, described, problems, due_at, actor, report)
    provider.recorded_etag = described.etag
    return report


def retire(name: str, *, actor: str) -> bool:
    """Retire a single tool that code has unregistered. False: there was none."""
    report = SyncReport()
    with transaction.atomic():
        lock()
        _retire(ToolRecord.objects.present().filter(folded_name=folded(name)), actor, report)
    return bool(report.retired)


def retire_source(row: Source, *, actor: str) -> None:
    """Retire everything of a source. In the transaction of its removal, which holds `lock`."""
    _retire(ToolRecord.everything.present().filter(source=row), actor, SyncReport())


def retry(*, actor: str = "sync") -> SyncReport:
    """Describe sources again that had problems, if it is time."""
    due = SourceStatus.objects.filter(next_try_at__lte=timezone.now()).values_list("source__name", flat=True)
    report = SyncReport()
    for name in due:
        # Sources outside have a lister.
        if (provider := sources.current().providers.get(name)) is not None:
            sync_source(provider, actor=actor, report=report)
    return report


def register(name: str, *, actor: str) -> None:
    """Record a single tool that code has registered.

    Raises:
        RegistrationError: the name belongs to another source.
    """
    code = sources.current().code
    loaded = code.loaded().get(name)
    assert loaded is not None  # noqa: S101 – it was registered before
    row = _row_of(code)
    with transaction.atomic():
        lock()
        names, spec = _Names(row), loaded.spec
        if (owner := names.owners([spec]).get((spec.kind, spec.key))) is not None:
            raise RegistrationError.taken(f'Tool "{owner.name}"', spec.place, owner.place)
        _Batch(row, names, actor, SyncReport(), [DescribedTool(spec, loaded.pack)]).run()


def promote(definition: Definition) -> None:
    """List an approved version that waited behind another, if its source still offers it.

    The definition must have been read in this transaction, which holds `lock`.
    """
    record = definition.tool
    if record.offered_id == definition.pk and record.source is not None:
        _Batch(record.source, _Names(record.source), "", SyncReport()).promote(record, definition)


def problems() -> list[LoadProblem]:
    """What could not be loaded when the sources were described last."""
    statuses = SourceStatus.objects.only("problems").order_by("source__name")
    return [problem for status in statuses for problem in status.load_problems]


def _is_unchanged(row: Source, provider: Provider) -> bool:
    status = getattr(row, "status", None)
    if status is None or status.described_at is None or not status.etag:
        return False
    provider.recorded_etag = status.etag
    if status.etag != provider.etag():
        return False
    return status.next_try_at is None or status.next_try_at > timezone.now()


def is_ours(provider: Provider) -> bool:
    """False: another installation has recorded the source since this process saw it. Two versions of a program must not
    record over each other at every call."""
    recorded = SourceStatus.objects.filter(source__name=provider.name).values_list("etag", flat=True).first()
    return provider.recorded_etag == "" or recorded in ("", None, provider.recorded_etag, provider.etag())


def lock() -> None:
    """Keep other processes from recording tools until the end of the transaction."""
    # SQLite holds its only write lock already, through BEGIN IMMEDIATE.
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_ADVISORY_LOCK])


def _row_of(provider: Provider) -> Source:
    """The row of a source, made if it is new.

    Raises:
        UnavailableError: the source outside was changed or removed meanwhile.
    """
    if provider.origin is not None:
        outside = Source.objects.filter(name=provider.name).first()
        if outside is None:
            raise _replaced(provider)
        _check(outside.epoch, outside.removed_at, provider)
        SourceStatus.objects.get_or_create(source=outside)
        return outside
    with transaction.atomic():
        lock()
        row, _ = Source.objects.get_or_create(
            name=provider.name, defaults={"kind": provider.kind, "location": provider.location}
        )
        SourceStatus.objects.get_or_create(source=row)
        if row.location != provider.location:
            row.location = provider.location
            if row.kind != Source.Kind.FOLDER:
                # The name may now be that of other code, which no operator has approved. A directory has only moved.
                row.epoch += 1
            row.save(update_fields=["location", "epoch"])
        return row


def _refresh(row: Source, provider: Provider) -> None:
    """Read again what operators decide while a source is recorded. In the transaction.

    Raises:
        UnavailableError: the source outside was changed or removed meanwhile.
    """
    epoch = row.epoch
    row.refresh_from_db(fields=["trust", "epoch", "removed_at"])
    if provider.origin is not None:
        _check(row.epoch, row.removed_at, provider)
    row.epoch = epoch


def _check(epoch: int, removed_at: datetime | None, provider: Provider) -> None:
    if removed_at is not None or (provider.origin is not None and epoch != provider.origin.epoch):
        raise _replaced(provider)


def _replaced(provider: Provider) -> UnavailableError:
    return UnavailableError(f"{provider.name} was changed or removed while it was described")


def _is_recorded(row: Source, described: SourceContents) -> bool:
    """Whether a source outside lists what it listed last, and everything of it is recorded."""
    status = SourceStatus.objects.get(source=row)
    if status.etag != described.etag or status.error or status.availability != SourceStatus.Availability.OK:
        return False
    # Tools that were absent once are retired the second time.
    return not ToolRecord.everything.present().filter(source=row, absent_since__isnull=False).exists()


def _note_unchanged(row: Source, due_at: datetime | None, report: SyncReport) -> SyncReport:
    now = timezone.now()
    status = SourceStatus.objects.filter(source=row)
    report.unchanged += ToolRecord.objects.present().filter(source=row).count()
    status.filter(described_at__lte=now - timedelta(seconds=_NOTE_SECONDS)).update(described_at=now)
    if due_at is not None and due_at <= now:
        status.filter(next_try_at=due_at).update(next_try_at=None)
    return report


def record_failure(
    provider: Provider,
    reason: str,
    availability: SourceStatus.Availability = SourceStatus.Availability.DOWN,
    due_at: datetime | EllipsisType | None = ...,
) -> None:
    """Record that a source is not available. Its tools stay, and it is tried again later.

    `due_at`: the time for which this attempt was. If another is set by now, someone wants a later attempt.

    Raises:
        UnavailableError: the source outside was changed or removed meanwhile.
    """
    now = timezone.now()
    row = _row_of(provider)
    with transaction.atomic():
        status = SourceStatus.objects.select_for_update().get(source=row)
        # It may quote a server, and is written to terminals.
        status.error, status.since = hygiene.cleaned(redacted_text(reason))[:1000], status.since or now
        status.failures += 1
        if due_at is ... or status.next_try_at == due_at:
            status.next_try_at = _next_try(status, row)
        status.availability = availability
        status.save(update_fields=["error", "since", "failures", "next_try_at", "availability"])


def _finish(
    row: Source,
    described: SourceContents,
    problems: Sequence[LoadProblem],
    due_at: datetime | None,
    actor: str,
    report: SyncReport,
) -> None:
    """Retire what the source no longer describes, and record that it was described."""
    now = timezone.now()
    keys = {(tool.spec.kind, tool.spec.key) for tool in described.tools}
    gone: list[int] = []
    absent: list[int] = []
    columns = "pk", "kind", "original_name", "name", "place", "absent_since"
    for pk, kind, key, name, place, absent_since in (
        ToolRecord.everything.present().filter(source=row).values_list(*columns)
    ):
        if (kind, key) in keys:
            continue
        # A tool whose file fails to load is not gone: the file may be fixed. A server may have listed only a part.
        is_broken = any(problem.keeps_out(name, place) or problem.tool == key for problem in problems)
        first_time = row.is_outside and absent_since is None
        (absent if is_broken or first_time else gone).append(pk)
    ToolRecord.everything.filter(pk__in=absent, absent_since=None).update(absent_since=now)
    _retire(ToolRecord.everything.filter(pk__in=gone), actor, report)
    # `list_again` waits: it must not set a time between this and the end.
    status = SourceStatus.objects.select_for_update().get(source=row)
    status.etag, status.described_at = described.etag, now
    status.availability = SourceStatus.Availability.OK
    status.problems = [[problem.place, problem.reason, problem.tool] for problem in problems]
    status.error = str(problems[0])[:1000] if problems else ""
    status.since = (status.since or now) if problems else None
    status.failures = status.failures + 1 if problems and not row.is_outside else 0
    changed = ["etag", "described_at", "availability", "problems", "error", "since", "failures"]
    if status.next_try_at == due_at:
        # A server is listed again in time anyway, and a child is not started for that.
        status.next_try_at = _next_try(status, row) if problems and not row.is_outside else None
        changed.append("next_try_at")
    if (server := described.server) is not None:
        status.server, status.era, status.unstable = server.name, server.era, list(server.unstable)
        text = status.instructions = server.instructions
        status.instructions_hash = hashlib.sha256(text.encode()).hexdigest() if text else ""
        changed += ["server", "era", "unstable", "instructions", "instructions_hash"]
    status.save(update_fields=changed)


def _next_try(status: SourceStatus, row: Source) -> datetime:
    if row.is_outside:
        seconds = min(_OUTSIDE_SECONDS * 2 ** min(status.failures - 1, 10), _OUTSIDE_MOST_SECONDS)
    else:
        seconds = _RETRY_SECONDS * 2 ** min(status.failures, _MOST_DOUBLINGS)
    return timezone.now() + timedelta(seconds=seconds)


def _retire_unconfigured(
    rows: Mapping[str, Source], configured: Collection[str], actor: str, report: SyncReport
) -> None:
    """Retire the tools of Python sources that this hub is no longer configured to load."""
    gone = [row for name, row in rows.items() if name not in configured and not row.is_outside]
    legacy = Q(source=None) | Q(source__in=gone)
    with transaction.atomic():
        lock()
        _retire(ToolRecord.everything.present().filter(legacy).exclude(source_kind="code"), actor, report)


def _retire(records: QuerySet[ToolRecord], actor: str, report: SyncReport) -> None:
    present = list(records.filter(retired_at=None).order_by("name"))
    if not present:
        return
    now = timezone.now()
    ToolRecord.everything.filter(pk__in=[record.pk for record in present]).update(retired_at=now, updated_at=now)
    report.retired += [record.name for record in present if record.kind == Kind.TOOL]
    note_all([("tool.retire", record.name, {}) for record in present if record.kind == Kind.TOOL], actor=actor)


class _Batch:
    """Records some tools of a source, in one transaction. What takes long is done when it is created, before that."""

    def __init__(
        self, row: Source, names: _Names, actor: str, report: SyncReport, tools: Sequence[DescribedTool] = ()
    ) -> None:
        self._row, self._names, self._actor, self._report = row, names, actor, report
        self._now = timezone.now()
        self._notes: list[tuple[str, str, dict[str, Any]]] = []
        self._tools = tools
        self._findings = {tool.spec: _findings(tool, names.packs) for tool in tools}

    def run(self) -> list[LoadProblem]:
        """Returns the problems of tools that cannot be recorded."""
        tools = self._tools
        records = self._records(tools)
        owners = self._names.owners([tool.spec for tool in tools])
        taken = self._taken(tools) if self._row.is_outside else frozenset()
        problems: list[LoadProblem] = []
        new: list[DescribedTool] = []
        for tool in tools:
            spec = tool.spec
            record = records.get((spec.kind, spec.key))
            if (owner := owners.get((spec.kind, spec.key))) is not None:
                if (problem := owner.problem(spec, self._row)) is not None:
                    problems.append(problem)
            elif (spec.kind, spec.key) in taken:
                reason = f'the name "{spec.name}" belongs to another of its tools'
                problems.append(LoadProblem(self._row.name, reason, spec.name))
            elif record is None:
                new.append(tool)
            else:
                self._meet(record, tool)
        self._add(new)
        if self._notes:
            note_all(self._notes, actor=self._actor)
        return problems

    # ---- names

    def _records(self, tools: Sequence[DescribedTool]) -> dict[tuple[str, str], ToolRecord]:
        """The records of these tools, including those that an upgrade has left to be adopted."""
        known = ToolRecord.everything.select_related("definition", "offered", "source")
        records = {
            (record.kind, record.original_name): record
            for record in known.filter(source=self._row, original_name__in=[tool.spec.key for tool in tools])
        }
        if self._row.is_outside:
            return records
        # Another spelling of a name is the same tool.
        keys = {
            (str(tool.spec.kind), tool.spec.folded_name): tool.spec.key for tool in tools if tool.spec.kind in _NAMED
        }
        names = [name for _, name in keys]
        for record in known.filter(self._names.own, folded_name__in=names, kind__in=_NAMED):
            if (key := keys.get((record.kind, record.folded_name))) is not None:
                record.source = self._row
                records.setdefault((record.kind, key), record)
        return records

    def _taken(self, tools: Sequence[DescribedTool]) -> frozenset[tuple[Kind, str]]:
        """The tools whose name has another tool of this source outside, by kind and key. Only a fault in naming makes
        such; it must not cost the others."""
        names = {self._folded(tool.spec) for tool in tools}
        own = ToolRecord.everything.filter(source=self._row, folded_name__in=names)
        holders = {(kind, name): key for kind, name, key in own.values_list("kind", "folded_name", "original_name")}
        return frozenset(
            (tool.spec.kind, tool.spec.key)
            for tool in tools
            if holders.setdefault((str(tool.spec.kind), self._folded(tool.spec)), tool.spec.key) != tool.spec.key
        )

    # ---- records

    def _add(self, tools: Sequence[DescribedTool]) -> None:
        records = [
            ToolRecord(
                **self._columns(tool),
                # Prompts and resources have no switch.
                enabled=not tool.spec.starts_off or tool.spec.kind is not Kind.TOOL,
                registered_at=self._now,
                updated_at=self._now,
                folded_name=self._folded(tool.spec),
            )
            for tool in tools
        ]
        ToolRecord.everything.bulk_create(records)
        definitions = [self._definition(record, tool) for record, tool in zip(records, tools, strict=True)]
        Definition.objects.bulk_create(definitions)
        for record, definition in zip(records, definitions, strict=True):
            record.definition = definition
        ToolRecord.everything.bulk_update(records, ["definition"])
        self._tag({record: tool.spec.tags for record, tool in zip(records, tools, strict=True)})
        for tool in tools:
            if tool.spec.kind is Kind.TOOL:
                self._report.added.append(tool.spec.name)
                self._notes.append(("tool.register", tool.spec.name, {"version": [None, tool.spec.version]}))

    def _meet(self, record: ToolRecord, tool: DescribedTool) -> None:
        spec, is_tool = tool.spec, tool.spec.kind is Kind.TOOL
        returned, pinned = record.retired_at is not None, record.definition
        is_pinned = pinned is not None and pinned.epoch == self._row.epoch and _is_same(pinned, tool)
        columns = self._columns(tool)
        if is_pinned and pinned is not None:
            self._update_definition(pinned, tool)
            if record.offered is not None:
                # The source has gone back to the approved version.
                record.offered = record.offered_runtime = None
                record.save(update_fields=["offered", "offered_runtime"])
        else:
            self._redefine(record, tool)
        if record.definition is not None and record.definition.hash != spec.hash:
            # Agents see the pinned version until an operator approves the offered one.
            columns = {
                name: columns[name] for name in ("name", "original_name", "source", "source_kind", "pack", "place")
            }
        moved = returned or record.absent_since is not None
        if moved or any(getattr(record, name) != value for name, value in columns.items()):
            for name, value in {**columns, "retired_at": None, "absent_since": None}.items():
                setattr(record, name, value)
            record.folded_name = self._folded(spec)
            record.save(update_fields=[*columns, "folded_name", "retired_at", "absent_since", "updated_at"])
        if is_tool and returned:
            self._report.returned.append(spec.name)
            self._notes.append(("tool.return", spec.name, {}))
        elif is_tool and is_pinned:
            self._report.unchanged += 1

    def _redefine(self, record: ToolRecord, tool: DescribedTool) -> None:
        """Make a version the current one, or hold it if an operator has approved another."""
        spec, before = tool.spec, record.definition
        if spec.runtime.get("unstable") and self._has_undecided(record):
            # It differs at every listing: an operator has something to look at, and the rest would be noise.
            return
        was_waiting = record.offered is not None or (before is not None and before.approved_at is None)
        definition = Definition.objects.filter(tool=record, epoch=self._row.epoch, hash=spec.hash).first()
        if definition is None:
            definition = self._definition(record, tool)
            self._carry_over(definition, tool)
            definition.save()
        else:
            self._update_definition(definition, tool)
        is_held = definition.approved_at is None and before is not None and before.approved_at is not None
        is_known = is_held and record.offered_id == definition.pk
        if is_known and record.offered_runtime == spec.runtime:
            return
        if is_held:
            record.offered, record.offered_runtime = definition, dict(spec.runtime)
        else:
            record.definition, record.offered, record.offered_runtime = definition, None, None
            self._tag({record: spec.tags})
        record.save(update_fields=["definition", "offered", "offered_runtime"])
        if self._row.is_outside:
            _forget_undecided(record)
            # One version replaces another, and no operator has decided about either.
            is_known = is_known or (was_waiting and definition.approved_at is None)
        if is_known or spec.kind is not Kind.TOOL:
            return
        changes = {
            "version": [before.version if before else None, spec.version],
            "definition": [before.hash if before else None, spec.hash],
        }
        self._report.changed.append(spec.name)
        self._notes.append(("tool.redefine", spec.name, changes))

    def _has_undecided(self, record: ToolRecord) -> bool:
        """Whether a version of this epoch waits for an operator."""
        latest = record.offered or record.definition
        return latest is not None and latest.epoch == self._row.epoch and latest.state == "waiting"

    def promote(self, record: ToolRecord, definition: Definition) -> None:
        """Make the offered version the current one."""
        spec = ToolSpec(definition.ordered_body, record.offered_runtime or {}, definition.hash)
        values = self._columns(DescribedTool(spec, record.pack))
        values |= {"definition": definition, "offered": None, "offered_runtime": None}
        for name, value in values.items():
            setattr(record, name, value)
        record.save(update_fields=[*values, "updated_at"])
        self._tag({record: spec.tags})

    def _columns(self, tool: DescribedTool) -> dict[str, Any]:
        spec = tool.spec
        return {
            "name": self._name(spec),
            "kind": str(spec.kind),
            "source": self._row,
            "source_kind": _SOURCE_KINDS.get(self._row.kind, self._row.kind),
            "original_name": spec.key,
            "pack": tool.pack,
            "place": spec.place[:500],
            **{name: getattr(spec, name)[:length] for name, length in DESCRIPTIVE.items()},
            "read_only": spec.hints.read_only,
            "runtime": dict(spec.runtime),
        }

    def _name(self, spec: ToolSpec) -> str:
        """The names of resources need not be unique."""
        if spec.kind in _NAMED:
            return spec.name
        # Two sources outside may have the same URI.
        key = f"{self._row.name} {spec.key}" if self._row.is_outside else spec.key
        return f"{spec.name[:50]}_{hashlib.sha256(key.encode()).hexdigest()[:8]}"

    def _folded(self, spec: ToolSpec) -> str:
        return folded(self._name(spec))

    # ---- definitions

    def _definition(self, record: ToolRecord, tool: DescribedTool) -> Definition:
        spec, is_trusted = tool.spec, self._approves(record)
        findings = self._findings[spec]
        for finding in findings if not self._row.is_outside else ():
            # Logged too, because an author who edits the tool reads the log rather than the admin.
            log.warning("%s: %s; read it as an agent would, and reword it", spec.name, finding)
        return Definition(
            tool=record,
            hash=spec.hash,
            raw=tool.raw,
            pin_hash=tool.pin_hash or spec.hash,
            normaliser=tool.normaliser,
            epoch=self._row.epoch,
            version=spec.version,
            body=spec.body,
            body_text=json.dumps(spec.body, ensure_ascii=False),
            first_seen_at=self._now,
            findings=findings,
            approved_at=self._now if is_trusted else None,
            approved_by=f"source:{record.source_kind}" if is_trusted else "",
        )

    def _update_definition(self, definition: Definition, tool: DescribedTool) -> None:
        """Check the wording again: the rules may have changed, or other tools may have been added."""
        changes: dict[str, Any] = {}
        if not definition.body_text:
            changes["body_text"] = json.dumps(tool.spec.body, ensure_ascii=False)
        if definition.findings != (findings := self._findings[tool.spec]):
            changes["findings"] = findings
        undecided = definition.approved_at is None and definition.refused_at is None
        if undecided and self._approves(definition.tool):
            # Refused definitions stay refused.
            changes |= {"approved_at": self._now, "approved_by": f"source:{definition.tool.source_kind}"}
        for name, value in changes.items():
            setattr(definition, name, value)
        if changes:
            definition.save(update_fields=list(changes))

    def _carry_over(self, definition: Definition, tool: DescribedTool) -> None:
        """Decide as about an earlier version that came from the same words: only the rules of this hub differ, which
        version of them applies or what they pin. A version is never compared with that of another tool or epoch."""
        if not self._row.is_outside or definition.approved_at is not None:
            return
        same = Q(pin_hash=definition.pin_hash) | (Q(raw=tool.raw) if tool.raw else Q())
        versions = Definition.objects.filter(same, tool=definition.tool, epoch=self._row.epoch)
        decided = versions.exclude(approved_at=None, refused_at=None).order_by("-pk").first()
        if decided is not None:
            for name in ("approved_at", "approved_by", "refused_at", "refused_by", "reason"):
                setattr(definition, name, getattr(decided, name))

    def _approves(self, record: ToolRecord) -> bool:
        """Whether the source approves its own versions, like the operator's own Python: its authors can execute any
        code here anyway. If only changes are held, that is everything after the first description."""
        trust = self._row.effective_trust
        if trust == Source.Trust.HOLD_CHANGES:
            is_first = self._row.epoch <= 1 and self._row.status.described_at is None
            return record.definition_id is None and is_first
        return trust == Source.Trust.AUTO

    def _tag(self, declared: Mapping[ToolRecord, Collection[str]]) -> None:
        """Declared tags follow the definition; tags that an operator added stay."""
        current: dict[int, dict[str, bool]] = {}
        for tool_id, name, is_declared in ToolTag.objects.filter(tool__in=list(declared)).values_list(
            "tool_id", "tag__name", "declared"
        ):
            current.setdefault(tool_id, {})[name] = is_declared
        missing: list[tuple[ToolRecord, str]] = []
        for record, names in declared.items():
            before = current.get(record.pk, {})
            obsolete = [name for name, is_declared in before.items() if is_declared and name not in names]
            if obsolete:
                ToolTag.objects.filter(tool=record, tag__name__in=obsolete).delete()
            missing += [(record, name) for name in sorted(set(names) - before.keys())]
        wanted = {name for _, name in missing}
        tags = {tag.name: tag for tag in Tag.objects.filter(name__in=wanted)}
        Tag.objects.bulk_create([Tag(name=name) for name in sorted(wanted - tags.keys())], ignore_conflicts=True)
        tags = {tag.name: tag for tag in Tag.objects.filter(name__in=wanted)}
        ToolTag.objects.bulk_create(ToolTag(tool=record, tag=tags[name], declared=True) for record, name in missing)


def _is_same(pinned: Definition, tool: DescribedTool) -> bool:
    """Whether a tool is described as its pinned version was. What is not part of the pin, such as a default that holds
    the time, may differ: agents see what was approved."""
    if pinned.hash == tool.spec.hash:
        return True
    return tool.pin_hash != "" and (pinned.pin_hash, pinned.normaliser) == (tool.pin_hash, tool.normaliser)


def _forget_undecided(record: ToolRecord) -> None:
    """Keep one version that waits: a server must not fill the database, nor the list of approvals."""
    keys = [key for key in (record.definition_id, record.offered_id) if key is not None]
    others = Definition.objects.filter(tool=record, approved_at=None, refused_at=None).exclude(pk__in=keys)
    others.delete()


def _findings(tool: DescribedTool, packs: Mapping[str, str]) -> list[str]:
    """Wording that might mislead an agent. A tool may mention the tools of its own pack."""
    return [str(finding) for finding in wording.findings(tool.spec.body, wording.Others(tool.pack, packs))]


@dataclass(frozen=True, slots=True)
class _Owner:
    """The tool of another source that has a name."""

    name: str
    place: str
    source: str
    is_present: bool

    def problem(self, spec: ToolSpec, row: Source) -> LoadProblem | None:
        """None if it is the same tool: several modules may contain it."""
        if self.is_present and self.source in sources.current().providers and self.place == spec.place != "":
            return None
        reason = f'{spec.kind.family.capitalize()} "{self.name}" is already registered'
        reason += f". The other one is at {self.place}" if self.place else f" by the source {self.source}"
        is_named = spec.kind is Kind.TOOL or row.is_outside
        problem = LoadProblem(spec.place or row.name, reason, spec.name if is_named else "")
        log.error("cannot load %s", problem)
        return problem


class _Names:
    """Which names and aliases other sources have, for the batches of one source."""

    def __init__(self, row: Source) -> None:
        # Records of this source, and those of its kind from before an upgrade, which it can adopt.
        self.own = Q(source=row)
        if not row.is_outside:
            self.own |= Q(source=None, source_kind=_SOURCE_KINDS.get(row.kind, row.kind))
            self.own |= Q(source__epoch=UPGRADED, source__kind=row.kind)
        self._is_outside = row.is_outside
        self.packs = dict(ToolRecord.objects.values_list("folded_name", "pack"))
        # Within a source, only the tools that it describes now matter; it takes care of their names itself.
        self._others = ToolRecord.everything.exclude(self.own)
        columns = "definition__body__aliases", "place", "source__name"
        present = self._others.present().filter(kind=Kind.TOOL).exclude(definition__body__aliases=[])
        self._aliases = {
            folded(alias): _Owner(alias, place, source or "", True)
            for aliases, place, source in present.values_list(*columns)
            for alias in aliases or ()
        }

    def owners(self, specs: Sequence[ToolSpec]) -> dict[tuple[Kind, str], _Owner]:
        """The other owner of a tool's name or alias, by kind and key of the tool. In the transaction of a batch."""
        names = {folded(name) for spec in specs if spec.kind in _NAMED for name in (spec.name, *spec.aliases)}
        if self._is_outside:
            # Their resources have URIs of their own here.
            specs = [spec for spec in specs if spec.kind in _NAMED]
        keys = {spec.key for spec in specs if spec.kind not in _NAMED}
        columns = "kind", "folded_name", "original_name", "place", "source__name", "retired_at"
        has_key = Q(original_name__in=keys) & (Q(source=None) | ~Q(source__kind__in=Source.OUTSIDE))
        rows = self._others.filter(Q(folded_name__in=names) | has_key).values_list(*columns)
        taken = {
            (Kind(kind).family, folded_name if kind in _NAMED else key): (place, source or "", retired_at is None)
            for kind, folded_name, key, place, source, retired_at in rows
        }
        owners: dict[tuple[Kind, str], _Owner] = {}
        for spec in specs:
            for name in (spec.name, *spec.aliases) if spec.kind in _NAMED else (spec.key,):
                identity = folded(name) if spec.kind in _NAMED else name
                if (owner := taken.get((spec.kind.family, identity))) is not None:
                    owners.setdefault((spec.kind, spec.key), _Owner(name, *owner))
                elif spec.kind is Kind.TOOL and (alias := self._aliases.get(identity)) is not None:
                    owners.setdefault((spec.kind, spec.key), replace(alias, name=name))
        return owners
