"""Writes down every call before its answer leaves.

One thread per process writes, with a connection of its own. Calls that end together share a commit; a lone call is
committed at once. Whoever waits here waits for the commit.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from django.db import DatabaseError, connection, connections, transaction
from django.db.models import Model, Q
from django.utils import timezone

from tools_app.errors import StorageBusyError
from tools_app.models import ApiKey, Call, ErrorLog

log = logging.getLogger("tools_app.journal")

MOST_AT_ONCE: Final = 500
NOTED_SECONDS: Final = 60.0
MOST_NOTED: Final = 10_000
Columns = tuple[tuple[str, Callable[[Any, Any], Any]], ...]


@dataclass(slots=True)
class Entry:
    """What one step of a call adds to the journal, and who waits for it."""

    call: Call | None = None
    error: ErrorLog | None = None
    known: bool = False
    key_used: int | None = None
    future: asyncio.Future[None] | None = None


class Journal:
    def __init__(self) -> None:
        self._entries: queue.SimpleQueue[Entry | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._noted: dict[int, float] = {}

    async def write(self, entry: Entry) -> None:
        """Return when the entry is committed.

        Raises:
            StorageBusyError: it could not be.
        """
        entry.future = asyncio.get_running_loop().create_future()
        self._put(entry)
        await entry.future

    def note_use(self, key_id: int) -> None:
        """Remember that a key was used, some time soon and at most once a minute."""
        now = time.monotonic()
        if now - self._noted.get(key_id, -NOTED_SECONDS) >= NOTED_SECONDS:
            if len(self._noted) >= MOST_NOTED:
                self._noted.clear()
            self._noted[key_id] = now
            self._put(Entry(key_used=key_id))

    def close(self, seconds: float) -> None:
        """Write what is waiting, then end."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._entries.put(None)
            thread.join(seconds)

    def _put(self, entry: Entry) -> None:
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="toolhub-journal", daemon=True)
                    self._thread.start()
        self._entries.put(entry)

    def _run(self) -> None:
        last = False
        while not last:
            batch: list[Entry] = []
            entry = self._entries.get()
            while entry is not None:
                batch.append(entry)
                if len(batch) >= MOST_AT_ONCE or self._entries.empty():
                    break
                entry = self._entries.get()
            last = entry is None
            if batch:
                self._commit(batch)
        connections.close_all()

    def _commit(self, batch: Sequence[Entry]) -> None:
        try:
            self._write(batch)
        except DatabaseError as error:
            if len(batch) > 1:
                # One entry that the database refuses must not take the others with it.
                for entry in batch:
                    self._commit([entry])
                return
            log.error("cannot write the journal: %s", error)  # noqa: TRY400 – every waiting call logs its own stack
            connection.close()
            _answer(batch, StorageBusyError(detail=error))
        except BaseException as error:
            log.exception("the journal broke")
            _answer(batch, StorageBusyError(detail=error))
        else:
            _answer(batch, None)

    def _write(self, batch: Sequence[Entry]) -> None:
        calls = [entry for entry in batch if entry.call is not None]
        new = [_row(entry.call, _CALL_COLUMNS) for entry in calls if not entry.known]
        known = [_row(entry.call, _CALL_COLUMNS) for entry in calls if entry.known]
        errors = [_row(entry.error, _ERROR_COLUMNS) for entry in batch if entry.error is not None]
        with transaction.atomic():
            with connection.cursor() as cursor:
                if new:
                    cursor.executemany(_INSERT_CALL, new)
                if known:
                    cursor.executemany(_UPSERT_CALL, known)
                if errors:
                    cursor.executemany(_INSERT_ERROR, errors)
            if used := {entry.key_used for entry in batch if entry.key_used is not None}:
                now = timezone.now()
                stale = Q(last_used_at=None) | Q(last_used_at__lt=now - timedelta(seconds=NOTED_SECONDS))
                ApiKey.objects.filter(stale, pk__in=used).update(last_used_at=now)


def _answer(batch: Sequence[Entry], error: StorageBusyError | None) -> None:
    waiting: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = defaultdict(list)
    for entry in batch:
        if entry.future is not None:
            waiting[entry.future.get_loop()].append(entry.future)
    for loop, futures in waiting.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_settle, futures, error)


def _settle(futures: Sequence[asyncio.Future[None]], error: StorageBusyError | None) -> None:
    for future in futures:
        if future.done():
            continue
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(StorageBusyError(detail=error.detail))


def _columns(model: type[Model]) -> Columns:
    """Names, and what makes a value ready for the database; looked up once instead of for every row."""
    return tuple((field.attname, field.get_db_prep_save) for field in model._meta.concrete_fields)


def _insert(model: type[Model], columns: Columns) -> str:
    names = ", ".join(name for name, _ in columns)
    return f"INSERT INTO {model._meta.db_table} ({names}) VALUES ({', '.join(['%s'] * len(columns))})"  # noqa: S608


def _upsert(model: type[Model], columns: Columns) -> str:
    key, *rest = (name for name, _ in columns)
    changes = ", ".join(f"{name} = excluded.{name}" for name in rest)
    return f"{_insert(model, columns)} ON CONFLICT ({key}) DO UPDATE SET {changes}"


def _row(instance: Model | None, columns: Columns) -> list[Any]:
    return [prepare(getattr(instance, name), connection) for name, prepare in columns]


# Names of our own tables and columns, put together once: the ORM's own way costs several times as much per row.
_CALL_COLUMNS: Final = _columns(Call)
_ERROR_COLUMNS: Final = _columns(ErrorLog)
_INSERT_CALL: Final = _insert(Call, _CALL_COLUMNS)
# Of a call that was begun it may be unknown whether its first row was written: it was cut off while it waited.
_UPSERT_CALL: Final = _upsert(Call, _CALL_COLUMNS)
_INSERT_ERROR: Final = _insert(ErrorLog, _ERROR_COLUMNS)
