"""Copies sealed entries to files, as JSON Lines, at least once each.

The cursor is the last checkpoint that is in the files. It moves when their bytes are on the disk: after a crash in
between, lines are written again, and readers drop what they have by `type` and `id`.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, Final

from django.db import transaction

from tools_app.journal.trail import digests
from tools_app.journal.trail.sealing import newest_checkpoint
from tools_app.models import AuditCheckpoint, AuditEntry, AuditSeal
from tools_app.models.audit import note

EVENT: Final = "audit.export"
# Of exports that a running hub makes.
HUB: Final = "hub"
EVERY: Final = timedelta(minutes=10)
CURSOR: Final = "cursor"
# Checkpoints that are written before the cursor moves.
_AT_ONCE: Final = 20
_CHUNK: Final = 64 * 1024
_CURSOR: Final = re.compile(r"(\d{1,18}):([0-9a-f]{64})\n?")


class ExportError(Exception):
    """The message is one line: what is wrong, and what to do."""


@dataclass(frozen=True, slots=True)
class Exported:
    entries: int
    checkpoint: str


def export(directory: Path, *, actor: str) -> Exported:
    """Export what was sealed since the last time.

    Raises:
        ExportError
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _locked(directory):
            return _export(directory, actor)
    except OSError as error:
        raise ExportError(f"cannot write {error.filename or directory}: {error.strerror}") from error


def is_due(directory: Path) -> bool:
    """Whether a running hub exports to this directory now; by the cursor, as other machines may have their own."""
    try:
        age = time.time() - (directory / CURSOR).stat().st_mtime
    except FileNotFoundError:
        return True
    return not 0 <= age < EVERY.total_seconds()


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    with (directory / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ExportError(f"another process exports to {directory}; try again later") from None
        yield


def _export(directory: Path, actor: str) -> Exported:
    cursor = directory / CURSOR
    last, newest = _last_exported(cursor), newest_checkpoint()
    if newest is None or (last is not None and last.number >= newest.number):
        return _nothing(cursor, last)
    new = AuditEntry.objects.filter(pk__gt=0 if last is None else last.last_id, pk__lte=newest.last_id)
    # A scheduled export does not follow from the one before.
    if actor == HUB and not new.exclude(action=EVENT, actor=HUB).exists():
        return _nothing(cursor, last)
    count = new.count()
    with transaction.atomic():
        # Audited first: if this is interrupted, nothing has left the hub without a trace.
        note(EVENT, "audit", actor=actor, changes={"directory": str(directory), "entries": count})
    path = directory / f"audit-{datetime.now(UTC):%Y%m%d}.jsonl"
    path.touch(mode=0o600)
    with path.open("ab+") as file:
        _cut_torn_line(file)
        while last is None or last.number < newest.number:
            number = 0 if last is None else last.number
            for checkpoint in AuditCheckpoint.objects.filter(number__gt=number, number__lte=newest.number)[:_AT_ONCE]:
                file.write(_lines(last, checkpoint))
                last = checkpoint
            file.flush()
            os.fsync(file.fileno())
            _move(cursor, str(last))
    return Exported(count, str(newest))


def _nothing(cursor: Path, last: AuditCheckpoint | None) -> Exported:
    if cursor.exists():
        os.utime(cursor)
    return Exported(0, "" if last is None else str(last))


def _last_exported(cursor: Path) -> AuditCheckpoint | None:
    try:
        text = cursor.read_text(encoding="ascii", errors="replace")
    except FileNotFoundError:
        return None
    if (match := _CURSOR.fullmatch(text)) is None:
        raise ExportError(f"{cursor} is not a cursor: move the directory away to export everything again")
    checkpoint = AuditCheckpoint.objects.filter(number=int(match[1]), head=match[2]).first()
    if checkpoint is None:
        raise ExportError(
            f"checkpoint {match[1]} of {cursor} is not in the audit trail: the trail was cut, or the hub was restored "
            "from an older backup. Run `toolhub verifyaudit`; then move the directory away to export everything again"
        )
    return checkpoint


def _cut_torn_line(file: BinaryIO) -> None:
    """A process that was killed may have left a part of a line. It is written again."""
    end = position = file.seek(0, os.SEEK_END)
    while position:
        position = max(0, end - _CHUNK)
        file.seek(position)
        newline = file.read(end - position).rfind(b"\n")
        if newline >= 0:
            file.truncate(position + newline + 1)
            return
        end = position
    file.truncate(0)


def _move(cursor: Path, text: str) -> None:
    draft = cursor.with_name(f".{CURSOR}.partial")
    with draft.open("w", encoding="ascii") as file:
        file.write(f"{text}\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(cursor)
    # The names of new files, too.
    descriptor = os.open(cursor.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _lines(last: AuditCheckpoint | None, checkpoint: AuditCheckpoint) -> bytes:
    after = None if last is None else last.last_id
    seals = {seal.entry_id: seal for seal in digests.seals_of(checkpoint, after, checkpoint.count)}
    entries = AuditEntry.objects.filter(pk__in=seals).order_by("pk")
    lines = [_entry(entry, seals[entry.pk]) for entry in entries]
    lines.append(
        {
            "type": "checkpoint",
            "id": checkpoint.number,
            "kind": checkpoint.kind,
            "firstId": checkpoint.first_id,
            "lastId": checkpoint.last_id,
            "count": checkpoint.count,
            "head": checkpoint.head,
            "sealedAt": checkpoint.sealed_at.astimezone(UTC).isoformat(),
        }
    )
    return b"".join(json.dumps(line, ensure_ascii=False).encode(errors="replace") + b"\n" for line in lines)


def _entry(entry: AuditEntry, seal: AuditSeal) -> dict[str, Any]:
    return {
        "type": "entry",
        "id": entry.pk,
        "at": entry.at.astimezone(UTC).isoformat(),
        "actor": entry.actor,
        "action": entry.action,
        "subject": entry.subject,
        "changes": entry.changes,
        "reason": entry.reason,
        "address": entry.address,
        "client": entry.client,
        "redactedBy": seal.changed_by,
        "digest": digests.plain_bytes(seal.digest).hex(),
    }
