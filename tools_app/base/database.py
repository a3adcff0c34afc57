"""Database access for code on an event loop.

Django's connections belong to threads. `run` runs database work in one of a few dedicated threads. `fetch_now` reads
a single row in the calling thread, on SQLite only, where that takes microseconds and never waits.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Any, Final, ParamSpec, TypeVar
from urllib.parse import quote

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import load_backend

from tools_app.base import hub, loops

P = ParamSpec("P")
R = TypeVar("R")

THREADS: Final = 4
# A connection that was used within this time is assumed to be alive.
TRUSTED_SECONDS: Final = 5.0


class Database:
    """The database threads of a hub, and its connections for reading."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._opened: dict[BaseDatabaseWrapper, float] = {}
        self._reader: sqlite3.Connection | None = None
        self._reader_of: tuple[str, int] | None = None

    def threads(self) -> ThreadPoolExecutor:
        if self._pool is None:
            with self._lock:
                self._pool = self._pool or ThreadPoolExecutor(THREADS, thread_name_prefix="toolhub-db")
        return self._pool

    def fetch(self, path: str, query: str) -> tuple[Any, ...] | None:
        with self._lock:
            row: tuple[Any, ...] | None = self._read_only_connection(path).execute(query).fetchone()
        return row

    def _read_only_connection(self, path: str) -> sqlite3.Connection:
        try:
            # The inode, since an open connection would still read a database file that was moved and replaced.
            identity = (path, os.stat(path).st_ino)  # noqa: PTH116 – on the path of every call
        except OSError as error:
            raise sqlite3.OperationalError(f"unable to open database file: {error.strerror}") from error
        if self._reader is None or self._reader_of != identity:
            if self._reader is not None:
                self._reader.close()
            # Autocommit: every read sees all earlier commits. A reader in WAL mode does not wait for writers.
            address = f"file:{quote(path)}?mode=rw"
            self._reader = sqlite3.connect(
                address, timeout=0.1, isolation_level=None, check_same_thread=False, uri=True
            )
            self._reader_of = identity
        return self._reader

    def check(self) -> None:
        """Close connections that are no longer usable. A server is only queried if there is reason to doubt, since the
        query takes as long as the work itself."""
        for connection in connections.all(initialized_only=True):
            idle = time.monotonic() - self._opened.get(connection, 0.0)
            doubtful = connection.errors_occurred or idle > TRUSTED_SECONDS or connection.vendor == "sqlite"
            if connection.connection is not None and doubtful:
                if connection.is_usable():
                    connection.errors_occurred = False
                else:
                    connection.close()

    def remember(self) -> None:
        now = time.monotonic()
        self._opened.update((connection, now) for connection in connections.all(initialized_only=True))

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        with self._lock:
            if self._reader is not None:
                self._reader.close()
                self._reader = None
        for connection in list(self._opened):
            connection.inc_thread_sharing()
            connection.close()


async def run(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run database work in one of the database threads."""
    return await asyncio.wrap_future(start(work, *args, **kwargs))


async def run_within(seconds: float, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """`run`, for at most so long. What has begun by then continues in its thread.

    Raises:
        TimeoutError
    """
    running = start(work, *args, **kwargs)
    try:
        return await outcome(running, seconds)
    finally:
        running.cancel()


def start(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Future[R]:
    """Start database work in one of the database threads."""
    database = hub.part(Database)

    def job() -> R:
        database.check()
        try:
            return work(*args, **kwargs)
        finally:
            database.remember()

    # With the context variables of the caller: audit entries record where a request came from.
    return database.threads().submit(contextvars.copy_context().run, job)


async def outcome(running: Future[R], seconds: float) -> R:
    """What work returns or raises, if it ends in time. An event loop that was busy meanwhile is no reason to give up:
    `asyncio.timeout` would, although the thread has ended long before.

    Raises:
        TimeoutError: the work has not ended. It continues.
    """
    loop = asyncio.get_running_loop()
    ended = loop.create_future()
    running.add_done_callback(lambda _: loops.post(loop, _settle, ended))
    await asyncio.wait([ended], timeout=seconds)
    try:
        return running.result(timeout=0)
    except CancelledError as error:
        raise TimeoutError("the hub is closing") from error


def _settle(ended: asyncio.Future[None]) -> None:
    if not ended.done():
        ended.set_result(None)


def reads_now() -> bool:
    """Whether `fetch_now` works here."""
    return _vendor(_settings()["ENGINE"]) == "sqlite"


def fetch_now(query: str) -> tuple[Any, ...] | None:
    """One row, read in the calling thread, whichever that is.

    Raises:
        sqlite3.Error: the database cannot be read.
    """
    return hub.part(Database).fetch(str(_settings()["NAME"]), query)


def _settings() -> dict[str, Any]:
    """The database settings, without Django's connection objects: every task on an event loop would create its own,
    which takes longer than the read."""
    settings: dict[str, Any] = connections.settings["default"]
    return settings


@functools.cache
def _vendor(engine: str) -> str:
    vendor: str = load_backend(engine).DatabaseWrapper.vendor
    return vendor


def close() -> None:
    """Close all threads and connections. The next use opens others."""
    hub.current().drop(Database)
