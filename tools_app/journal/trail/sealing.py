"""Seals entries in the order of their ids, some hundred at a time.

A transaction that is still open may add an entry with a lower id than others that are visible already. So entries are
only sealed when all transactions have ended that could: a missing id was then rolled back, and never comes.
"""

from __future__ import annotations

import logging
import time
from typing import Final

from django.db import connection, transaction
from django.utils import timezone

from tools_app.journal.pace import Pace
from tools_app.journal.trail import digests, keys
from tools_app.models import AuditCheckpoint, AuditEntry, AuditKey, AuditSeal

log = logging.getLogger("tools_app.journal.trail")

# Entries of a checkpoint; also the most that verification has in memory.
BATCH: Final = 500
SETTLE_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.05
# Transactions that write to the table have this lock before they get an id, and until they have ended.
_WRITERS: Final = """
    SELECT virtualtransaction FROM pg_locks
    WHERE locktype = 'relation' AND mode = 'RowExclusiveLock' AND relation = %s::regclass
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND pid IS DISTINCT FROM pg_backend_pid()
"""


class UnsettledError(Exception):
    """A transaction that writes to the audit trail has been open for seconds: entries after it cannot be sealed yet."""

    def __init__(self) -> None:
        super().__init__("a transaction that writes to the audit trail does not end")


def newest_checkpoint() -> AuditCheckpoint | None:
    return AuditCheckpoint.objects.order_by("-number").first()


def unsealed(last: AuditCheckpoint | None) -> int:
    return AuditEntry.objects.filter(pk__gt=last.last_id).count() if last is not None else AuditEntry.objects.count()


def seal(pace: Pace | None = None) -> int:
    """Seal what can no longer change. Returns the number of entries.

    Raises:
        UnsettledError
    """
    pace = pace or Pace()
    last = newest_checkpoint()
    entries = AuditEntry.objects.order_by("-pk")
    # Checked first: usually there is nothing to do.
    if not (entries if last is None else entries.filter(pk__gt=last.last_id)).exists():
        return 0
    until = _settled_id()
    count = pace.repeat(lambda: _seal_batch(until))
    if count and (last := newest_checkpoint()) is not None:
        # An operator who stores the log elsewhere can prove with it that nothing was cut off the trail.
        log.info("audit trail sealed up to entry %d: checkpoint %s", last.last_id, last)
    return count


def _seal_batch(until: int) -> int:
    last, key = newest_checkpoint(), keys.current()
    after = None if last is None else last.last_id
    kind = AuditCheckpoint.Kind.REGULAR
    limit = until
    if key.row.after > (after or 0):
        kind, limit = AuditCheckpoint.Kind.BEFORE, min(until, key.row.after)
    # Nothing changes these rows before they are sealed, so they are read and hashed without a lock.
    found = digests.rows(after=after, until=limit, most=BATCH)
    if not found:
        return 0
    seals = [AuditSeal(entry_id=row.id, digest=digests.of_entry(key.secret, row)) for row in found]
    with transaction.atomic():
        # One process at a time.
        row = AuditKey.objects.select_for_update().get(pk=key.id)
        if str(newest_checkpoint()) != str(last) or AuditKey.objects.filter(pk__gt=key.id).exists():
            return len(found)  # Another process was faster; there may be more.
        if not keys.is_connected(keys.Key(row, key.secret), last):
            kind = AuditCheckpoint.Kind.CUT
            log.error("checkpoints of the audit trail are missing or were changed: run `toolhub verifyaudit`")
        checkpoint = AuditCheckpoint(
            number=1 if last is None else last.number + 1,
            kind=kind,
            first_id=found[0].id,
            last_id=found[-1].id,
            count=len(found),
            key=key.id,
            sealed_at=timezone.now(),
        )
        before = "" if last is None else last.head
        checkpoint.head = digests.of_checkpoint(
            key.secret, before, checkpoint, ((one.entry_id, bytes(one.digest)) for one in seals)
        )
        AuditSeal.objects.bulk_create(seals)
        checkpoint.save(force_insert=True)
        keys.set_tip(key, checkpoint)
    return len(found)


def _settled_id() -> int:
    """An id below which no entry can be added any more."""
    newest = AuditEntry.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
    # SQLite has one writer at a time.
    if connection.vendor != "postgresql":
        return newest
    writers, until = _writers(), time.monotonic() + SETTLE_SECONDS
    while writers:
        if time.monotonic() > until:
            raise UnsettledError
        time.sleep(_LOOK_SECONDS)
        writers &= _writers()
    return newest


def _writers() -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute(_WRITERS, [f'"{AuditEntry._meta.db_table}"'])
        return {transaction for (transaction,) in cursor.fetchall()}
