"""The catalog: the tools that this process has loaded, combined with operators' decisions about them.

It is an immutable snapshot in memory. One revision number in the database tells whether it is current; it is read
before every use, so a tool that was switched off anywhere, in any way, is refused from the next call on.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from django.db import DatabaseError, InterfaceError, connection

from tools_app import sources
from tools_app.base import database
from tools_app.catalog import connections, obstacles
from tools_app.catalog.connections import Accounts
from tools_app.catalog.entry import Entry, effective_policy
from tools_app.catalog.obstacles import Obstacles, Stops
from tools_app.catalog.snapshot import NOTHING, Snapshot
from tools_app.models import Definition, Stop, ToolRecord, Toolset, ToolTag, revision
from tools_app.sdk import accounts, dependencies
from tools_app.sdk.accounts import Account
from tools_app.sdk.hub_errors import Refusal, StorageBusyError
from tools_app.sdk.names import folded
from tools_app.sources.registry import Loaded, Origin, Registry

# Timeout for a database that neither answers nor refuses; otherwise calls would wait until their own deadline.
PATIENCE_SECONDS: Final = 5.0

_snapshot = NOTHING
_lock = threading.Lock()
_overdue: asyncio.Future[Snapshot] | None = None


def current() -> Snapshot:
    """The current snapshot. For threads; coroutines use `fresh`.

    Raises:
        StorageBusyError: the database cannot be read.
    """
    try:
        was_open = connection.connection is not None
        try:
            return _at(revision.read(connection))
        except (DatabaseError, InterfaceError):
            if not was_open or connection.in_atomic_block:
                raise
            # The server may have been restarted: a connection shows that only when it is used.
            connection.close()
            return _at(revision.read(connection))
    except (DatabaseError, InterfaceError) as error:
        raise StorageBusyError(detail=error) from error


def latest() -> Snapshot:
    """The last snapshot that was built, without a check whether it is current."""
    return _snapshot


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
    snapshot = _snapshot
    if row is not None and _is_true(snapshot, row[0], sources.loaded()):
        return snapshot
    return await _in_time()


async def _in_time() -> Snapshot:
    global _overdue
    if _overdue is not None and not _overdue.done():
        # Fail fast while the first query still waits, instead of waiting for another timeout.
        raise StorageBusyError(detail="the database does not answer")
    question = asyncio.ensure_future(database.run(current))
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await asyncio.shield(question)
    except TimeoutError as error:
        _overdue = question
        question.add_done_callback(_retrieve_exception)
        raise StorageBusyError(detail=error) from error


def _retrieve_exception(question: asyncio.Future[Snapshot]) -> None:
    """Retrieve the exception of a query that is no longer awaited, so that asyncio does not report it."""
    if not question.cancelled():
        question.exception()


def forget() -> None:
    """Rebuild at the next use. For tests, and after the registry was replaced."""
    global _snapshot, _overdue
    with _lock:
        _snapshot, _overdue = NOTHING, None


def _at(number: int) -> Snapshot:
    global _snapshot
    registry = sources.loaded()
    if _is_true(_snapshot, number, registry):
        return _snapshot
    with _lock:
        # Another thread may have built it meanwhile. The number is read before the rows: a change in between costs
        # another build, but is never missed.
        if not _is_true(_snapshot, number, registry):
            _snapshot = _build(number, registry)
        return _snapshot


def _is_true(snapshot: Snapshot, number: int, registry: Registry) -> bool:
    return number != 0 and snapshot.revision == number and snapshot.generation == registry.generation


def _build(number: int, registry: Registry) -> Snapshot:
    stored_accounts = Accounts()
    _wake(registry, stored_accounts)
    generation = registry.generation
    tags: dict[int, list[str]] = {}
    for tool_id, name in ToolTag.objects.order_by("tag__name").values_list("tool_id", "tag__name"):
        tags.setdefault(tool_id, []).append(name)
    entries: dict[str, Entry] = {}
    names: dict[str, str] = {}
    stops = obstacles.stops()
    obstacles_now = Obstacles(registry, stops)
    records = {record: _loaded(record, registry) for record in ToolRecord.objects.present()}
    absent = [record.pk for record, loaded in records.items() if loaded is None]
    bodies = dict(Definition.objects.filter(current_for__in=absent).values_list("tool_id", "body")) if absent else {}
    for record, loaded in records.items():
        body = bodies.get(record.pk, {})
        entry = _entry(record, loaded, body, tuple(tags.get(record.pk, ())), obstacles_now)
        entries[record.folded_name] = _connected(entry, stored_accounts, stops)
        names[record.folded_name] = record.folded_name
    for key, entry in entries.items():
        for alias in entry.tool.aliases if entry.tool else ():
            names.setdefault(folded(alias), key)
    _refuse_dependent(entries, names)
    toolsets = {toolset.name: toolset.choice() for toolset in Toolset.objects.all()}
    return Snapshot(number, generation, entries, names, toolsets, stops)


def _wake(registry: Registry, stored_accounts: Accounts) -> None:
    """Load resting packs that can be used now: an account may have been set up since."""
    for name, pack in registry.resting.items():
        if pack.connection is not None and stored_accounts.of(name, pack.connection):
            sources.wake(name)


def _loaded(record: ToolRecord, registry: Registry) -> Loaded | None:
    """The loaded tool that the record is about; None if another tool has its name."""
    loaded = registry.get(record.name)
    return loaded if loaded is not None and _is_of(record, loaded) else None


def _is_of(record: ToolRecord, loaded: Loaded) -> bool:
    if loaded.tool.folded_name != record.folded_name:
        return False  # The name is an alias of another tool now.
    # While a shipped pack rests, no other tool may take its tools' names.
    return record.source != Origin.SHIPPED or loaded.origin is Origin.SHIPPED


def _entry(
    record: ToolRecord, loaded: Loaded | None, body: Mapping[str, Any], tags: tuple[str, ...], obstacles_now: Obstacles
) -> Entry:
    tool = loaded.tool if loaded else None
    return Entry(
        name=record.name,
        title=tool.title if tool else record.title,
        description=tool.described if tool else record.description,
        version=tool.effective_version if tool else record.version,
        category=tool.category if tool else record.category,
        tags=tags,
        author=tool.author if tool else record.author,
        source=record.source,
        pack=record.pack,
        enabled=record.enabled,
        registered_at=record.registered_at,
        updated_at=record.updated_at,
        policy=effective_policy(record, tool),
        tool=tool,
        refusal=obstacles_now.of(record, loaded),
        ask=record.ask,
        body=body,
    )


def _connected(entry: Entry, stored_accounts: Accounts, stops: Stops) -> Entry:
    """Add the available accounts to a tool that needs one."""
    pack = entry.tool.pack if entry.tool else None
    if pack is None or pack.connection is None:
        return entry
    kind = pack.connection
    available, refusal = stored_accounts.of(pack.name, kind), entry.refusal
    if stops:
        available = tuple(_as_stopped(account, stops) for account in available)
    if refusal is None and not available:
        refusal = accounts.not_configured(kind, connections.missing(kind))
    elif refusal is None:
        refusal = accounts.refusal(kind, available, writes=entry.hints.writes)
    return replace(entry, accounts=available, refusal=refusal)


def _as_stopped(account: Account, stops: Stops) -> Account:
    stop = stops.get((Stop.Kind.CONNECTION, connections.identifier(account)))
    return replace(account, stopped=stop.words) if stop is not None else account


def _refuse_dependent(entries: dict[str, Entry], names: Mapping[str, str]) -> None:
    """Refuse tools that depend on a tool that cannot be called, transitively."""
    needs = {key: entry.tool.required for key, entry in entries.items() if entry.tool and entry.tool.needs}
    users: dict[str, list[str]] = {}
    for key, needed in needs.items():
        for name in needed:
            users.setdefault(names.get(name, name), []).append(key)
    graph = {key: [names.get(name, name) for name in needed] for key, needed in needs.items()}
    for circle in dependencies.cycles(graph):
        reason, cure = dependencies.circle(circle), "Remove one of these dependencies."
        endless = Refusal(reason, "Ask an operator to remove one of them.", names=tuple(circle), cure=cure)
        for key in circle:
            entries[key] = replace(entries[key], refusal=entries[key].refusal or endless)
    waiting = list(needs)
    while waiting:
        key = waiting.pop()
        if entries[key].refusal is None and (unmet := _unmet(entries[key], entries, names)) is not None:
            entries[key] = replace(entries[key], refusal=unmet)
            waiting += users.get(key, ())


def _unmet(entry: Entry, entries: Mapping[str, Entry], names: Mapping[str, str]) -> Refusal | None:
    """The unmet dependency that prevents a tool from being called."""
    for need in entry.tool.needs if entry.tool else ():
        other = entries.get(names.get(folded(need.name), ""))
        if need.optional:
            continue
        if other is None:
            reason = f"it needs {need}, which does not exist"
            return Refusal(reason, "Ask an operator to add that tool.", names=(need.name,), cure="Add that tool.")
        if not need.accepts(other.version):
            reason = f"it needs {need}, and {other.name} has version {other.version}"
            step = f"Ask an operator for another version of {other.name}."
            return Refusal(reason, step, names=(other.name,), cure=f"Load another version of {other.name}.")
        if other.refusal is not None:
            involved = (other.name, *other.refusal.names)
            cause = other.refusal
            return Refusal(f"it needs {other.name}: {cause.reason}", cause.next_step, names=involved, cure=cause.cure)
    return None
