"""The thread that writes the journal.

While the database is locked, entries are tried again until each has waited long enough. When it is gone, read-only or
full, those who wait are told at once and so is everybody after them, until a trial shows that it is back. Calls that
had run by then are written down late, but they are written down.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import time
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from django.db import DatabaseError, InterfaceError, OperationalError, connection, connections, transaction

from tools_app.journal import rows
from tools_app.journal.attendance import ARRIVALS_SECONDS, Attendance
from tools_app.journal.lease import Lease, forget_the_dead, interrupt_orphans
from tools_app.journal.refusals import Refusals
from tools_app.journal.rows import Failure, Reply
from tools_app.models import Call, IdempotencyKey
from tools_app.sdk.errors import StorageBusyError

log = logging.getLogger("tools_app.journal")

MOST_AT_ONCE: Final = 500
MOST_UNWRITTEN: Final = 1_000
# So long an entry waits for a database that is locked.
PATIENCE: Final = 5.0
# A single trial of a locked database; between two of them those who have waited too long are told.
TRIAL: Final = 0.5
TRIAL_PAUSE: Final = 0.05
# How often a database that is gone is tried, orphans are looked for, and counted refusals are written.
PROBE_SECONDS: Final = 0.5
ORPHANS_SECONDS: Final = 5.0
# … and while other processes have open calls.
OTHERS_SECONDS: Final = 1.0
REFUSALS_SECONDS: Final = 1.0
# Before the first look at anything: an agent waits for the process to start.
QUIET_START: Final = 1.0


@dataclass(slots=True, eq=False)
class JournalEntry:
    """What one step of a call adds to the journal, and who waits for it."""

    call: Call | None = None
    failure: Failure | None = None
    known: bool = False
    claim: IdempotencyKey | None = None
    reply: Reply | None = None
    key_used: int | None = None
    future: asyncio.Future[bool] | None = None
    until: float = field(default_factory=lambda: time.monotonic() + PATIENCE)
    # Whether a call is to be run after this, so that nothing has happened yet. The call itself changes meanwhile.
    begins: bool = field(init=False)

    def __post_init__(self) -> None:
        self.begins = self.call is not None and self.call.status == Call.Status.STARTED


class Writer:
    """Everything here but `trouble` belongs to the thread in which `run` runs."""

    def __init__(self, entries: queue.SimpleQueue[JournalEntry | None], refusals: Refusals) -> None:
        self.trouble = ""
        now = time.monotonic()
        self.lease = Lease(now)
        self.attendance = Attendance()
        self._entries = entries
        self._refusals = refusals
        self._unwritten: deque[JournalEntry] = deque(maxlen=MOST_UNWRITTEN)
        self._next_orphans = self._next_refusals = self._next_agents = self._next_probe = now + QUIET_START

    def run(self) -> None:
        """Write until the end comes through the queue."""
        last = False
        while not last:
            batch, last = self._taken()
            if batch:
                self._commit(batch)
            self._look_after(last=last)
        connections.close_all()

    # ---- entries

    def _taken(self) -> tuple[list[JournalEntry], bool]:
        """The entries that are waiting, and whether the end has come. Returns without any when something is due."""
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
        """Write the entries and tell who waits for them, however long it takes for the last one."""
        waiting, again = list(batch), False
        while waiting:
            kept = connection.connection is not None
            try:
                self._write(self._missing(waiting) if again else waiting)
            except Exception as error:
                _close_connection()
                if kept and not again and _lost(error):
                    # The server may have been restarted since the last time: that shows only now.
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
        with transaction.atomic():
            lost = [entry for entry in entries if entry.claim is not None and not rows.claim(entry.claim)]
            won = [entry for entry in entries if entry not in lost] if lost else entries
            rows.insert_calls(entry.call for entry in won if entry.call is not None and not entry.known)
            known = [entry.call for entry in won if entry.call is not None and entry.known]
            rows.take_back(known)
            rows.upsert_calls(known)
            rows.settle(entry.reply for entry in won if entry.reply is not None)
            rows.note_uses({entry.key_used for entry in won if entry.key_used is not None})
            if renew:
                self.lease.renew()
            rows.insert_failures([entry.failure for entry in won if entry.failure is not None])
            rows.add_to_figures((entry.call, 1) for entry in won if entry.call is not None and not entry.begins)
        if renew:
            self.lease.renewed(time.monotonic())
        self.lease.open.difference_update(entry.call.id for entry in lost if entry.call is not None)
        # Before anybody hears of it: whoever does finds a journal without trouble.
        self._recovered()
        _answer(won, True)
        _answer(lost, False)

    def _after(self, error: Exception, waiting: list[JournalEntry]) -> list[JournalEntry]:
        """Those of the entries that are worth another trial; the others are told that it did not work."""
        if not isinstance(error, OperationalError | InterfaceError):
            if len(waiting) > 1 and isinstance(error, DatabaseError):
                # One entry that the database refuses must not take the others with it.
                for entry in waiting:
                    self._commit([entry])
            else:
                log.error("cannot write the journal: %s", error, exc_info=error)
                self._tell(waiting, error)
            return []
        if not _passes(error):
            self._troubled(error)
            self._give_up(waiting, error)
            return []
        now = time.monotonic()
        if late := [entry for entry in waiting if entry.until <= now]:
            log.error("cannot write the journal: %s", error)
            self._give_up(late, error)
        time.sleep(TRIAL_PAUSE)
        return [entry for entry in waiting if entry.until > now] + self._arrived(MOST_AT_ONCE - len(waiting))

    def _arrived(self, most: int) -> list[JournalEntry]:
        """Entries that came in the meantime: their time runs too. The end of all is left where it is."""
        arrived: list[JournalEntry] = []
        with contextlib.suppress(queue.Empty):
            while len(arrived) < most:
                entry = self._entries.get_nowait()
                if entry is None:
                    self._entries.put(None)
                    break
                arrived.append(entry)
        return arrived

    def _missing(self, entries: Sequence[JournalEntry]) -> list[JournalEntry]:
        """Those that did not reach the disk when the connection broke; who waits for the others is told so."""
        _ready_connection()
        there = rows.finished([entry.call.id for entry in entries if entry.call is not None and not entry.begins])
        missing = []
        for entry in entries:
            entry.known = True
            if entry.begins or entry.call is None or entry.call.id not in there:
                missing.append(entry)
            else:
                _answer([entry], True)
        return missing

    def _give_up(self, entries: Sequence[JournalEntry], error: Exception) -> None:
        """Tell those who wait. What has happened already is written down later."""
        self._unwritten.extend(entry for entry in entries if entry.call is not None and not entry.begins)
        self._tell(entries, error)

    def _tell(self, entries: Sequence[JournalEntry], error: Exception) -> None:
        self.lease.open.difference_update(entry.call.id for entry in entries if entry.call is not None)
        _answer(entries, error)

    # ---- what is done now and then

    def _due(self) -> float:
        """Seconds until something has to be done although nobody calls."""
        now = time.monotonic()
        if self.trouble:
            return self._next_probe - now
        return min(self.lease.due(now), self._next_orphans - now, REFUSALS_SECONDS)

    def _look_after(self, *, last: bool) -> None:
        """Trouble here is trouble for everybody."""
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
            else:
                if now >= self._next_agents:
                    self._next_agents = now + ARRIVALS_SECONDS
                    self._write_agents()
                self._keep_watch(now)
        except Exception as error:
            _close_connection()
            self._next_orphans = now + ORPHANS_SECONDS
            if not isinstance(error, OperationalError | InterfaceError):
                log.exception("the journal's upkeep broke")
                self.lease.renewed(now)
            elif not _passes(error):
                self._troubled(error)

    def _keep_watch(self, now: float) -> None:
        if self.lease.due(now) <= 0:
            self._probe()
        if now >= self._next_orphans:
            found, others = interrupt_orphans(self.lease.process_id)
            self._next_orphans = now + (OTHERS_SECONDS if others else ORPHANS_SECONDS)
            if found:
                log.warning("%d calls were interrupted: their process has ended", found)

    def _probe(self) -> None:
        """Renew the lease, which shows whether the database can be written."""
        if connection.connection is not None and not connection.is_usable():
            _close_connection()
        _ready_connection()
        with transaction.atomic():
            self.lease.renew()
            forget_the_dead()
        self.lease.renewed(time.monotonic())
        self._recovered()

    def _write_late(self) -> None:
        """Calls that ran while nothing could be written."""
        missing = self._missing(self._unwritten)
        if missing:
            self._write(missing)
        self._unwritten.clear()
        log.warning("%d calls were written down late", len(missing))

    def _write_refusals(self) -> None:
        changed = self._refusals.changed()
        _ready_connection()
        with transaction.atomic():
            for call, hashes in self._refusals.unnamed():
                rows.name_key(call, hashes)
            rows.upsert_calls(call for call, _ in changed)
            rows.add_to_figures(changed)
        self._refusals.written(changed)

    def _write_agents(self) -> None:
        """Who is connected now, together with the lease: where that has run out, they are gone as well."""
        if not (news := self.attendance.news()):
            return
        gone = [presence for presence in news if presence.left]
        there = [(one, one.row(self.lease.process_id)) for one in news if not one.left]
        _ready_connection()
        with transaction.atomic():
            self.lease.renew()
            rows.upsert_agents(row for _, row in there)
            rows.delete_agents([presence.id for presence in gone])
        self.lease.renewed(time.monotonic())
        self.attendance.told(there, gone)

    def _troubled(self, error: Exception) -> None:
        if not self.trouble:
            log.error("the database cannot be written: %s", error)
        self.trouble = str(error).strip() or type(error).__name__
        self._next_probe = time.monotonic() + PROBE_SECONDS

    def _recovered(self) -> None:
        if self.trouble:
            log.warning("the database can be written again")
            self.trouble = ""


def _ready_connection() -> None:
    """A connection that gives up soon: between two trials those who have waited too long are told."""
    if connection.connection is not None and connection.vendor == "sqlite" and not connection.is_usable():
        _close_connection()
    if connection.connection is None:
        connection.ensure_connection()
        milliseconds = round(TRIAL * 1000)
        with connection.cursor() as cursor:
            if connection.vendor == "sqlite":
                cursor.execute(f"PRAGMA busy_timeout = {milliseconds}")
            else:
                cursor.execute(f"SET lock_timeout = {milliseconds}")
                cursor.execute(f"SET statement_timeout = {round(PATIENCE * 1000)}")


def _close_connection() -> None:
    with contextlib.suppress(DatabaseError, InterfaceError):
        connection.close()


# In words of SQLite and PostgreSQL: others hold a lock, or the server has not quite started.
_PASSING: Final = frozenset({"SQLITE_BUSY", "SQLITE_LOCKED", "55P03", "40001", "40P01", "57P03"})


def _passes(error: Exception) -> bool:
    cause = error.__cause__
    said = getattr(cause, "sqlite_errorname", None) or getattr(cause, "sqlstate", None) or ""
    return said in _PASSING or said.startswith("SQLITE_BUSY")


def _lost(error: Exception) -> bool:
    return isinstance(error, OperationalError | InterfaceError) and not _passes(error)


def _answer(entries: Sequence[JournalEntry], outcome: bool | Exception) -> None:
    waiting: dict[asyncio.AbstractEventLoop, list[asyncio.Future[bool]]] = defaultdict(list)
    for entry in entries:
        if entry.future is not None:
            waiting[entry.future.get_loop()].append(entry.future)
    for loop, futures in waiting.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_settle, futures, outcome)


def _settle(futures: Sequence[asyncio.Future[bool]], outcome: bool | Exception) -> None:
    for future in futures:
        if future.done():
            continue
        if isinstance(outcome, Exception):
            future.set_exception(StorageBusyError(detail=outcome))
        else:
            future.set_result(outcome)
