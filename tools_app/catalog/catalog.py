"""The catalog: the recorded definitions of all tools, combined with operators' decisions about them.

It is built from rows alone: a process lists every tool without importing any. It is an immutable snapshot in memory.
Two counters in the database tell whether it is current: one of tools, one of access to them. They are read before every
use, so a tool that was switched off anywhere, in any way, is refused from the next call on. Making a key counts as
access: it is effective at once, and rebuilds nothing.
"""

from __future__ import annotations

import sqlite3
import threading
from concurrent.futures import Future
from typing import Final

from django.db import DatabaseError, InterfaceError, connection

from tools_app.base import database, hub
from tools_app.catalog import building, obstacles
from tools_app.catalog.building import Builder
from tools_app.catalog.snapshot import NOTHING, Snapshot
from tools_app.models import revision
from tools_app.models.revision import Numbers
from tools_app.sdk.hub_errors import StorageBusyError

# Timeout for a database that neither answers nor refuses; otherwise calls would wait until their own deadline.
PATIENCE_SECONDS: Final = 5.0
NO_NUMBERS: Final = Numbers(-1, -1, -1)


class CatalogState:
    """The catalog of a hub."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.builder = Builder()
        self.snapshot = NOTHING
        # The counters at which the snapshot was found to be current.
        self.numbers = NO_NUMBERS
        self.overdue: Future[Snapshot] | None = None


def current() -> Snapshot:
    """The current snapshot. For threads; coroutines use `fresh`.

    Raises:
        StorageBusyError: the database cannot be read.
    """
    try:
        was_open = connection.connection is not None
        try:
            return _at(revision.numbers(connection))
        except (DatabaseError, InterfaceError):
            if not was_open or connection.in_atomic_block:
                raise
            # The server may have been restarted: a connection shows that only when it is used.
            connection.close()
            return _at(revision.numbers(connection))
    except (DatabaseError, InterfaceError) as error:
        raise StorageBusyError(detail=error) from error


def numbers() -> Numbers:
    """The counters as of the last check, which every use of the catalog makes."""
    return hub.part(CatalogState).numbers


def forget() -> None:
    """After a transaction that was rolled back, in which the catalog was used: its counters will come again."""
    hub.current().drop(CatalogState)


def latest() -> Snapshot:
    """The last snapshot that was built, without a check whether it is current."""
    return hub.part(CatalogState).snapshot


async def fresh() -> Snapshot:
    """The current snapshot. For coroutines.

    Raises:
        StorageBusyError: the database cannot be read.
    """
    if not database.reads_now():
        return await _in_time()
    try:
        row = database.fetch_now(revision.QUERY)
    except sqlite3.Error as error:
        raise StorageBusyError(detail=error) from error
    state = hub.part(CatalogState)
    snapshot = state.snapshot
    if row is not None and row == state.numbers:
        return snapshot
    return await _in_time()


async def _in_time() -> Snapshot:
    state = hub.part(CatalogState)
    if state.overdue is not None and not state.overdue.done():
        # Fail fast while the first query still waits, instead of waiting for another timeout.
        raise StorageBusyError(detail="the database does not answer")
    query = database.start(current)
    try:
        return await database.outcome(query, PATIENCE_SECONDS)
    except TimeoutError as error:
        state.overdue = query
        raise StorageBusyError(detail=error) from error


def _at(numbers: Numbers) -> Snapshot:
    state = hub.part(CatalogState)
    if numbers == state.numbers:
        return state.snapshot
    with state.lock:
        # Another thread may have built it meanwhile. The counters are read before the rows: a change in between costs
        # another build, but is never missed.
        if numbers != state.numbers:
            if numbers.tools != state.numbers.tools or not _has_same_access(state.snapshot):
                state.snapshot = state.builder.build()
            state.numbers = numbers
        return state.snapshot


def _has_same_access(snapshot: Snapshot) -> bool:
    """Whether toolsets and stops are those of the snapshot: most changes of access are keys."""
    words_of_stops = [{key: stop.words for key, stop in stops.items()} for stops in (obstacles.stops(), snapshot.stops)]
    return words_of_stops[0] == words_of_stops[1] and building.toolsets() == snapshot.toolsets
