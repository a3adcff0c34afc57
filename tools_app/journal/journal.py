"""The callers' side of the journal: every call is recorded before its answer leaves. `write` waits for the commit.

One thread per process writes, with its own connection (see `writer`). Calls that end together share a commit; a lone
call is committed at once.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from typing import Final

from tools_app.base import hub
from tools_app.journal import rows
from tools_app.journal.attendance import Attendance
from tools_app.journal.quotas import ReplyQuota
from tools_app.journal.refusals import Refusals
from tools_app.journal.writer import PATIENCE, JournalEntry, Writer
from tools_app.models import Call
from tools_app.sdk.hub_errors import StorageBusyError

MOST_NOTED: Final = 10_000
# How long a caller waits for the writer thread when the database neither answers nor refuses.
HUNG: Final = PATIENCE + 0.7


class Journal:
    def __init__(self) -> None:
        self.replies = ReplyQuota()
        self._refusals = Refusals()
        self._entries: queue.SimpleQueue[JournalEntry | None] = queue.SimpleQueue()
        self._writer = Writer(self._entries, self._refusals)
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._noted: dict[int, float] = {}
        # When each caller that waits gives up, the first one first.
        self._waiting: dict[asyncio.Future[bool], float] = {}
        self._timer: asyncio.TimerHandle | None = None

    @property
    def process_id(self) -> str:
        return self._writer.lease.process_id

    @property
    def attendance(self) -> Attendance:
        """Which agents are connected to this process."""
        return self._writer.attendance

    @property
    def trouble(self) -> str:
        """Why the journal cannot be written; empty if it can."""
        return self._writer.trouble

    async def write(self, entry: JournalEntry) -> bool:
        """Return when the entry is committed; False if it claims an idempotency key that another call has.

        Raises:
            StorageBusyError: it could not be committed. If its call has run, it will be written when possible.
        """
        if self.trouble and (entry.begins or entry.call is None):
            raise StorageBusyError(detail=self.trouble)
        entry.future = asyncio.get_running_loop().create_future()
        self._put(entry)
        # One timer for all that wait: one for each would cost more than the rest of this.
        self._waiting[entry.future] = time.monotonic() + HUNG
        if self._timer is None:
            self._timer = entry.future.get_loop().call_later(HUNG, self._give_up)
        try:
            return await entry.future
        finally:
            del self._waiting[entry.future]

    def post(self, entry: JournalEntry) -> None:
        """Queue the entry without waiting for the commit."""
        self._put(entry)

    def count_refusal(self, refusal: Call, hashes: tuple[str, ...] = ()) -> Call | None:
        """The row in which a refused call is counted (written later); None if it needs a row of its own."""
        row = self._refusals.count(refusal, hashes)
        if row is not None:
            self.start()
        return row

    def note_use(self, key_id: int) -> None:
        """Record that a key was used; written asynchronously, at most once a minute per key."""
        now = time.monotonic()
        if now - self._noted.get(key_id, -rows.USE_SECONDS) >= rows.USE_SECONDS:
            if len(self._noted) >= MOST_NOTED:
                self._noted.clear()
            self._noted[key_id] = now
            self._put(JournalEntry(key_used=key_id))

    def start(self) -> None:
        """Start the thread before the first call, to detect calls that other processes left open."""
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._thread = hub.current().thread(self._writer.run, "toolhub-journal")
                    self._thread.start()

    def close(self, seconds: float) -> None:
        """Write the queued entries, then end the thread."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._entries.put(None)
            thread.join(seconds)

    def _give_up(self) -> None:
        """Fail the callers that have waited too long; the next ones do not have to wait as long."""
        self._timer = None
        now = time.monotonic()
        for future, until in self._waiting.items():
            if future.done():
                continue  # It was committed while the event loop was busy.
            if until > now:
                self._timer = future.get_loop().call_later(until - now, self._give_up)
                break
            self._writer.trouble = self.trouble or "it does not answer"
            future.set_exception(StorageBusyError(detail=self.trouble))

    def _put(self, entry: JournalEntry) -> None:
        self.start()
        self._entries.put(entry)
