"""The thread that writes the journal.

While the database is locked, entries are retried until each has reached its time limit. If the database is gone,
read-only or full, waiting calls fail at once, and so do all later ones, until a probe succeeds. Calls that had run by
then are written late, but they are written.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from django.db import DatabaseError, InterfaceError, OperationalError, connection, connections, transaction
from django.utils import timezone

from tools_app.base import loops
from tools_app.journal import rows, texts
from tools_app.journal.attendance import ARRIVALS_SECONDS, Attendance
from tools_app.journal.lease import Lease, forget_the_dead, interrupt_orphans
from tools_app.journal.refusals import Refusals
from tools_app.journal.rows import Failure, Reply
from tools_app.models import Call, IdempotencyKey
from tools_app.sdk.hub_errors import StorageBusyError

log = logging.getLogger("tools_app.journal")

MOST_AT_ONCE: Final = 500
MOST_UNWRITTEN: Final = 1_000
# How long an entry waits for a locked database.
PATIENCE: Final = 5.0
# Lock timeout of one attempt; between two attempts, entries that have waited too long fail.
TRIAL: Final = 0.5
TRIAL_PAUSE: Final = 0.05
# Intervals: probes of an unreachable database, the search for orphans, writing counted refusals, figures.
PROBE_SECONDS: Final = 0.5
ORPHANS_SECONDS: Final = 5.0
# The search for orphans while other processes have open calls.
OTHERS_SECONDS: Final = 1.0
REFUSALS_SECONDS: Final = 1.0
FOLD_SECONDS: Final = 2.0
# While there is more to add: calls come first.
FOLD_AGAIN_SECONDS: Final = 0.02
# The index of arguments; and the share of the time that it may take while there is more to read.
TEXTS_SECONDS: Final = 1.0
TEXTS_SHARE: Final = 0.5
# After an error of the index that may last.
TEXTS_RETRY_SECONDS: Final = 60.0
# Delay before the first check: an agent waits for the process to start.
QUIET_START: Final = 1.0


@dataclass(slots=True, eq=False)
class JournalEntry:
    """What one step of a call adds to the journal, and the future that waits for it."""

    call: Call | None = None
    failure: Failure | None = None
    known: bool = False
    claim: IdempotencyKey | None = None
    reply: Reply | None = None
    key_used: int | None = None
    # The budgets that the call counts for.
    counts_for: tuple[str, ...] = ()
    future: asyncio.Future[bool] | None = None
    until: float = field(default_factory=lambda: time.monotonic() + PATIENCE)
    # True if the call runs after this entry, so nothing has happened yet. The call itself changes meanwhile.
    begins: bool = field(init=False)

    def __post_init__(self) -> None:
        self.begins = self.call is not None and self.call.status == Call.Status.STARTED


class Writer:
    """All of this belongs to the thread that executes `run`, except `trouble`."""

    def __init__(self, entries: queue.SimpleQueue[JournalEntry | None], refusals: Refusals) -> None:
        self.trouble = ""
        now = time.monotonic()
        self.lease = Lease(now)
        self.attendance = Attendance()
        self._entries = entries
        self._refusals = refusals
        self._unwritten: deque[JournalEntry] = deque(maxlen=MOST_UNWRITTEN)
        self._next_orphans = self._next_refusals = self._next_agents = self._next_probe = now + QUIET_START
        self._next_fold = now + FOLD_SECONDS
        self._next_texts = now + FOLD_SECONDS
        # Reported once.
        self._texts_fail = False

    def run(self) -> None:
        """Write until the end marker (None) arrives in the queue."""
        last = False
        while not last:
            batch, last = self._next_batch()
            if batch:
                self._commit(batch)
            self._look_after(last=last)
        connections.close_all()

    # ---- entries

    def _next_batch(self) -> tuple[list[JournalEntry], bool]:
        """The queued entries, and whether the end marker arrived. Empty if a periodic task is due."""
        batch: list[JournalEntry] = []
        try:
            entry = self._entries.get(timeout=max(0.0, self._due()))
        except queue.Empty:
            return batch, False
        while entry is not None:
            batch.append(entry)
            if len(batch) >= MOST_AT_ONCE or self._entries.empty():
                return batch, False
            entry = self._entries.get()
        return batch, True

    def _commit(self, batch: Sequence[JournalEntry]) -> None:
        """Write the entries and resolve their futures; retries until each is written or has failed."""
        waiting, again = list(batch), False
        while waiting:
            was_open = connection.connection is not None
            try:
                self._write(self._not_committed(waiting) if again else waiting)
            except Exception as error:
                _close_connection()
                if was_open and not again and _is_disconnect(error):
                    # The server may have been restarted: a connection shows that only when it is used.
                    again = True
                else:
                    waiting = self._after(error, waiting)
            else:
                return

    def _write(self, entries: Sequence[JournalEntry]) -> None:
        _ready_connection()
        for call, begins in [(entry.call, entry.begins) for entry in entries if entry.call is not None]:
            (self.lease.open.add if begins else self.lease.open.discard)(call.id)
        renew = self.lease.due(time.monotonic()) <= 0
        with _brief_transaction():
            conflicting = [entry for entry in entries if entry.claim is not None and not rows.claim(entry.claim)]
            accepted = [entry for entry in entries if entry not in conflicting] if conflicting else entries
            rows.insert_calls(entry.call for entry in accepted if entry.call is not None and not entry.known)
            known_calls = [entry.call for entry in accepted if entry.call is not None and entry.known]
            counts = [(call, -1) for call in rows.given_up(known_calls)]
            rows.upsert_calls(known_calls)
            rows.settle(entry.reply for entry in accepted if entry.reply is not None)
            rows.note_uses({entry.key_used for entry in accepted if entry.key_used is not None})
            if renew:
                self.lease.renew()
            rows.insert_failures([entry.failure for entry in accepted if entry.failure is not None])
            counts += [(entry.call, 1) for entry in accepted if entry.call is not None and not entry.begins]
            rows.insert_counts(counts)
            rows.spend(
                (entry.call, entry.counts_for) for entry in accepted if entry.call is not None and entry.counts_for
            )
        if renew:
            self.lease.renewed(time.monotonic())
        self.lease.open.difference_update(entry.call.id for entry in conflicting if entry.call is not None)
        # Before the futures are resolved: a caller that awaits one must not find the old `trouble`.
        self._recovered()
        _answer(accepted, True)
        _answer(conflicting, False)

    def _after(self, error: Exception, waiting: list[JournalEntry]) -> list[JournalEntry]:
        """The entries to retry; the futures of all others are resolved with the error."""
        if not isinstance(error, OperationalError | InterfaceError):
            if len(waiting) > 1 and isinstance(error, DatabaseError):
                # If the database rejects one entry, the others are written one by one.
                for entry in waiting:
                    self._commit([entry])
            else:
                log.error("cannot write to the journal: %s", error, exc_info=error)
                self._fail(waiting, error)
            return []
        if not _is_transient(error):
            self._set_trouble(error)
            self._give_up(waiting, error)
            return []
        now = time.monotonic()
        if late := [entry for entry in waiting if entry.until <= now]:
            log.error("cannot write to the journal: %s", error)
            self._give_up(late, error)
        time.sleep(TRIAL_PAUSE)
        return [entry for entry in waiting if entry.until > now] + self._drain(MOST_AT_ONCE - len(waiting))

    def _drain(self, most: int) -> list[JournalEntry]:
        """Entries queued meanwhile: their time limit runs too. The end marker stays in the queue."""
        batch: list[JournalEntry] = []
        with contextlib.suppress(queue.Empty):
            while len(batch) < most:
                entry = self._entries.get_nowait()
                if entry is None:
                    self._entries.put(None)
                    break
                batch.append(entry)
        return batch

    def _not_committed(self, entries: Sequence[JournalEntry]) -> list[JournalEntry]:
        """The entries that were not committed when the connection broke; the futures of the others are resolved."""
        _ready_connection()
        committed = rows.finished([entry.call.id for entry in entries if entry.call is not None and not entry.begins])
        pending = []
        for entry in entries:
            entry.known = True
            if entry.begins or entry.call is None or entry.call.id not in committed:
                pending.append(entry)
            else:
                _answer([entry], True)
        return pending

    def _give_up(self, entries: Sequence[JournalEntry], error: Exception) -> None:
        """Fail the entries; those of calls that have run are kept and written later."""
        self._unwritten.extend(entry for entry in entries if entry.call is not None and not entry.begins)
        self._fail(entries, error)

    def _fail(self, entries: Sequence[JournalEntry], error: Exception) -> None:
        self.lease.open.difference_update(entry.call.id for entry in entries if entry.call is not None)
        _answer(entries, error)

    # ---- periodic tasks

    def _due(self) -> float:
        """Seconds until the next periodic task."""
        now = time.monotonic()
        if self.trouble:
            return self._next_probe - now
        return min(
            self.lease.due(now),
            self._next_orphans - now,
            self._next_fold - now,
            self._next_texts - now,
            REFUSALS_SECONDS,
        )

    def _look_after(self, *, last: bool) -> None:
        """Run the periodic tasks that are due. A database error here sets `trouble` for all callers."""
        now = time.monotonic()
        try:
            if self.trouble:
                if now < self._next_probe and not last:
                    return
                self._probe()
            if self._unwritten:
                self._write_late()
            if self._refusals.waiting and (now >= self._next_refusals or last):
                self._next_refusals = now + REFUSALS_SECONDS
                self._write_refusals()
            if last:
                self.lease.give_back()
                rows.fold()
                self._read_texts()
            else:
                if now >= self._next_agents:
                    self._next_agents = now + ARRIVALS_SECONDS
                    self._write_agents()
                self._keep_watch(now)
        except Exception as error:
            _close_connection()
            self._next_orphans = now + ORPHANS_SECONDS
            if not isinstance(error, OperationalError | InterfaceError):
                log.exception("a periodic task of the journal failed")
                self.lease.renewed(now)
            elif not _is_transient(error):
                self._set_trouble(error)

    def _keep_watch(self, now: float) -> None:
        if self.lease.due(now) <= 0:
            self._probe()
        if now >= self._next_fold:
            self._next_fold = now + FOLD_SECONDS
            _ready_connection()
            if rows.fold() == rows.FOLDED_AT_ONCE:
                self._next_fold = now + FOLD_AGAIN_SECONDS
        if now >= self._next_orphans:
            number, others_open = interrupt_orphans(self.lease.process_id)
            self._next_orphans = now + (OTHERS_SECONDS if others_open else ORPHANS_SECONDS)
            if number:
                log.warning("%d calls were interrupted: their process has ended", number)
        if now >= self._next_texts:
            self._read_texts()

    def _read_texts(self) -> None:
        """Add to the index of arguments. Its errors are no `trouble`: calls do without it."""
        now = time.monotonic()
        try:
            _ready_connection()
            more = texts.read_new() or texts.read_older(timezone.now())
        except Exception as error:
            _close_connection()
            if _is_transient(error):
                self._next_texts = now + TEXTS_SECONDS
                return
            self._next_texts = now + TEXTS_RETRY_SECONDS
            if not self._texts_fail:
                cause = None if isinstance(error, OperationalError | InterfaceError) else error
                log.warning("arguments of new calls are not added to the index of searches: %s", error, exc_info=cause)
            self._texts_fail = True
        else:
            took = time.monotonic() - now
            pause = max(FOLD_AGAIN_SECONDS, took / TEXTS_SHARE - took)
            self._next_texts = time.monotonic() + (pause if more else TEXTS_SECONDS)
            self._texts_fail = False

    def _probe(self) -> None:
        """Renew the lease (heartbeat), which also tests whether the database is writable."""
        if connection.connection is not None and not connection.is_usable():
            _close_connection()
        _ready_connection()
        with transaction.atomic():
            self.lease.renew()
            forget_the_dead()
        self.lease.renewed(time.monotonic())
        self._recovered()

    def _write_late(self) -> None:
        """Write calls that ran while the database was not writable."""
        late_entries = self._not_committed(self._unwritten)
        if late_entries:
            self._write(late_entries)
        self._unwritten.clear()
        log.warning("%d calls were recorded late", len(late_entries))

    def _write_refusals(self) -> None:
        refusal_rows = self._refusals.unsaved()
        _ready_connection()
        with transaction.atomic():
            for call, hashes in self._refusals.unnamed():
                rows.name_key(call, hashes)
            rows.upsert_calls(call for call, _ in refusal_rows)
            rows.insert_counts(refusal_rows)
        self._refusals.mark_written(refusal_rows)

    def _write_agents(self) -> None:
        """Write the connected agents together with the lease: when it expires, they count as gone too."""
        if not (news := self.attendance.news()):
            return
        departed = [presence for presence in news if presence.left]
        present = [(presence, presence.row(self.lease.process_id)) for presence in news if not presence.left]
        _ready_connection()
        with transaction.atomic():
            self.lease.renew()
            rows.upsert_agents(row for _, row in present)
            rows.delete_agents([presence.id for presence in departed])
        self.lease.renewed(time.monotonic())
        self.attendance.mark_written(present, departed)

    def _set_trouble(self, error: Exception) -> None:
        if not self.trouble:
            log.error("the database cannot be written: %s", error)
        self.trouble = str(error).strip() or type(error).__name__
        self._next_probe = time.monotonic() + PROBE_SECONDS

    def _recovered(self) -> None:
        if self.trouble:
            log.warning("the database can be written again")
            self.trouble = ""
            self._next_texts = time.monotonic()


def _ready_connection() -> None:
    """Open a connection with short timeouts: between two attempts, entries that have waited too long must fail."""
    # Not the proxy, which looks up every attribute by thread.
    own = transaction.get_connection()
    if own.connection is not None and own.vendor == "sqlite" and not own.is_usable():
        _close_connection()
    if own.connection is None:
        own.ensure_connection()
        milliseconds = round(TRIAL * 1000)
        with own.cursor() as cursor:
            if own.vendor == "sqlite":
                cursor.execute(f"PRAGMA busy_timeout = {milliseconds}")
            else:
                cursor.execute(f"SET lock_timeout = {milliseconds}")
                cursor.execute(f"SET statement_timeout = {round(PATIENCE * 1000)}")


@contextlib.contextmanager
def _brief_transaction() -> Iterator[None]:
    """`transaction.atomic`; on SQLite without its bookkeeping, which takes as long as the statements of a call.

    After an exception, the connection has to be closed, which rolls back.
    """
    own = transaction.get_connection()
    if own.vendor != "sqlite":
        with transaction.atomic():
            yield
        return
    with own.wrap_database_errors:
        own.connection.execute("BEGIN IMMEDIATE")
        yield
        own.connection.execute("COMMIT")


def _close_connection() -> None:
    with contextlib.suppress(DatabaseError, InterfaceError):
        connection.close()


# Transient error codes of SQLite and PostgreSQL: lock conflicts, or a server that is starting.
_TRANSIENT: Final = frozenset({"SQLITE_BUSY", "SQLITE_LOCKED", "55P03", "40001", "40P01", "57P03"})


def _is_transient(error: Exception) -> bool:
    cause = error.__cause__
    code = getattr(cause, "sqlite_errorname", None) or getattr(cause, "sqlstate", None) or ""
    return code in _TRANSIENT or code.startswith("SQLITE_BUSY")


def _is_disconnect(error: Exception) -> bool:
    return isinstance(error, OperationalError | InterfaceError) and not _is_transient(error)


def _answer(entries: Sequence[JournalEntry], outcome: bool | Exception) -> None:
    waiting: dict[asyncio.AbstractEventLoop, list[asyncio.Future[bool]]] = defaultdict(list)
    for entry in entries:
        if entry.future is not None:
            waiting[entry.future.get_loop()].append(entry.future)
    for loop, futures in waiting.items():
        loops.post(loop, _settle, futures, outcome)


def _settle(futures: Sequence[asyncio.Future[bool]], outcome: bool | Exception) -> None:
    for future in futures:
        if future.done():
            continue
        if isinstance(outcome, Exception):
            future.set_exception(StorageBusyError(detail=outcome))
        else:
            future.set_result(outcome)
