"""Records what sources describe: new tools, changed definitions, tools that are gone.

Each source is recorded by itself, and only after it was described successfully: a source that cannot be described
changes nothing. Safe to run concurrently; never changes operators' decisions.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from types import EllipsisType
from typing import Final

from django.db import connection, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from tools_app import sources
from tools_app.base.ports import SignInRequiredError, UnavailableError
from tools_app.models import Definition, Source, SourceStatus, ToolRecord
from tools_app.models.audit import note_all
from tools_app.models.sources import LoadProblem
from tools_app.sdk.heavy import without_collections
from tools_app.sdk.names import folded
from tools_app.sdk.spec import Kind
from tools_app.sources.names import Names
from tools_app.sources.provider import DescribedTool, Provider, SourceContents
from tools_app.sources.recording import Batch, Note, SyncReport
from tools_app.sources.registry import RegistrationError
from tools_app.sources.sync_alerts import note_described, note_failure, note_held
from tools_app.sources.sync_notes import keep_notes, merged, note_sync
from tools_app.text import hygiene
from tools_app.text.redaction import redacted_text

log = logging.getLogger("tools_app.sources")

# An arbitrary number that nothing else in this database uses: "toolhub" as base 36, cut to 31 bits.
_ADVISORY_LOCK: Final = 1_620_934_711
# Tools per transaction. On SQLite, other writers wait for each, polling for its end: the pause after it is as long as
# the transaction was, so that they get in between.
BATCH: Final = 20
# Seconds until a source with problems is described again although its files are the same.
_RETRY_SECONDS: Final = 60.0
_MOST_DOUBLINGS: Final = 6
# Seconds until a source outside is tried again, doubled with each failure.
_OUTSIDE_SECONDS: Final = 30.0
_OUTSIDE_MOST_SECONDS: Final = 3600.0
# How often an unchanged listing is noted.
_NOTE_SECONDS: Final = 60.0


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
    tools, problems, names = described.tools, list(described.problems), Names(row)
    seconds = 0.0
    for start in range(0, len(tools), BATCH):
        time.sleep(seconds)
        batch = Batch(row, names, report, tools[start : start + BATCH])
        begun = time.monotonic()
        with transaction.atomic():
            lock()
            with without_collections():
                # An operator may have decided since the last batch.
                _refresh(row, provider)
                problems += batch.run()
                keep_notes(row, batch.notes)
                _note_held(row, batch, report)
        seconds = time.monotonic() - begun
    with transaction.atomic():
        lock()
        _refresh(row, provider)
        _finish(row, described, problems, due_at, actor, report)
    provider.recorded_etag = described.etag
    return report


def _note_held(row: Source, batch: Batch, report: SyncReport) -> None:
    if batch.held and not report.has_alert:
        report.has_alert = True
        note_held(row, batch.held, timezone.now())


def retire(name: str, *, actor: str) -> bool:
    """Retire a single tool that code has unregistered. False: there was none."""
    report = SyncReport()
    with transaction.atomic():
        lock()
        notes = _retire(ToolRecord.objects.present().filter(folded_name=folded(name)), report)
        note_all(notes, actor=actor)
    return bool(report.retired)


def retire_source(row: Source, *, actor: str) -> None:
    """Retire everything of a source. In the transaction of its removal, which holds `lock`."""
    notes = _retire(ToolRecord.everything.present().filter(source=row), SyncReport())
    status = SourceStatus.objects.select_for_update().get(source=row)
    note_sync(f"source:{row.name}", merged(status.unnoted, notes), actor)
    SourceStatus.objects.filter(source=row).update(unnoted={})


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
        names, spec = Names(row), loaded.spec
        if (owner := names.owners([spec]).get((spec.kind, spec.key))) is not None:
            raise RegistrationError.taken(f'Tool "{owner.name}"', spec.place, owner.place)
        batch = Batch(row, names, SyncReport(), [DescribedTool(spec, loaded.pack)])
        batch.run()
        note_all(batch.notes, actor=actor)
        _note_held(row, batch, SyncReport())


def promote(definition: Definition) -> None:
    """List an approved version that waited behind another, if its source still offers it.

    The definition must have been read in this transaction, which holds `lock`.
    """
    record = definition.tool
    if record.offered_id == definition.pk and record.source is not None:
        Batch(record.source, Names(record.source), SyncReport()).promote(record, definition)


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
        if status.availability != availability:
            note_failure(row, status, now)
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
    notes = _retire(ToolRecord.everything.filter(pk__in=gone), report)
    # `list_again` waits: it must not set a time between this and the end.
    status = SourceStatus.objects.select_for_update().get(source=row)
    note_sync(f"source:{row.name}", merged(status.unnoted, notes), actor)
    status.unnoted = {}
    status.etag, status.described_at = described.etag, now
    note_described(row, status, problems, now)
    status.availability = SourceStatus.Availability.OK
    status.problems = [[problem.place, problem.reason, problem.tool] for problem in problems]
    status.error = str(problems[0])[:1000] if problems else ""
    status.since = (status.since or now) if problems else None
    status.failures = status.failures + 1 if problems and not row.is_outside else 0
    changed = ["unnoted", "etag", "described_at", "availability", "problems", "error", "since", "failures"]
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
        notes = _retire(ToolRecord.everything.present().filter(legacy).exclude(source_kind="code"), report)
        note_sync("sources", merged({}, notes), actor)


def _retire(records: QuerySet[ToolRecord], report: SyncReport) -> list[Note]:
    """Returns the audit entries, for the caller to write."""
    present = list(records.filter(retired_at=None).order_by("name"))
    if not present:
        return []
    now = timezone.now()
    ToolRecord.everything.filter(pk__in=[record.pk for record in present]).update(retired_at=now, updated_at=now)
    names = [record.name for record in present if record.kind == Kind.TOOL]
    report.retired += names
    return [("tool.retire", name, {}) for name in names]
