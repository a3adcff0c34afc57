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
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, ParamSpec, TypeVar
from urllib.parse import quote

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import load_backend

P = ParamSpec("P")
R = TypeVar("R")

THREADS: Final = 4
# A connection that was used within this time is assumed to be alive.
TRUSTED_SECONDS: Final = 5.0

_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None
_opened: dict[BaseDatabaseWrapper, float] = {}
_reader: sqlite3.Connection | None = None
_reader_of: tuple[str, int] | None = None


async def run(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run database work in one of the database threads."""

    def job() -> R:
        _check()
        try:
            return work(*args, **kwargs)
        finally:
            _remember()

    # With the context variables of the caller: audit entries record where a request came from.
    return await asyncio.get_running_loop().run_in_executor(_threads(), contextvars.copy_context().run, job)


def reads_now() -> bool:
    """Whether `fetch_now` works here."""
    return _vendor(_settings()["ENGINE"]) == "sqlite"


def fetch_now(query: str) -> tuple[Any, ...] | None:
    """One row, read in the calling thread, whichever that is.

    Raises:
        sqlite3.Error: the database cannot be read.
    """
    path = str(_settings()["NAME"])
    with _lock:
        row: tuple[Any, ...] | None = _read_only_connection(path).execute(query).fetchone()
    return row


def _settings() -> dict[str, Any]:
    """The database settings, without Django's connection objects: every task on an event loop would create its own,
    which takes longer than the read."""
    settings: dict[str, Any] = connections.settings["default"]
    return settings


@functools.cache
def _vendor(engine: str) -> str:
    vendor: str = load_backend(engine).DatabaseWrapper.vendor
    return vendor


def _read_only_connection(path: str) -> sqlite3.Connection:
    global _reader, _reader_of
    try:
        # The inode, since an open connection would still read a database file that was moved and replaced.
        identity = (path, os.stat(path).st_ino)  # noqa: PTH116 – on the path of every call
    except OSError as error:
        raise sqlite3.OperationalError(f"unable to open database file: {error.strerror}") from error
    if _reader is None or _reader_of != identity:
        if _reader is not None:
            _reader.close()
        # Autocommit: every read sees all earlier commits. A reader in WAL mode does not wait for writers.
        address = f"file:{quote(path)}?mode=rw"
        _reader = sqlite3.connect(address, timeout=0.1, isolation_level=None, check_same_thread=False, uri=True)
        _reader_of = identity
    return _reader


def close() -> None:
    """Close all threads and connections. For the end of a process, and for tests."""
    global _pool, _reader
    with _lock:
        pool, _pool = _pool, None
        reader, _reader = _reader, None
    if pool is not None:
        pool.shutdown(wait=True, cancel_futures=True)
    if reader is not None:
        reader.close()
    for connection in list(_opened):
        connection.inc_thread_sharing()
        connection.close()
    _opened.clear()


def _threads() -> ThreadPoolExecutor:
    global _pool
    if _pool is None:
        with _lock:
            _pool = _pool or ThreadPoolExecutor(THREADS, thread_name_prefix="toolhub-db")
    return _pool


def _check() -> None:
    """Close connections that are no longer usable. A server is only queried if there is reason to doubt, since the
    query takes as long as the work itself."""
    for connection in connections.all(initialized_only=True):
        idle = time.monotonic() - _opened.get(connection, 0.0)
        doubtful = connection.errors_occurred or idle > TRUSTED_SECONDS or connection.vendor == "sqlite"
        if connection.connection is not None and doubtful:
            if connection.is_usable():
                connection.errors_occurred = False
            else:
                connection.close()


def _remember() -> None:
    now = time.monotonic()
    _opened.update((connection, now) for connection in connections.all(initialized_only=True))
