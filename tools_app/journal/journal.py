"""Writes down every call before its answer leaves: the side that calls stand on. Whoever waits here waits for a commit.

One thread per process writes, with a connection of its own (see `writer`). Calls that end together share a commit; a
lone call is committed at once.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from typing import Final

from tools_app.journal import rows
from tools_app.journal.attendance import Attendance
from tools_app.journal.quotas import ReplyQuota
from tools_app.journal.refusals import Refusals
from tools_app.journal.writer import PATIENCE, JournalEntry, Writer
from tools_app.models import Call
from tools_app.sdk.errors import StorageBusyError

MOST_NOTED: Final = 10_000
# So long a caller waits for a thread that does not come back, as the database neither answers nor refuses.
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

    @property
    def process_id(self) -> str:
        return self._writer.lease.process_id

    @property
    def attendance(self) -> Attendance:
        """Which agents are connected to this process."""
        return self._writer.attendance

    @property
    def trouble(self) -> str:
        """Why nothing can be written; empty when it can."""
        return self._writer.trouble

    async def write(self, entry: JournalEntry) -> bool:
        """Return when the entry is committed: False if it claims a key that another call has.

        Raises:
            StorageBusyError: it could not be. If its call has run, it will be once that is possible.
        """
        if self.trouble and (entry.begins or entry.call is None):
            raise StorageBusyError(detail=self.trouble)
        entry.future = asyncio.get_running_loop().create_future()
        self._put(entry)
        try:
            async with asyncio.timeout(HUNG):
                return await entry.future
        except TimeoutError:
            # Whoever comes next need not wait as long.
            self._writer.trouble = self.trouble or "it does not answer"
            raise StorageBusyError(detail=self.trouble) from None

    def post(self, entry: JournalEntry) -> None:
        """Have the entry written when that is possible; nobody waits for it."""
        self._put(entry)

    def counted(self, refused: Call, hashes: tuple[str, ...] = ()) -> Call | None:
        """The row in which a refused call is counted, some time soon; None when it has to be written by itself."""
        row = self._refusals.counted(refused, hashes)
        if row is not None:
            self.start()
        return row

    def note_use(self, key_id: int) -> None:
        """Remember that a key was used, some time soon and at most once a minute."""
        now = time.monotonic()
        if now - self._noted.get(key_id, -rows.USE_SECONDS) >= rows.USE_SECONDS:
            if len(self._noted) >= MOST_NOTED:
                self._noted.clear()
            self._noted[key_id] = now
            self._put(JournalEntry(key_used=key_id))

    def start(self) -> None:
        """Begin before the first call, to look after what other processes have left behind."""
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._writer.run, name="toolhub-journal", daemon=True)
                    self._thread.start()

    def close(self, seconds: float) -> None:
        """Write what is waiting, then end."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._entries.put(None)
            thread.join(seconds)

    def _put(self, entry: JournalEntry) -> None:
        self.start()
        self._entries.put(entry)
