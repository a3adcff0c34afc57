"""Which tools there are, and which may be called: what this process has loaded, met with what operators decided.

The answer is a snapshot, immutable and in memory. One number in the database says whether it is still true; it is
read before every use, so a tool that was switched off anywhere, in any way, is refused by the very next call.
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

# A server that neither answers nor refuses would be waited for to the end of the call.
PATIENCE_SECONDS: Final = 5.0

_snapshot = NOTHING
_lock = threading.Lock()
_overdue: asyncio.Future[Snapshot] | None = None


def current() -> Snapshot:
    """The snapshot as of now. For threads; a coroutine uses `fresh`.

    Raises:
        StorageBusyError: the database cannot be read.
    """
    try:
        kept = connection.connection is not None
        try:
            return _at(revision.read(connection))
        except (DatabaseError, InterfaceError):
            if not kept or connection.in_atomic_block:
                raise
            # The server may have been restarted since the last time: that shows only now.
            connection.close()
            return _at(revision.read(connection))
    except (DatabaseError, InterfaceError) as error:
        raise StorageBusyError(detail=error) from error


def latest() -> Snapshot:
    """The snapshot of the last look, without looking."""
    return _snapshot


async def fresh() -> Snapshot:
    """The snapshot as of now. For coroutines.

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
        # Nobody need wait as long again, as long as the first still does.
        raise StorageBusyError(detail="the database does not answer")
    question = asyncio.ensure_future(database.run(current))
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await asyncio.shield(question)
    except TimeoutError as error:
        _overdue = question
        question.add_done_callback(_heard)
        raise StorageBusyError(detail=error) from error


def _heard(question: asyncio.Future[Snapshot]) -> None:
    """Whoever asked is gone; asking for the exception keeps asyncio from complaining that nobody did."""
    if not question.cancelled():
        question.exception()


def forget() -> None:
    """Build anew at the next use. For tests, and after the registry was exchanged."""
    global _snapshot, _overdue
    with _lock:
        _snapshot, _overdue = NOTHING, None


def _at(number: int) -> Snapshot:
    global _snapshot
    registry = sources.loaded()
    if _is_true(_snapshot, number, registry):
        return _snapshot
    with _lock:
        # Whoever waited here may find it built. The number was read before the rows are: a change in between costs
        # another build, and is never missed.
        if not _is_true(_snapshot, number, registry):
            _snapshot = _build(number, registry)
        return _snapshot


def _is_true(snapshot: Snapshot, number: int, registry: Registry) -> bool:
    return number != 0 and snapshot.revision == number and snapshot.generation == registry.generation


def _build(number: int, registry: Registry) -> Snapshot:
    known = Accounts()
    _wake(registry, known)
    generation = registry.generation
    tags: dict[int, list[str]] = {}
    for tool_id, name in ToolTag.objects.order_by("tag__name").values_list("tool_id", "tag__name"):
        tags.setdefault(tool_id, []).append(name)
    entries: dict[str, Entry] = {}
    names: dict[str, str] = {}
    stops = obstacles.stops()
    hindered = Obstacles(registry, stops)
    records = {record: _loaded(record, registry) for record in ToolRecord.objects.present()}
    missing = [record.pk for record, loaded in records.items() if loaded is None]
    bodies = dict(Definition.objects.filter(current_for__in=missing).values_list("tool_id", "body")) if missing else {}
    for record, loaded in records.items():
        body = bodies.get(record.pk, {})
        entry = _entry(record, loaded, body, tuple(tags.get(record.pk, ())), hindered)
        entries[record.folded_name] = _connected(entry, known, stops)
        names[record.folded_name] = record.folded_name
    for key, entry in entries.items():
        for alias in entry.tool.aliases if entry.tool else ():
            names.setdefault(folded(alias), key)
    _refuse_dependent(entries, names)
    toolsets = {toolset.name: toolset.choice() for toolset in Toolset.objects.all()}
    return Snapshot(number, generation, entries, names, toolsets, stops)


def _wake(registry: Registry, known: Accounts) -> None:
    """Load what rests and can be used now: somebody may have set up an account since."""
    for name, pack in registry.resting.items():
        if pack.connection is not None and known.of(name, pack.connection):
            sources.wake(name)


def _loaded(record: ToolRecord, registry: Registry) -> Loaded | None:
    """The tool about which the record says what operators decided, and not merely one of its name."""
    loaded = registry.get(record.name)
    return loaded if loaded is not None and _is_of(record, loaded) else None


def _is_of(record: ToolRecord, loaded: Loaded) -> bool:
    if loaded.tool.folded_name != record.folded_name:
        return False  # The name is an alias of another tool now.
    # While a shipped pack rests, nothing else may stand in for its tools.
    return record.source != Origin.SHIPPED or loaded.origin is Origin.SHIPPED


def _entry(
    record: ToolRecord, loaded: Loaded | None, body: Mapping[str, Any], tags: tuple[str, ...], hindered: Obstacles
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
        refusal=hindered.of(record, loaded),
        ask=record.ask,
        body=body,
    )


def _connected(entry: Entry, known: Accounts, stops: Stops) -> Entry:
    """With the accounts that there are, for tools that need one."""
    pack = entry.tool.pack if entry.tool else None
    if pack is None or pack.connection is None:
        return entry
    kind = pack.connection
    found, refusal = known.of(pack.name, kind), entry.refusal
    if stops:
        found = tuple(_as_stopped(account, stops) for account in found)
    if refusal is None and not found:
        refusal = accounts.not_configured(kind, connections.missing(kind))
    elif refusal is None:
        refusal = accounts.refusal(kind, found, writes=entry.hints.writes)
    return replace(entry, accounts=found, refusal=refusal)


def _as_stopped(account: Account, stops: Stops) -> Account:
    stop = stops.get((Stop.Kind.CONNECTION, connections.identifier(account)))
    return replace(account, stopped=stop.words) if stop is not None else account


def _refuse_dependent(entries: dict[str, Entry], names: Mapping[str, str]) -> None:
    """Refuse the tools that need one which cannot be called, and those that need these, and so on."""
    needs = {key: entry.tool.required for key, entry in entries.items() if entry.tool and entry.tool.needs}
    users: dict[str, list[str]] = {}
    for key, needed in needs.items():
        for name in needed:
            users.setdefault(names.get(name, name), []).append(key)
    graph = {key: [names.get(name, name) for name in needed] for key, needed in needs.items()}
    for circle in dependencies.cycles(graph):
        said, cure = dependencies.circle(circle), "One of these tools must need less."
        endless = Refusal(said, "Ask an operator: one of these tools must need less.", names=tuple(circle), cure=cure)
        for key in circle:
            entries[key] = replace(entries[key], refusal=entries[key].refusal or endless)
    waiting = list(needs)
    while waiting:
        key = waiting.pop()
        if entries[key].refusal is None and (unmet := _unmet(entries[key], entries, names)) is not None:
            entries[key] = replace(entries[key], refusal=unmet)
            waiting += users.get(key, ())


def _unmet(entry: Entry, entries: Mapping[str, Entry], names: Mapping[str, str]) -> Refusal | None:
    """What keeps a tool from being called of the tools that it needs."""
    for need in entry.tool.needs if entry.tool else ():
        other = entries.get(names.get(folded(need.name), ""))
        if need.optional:
            continue
        if other is None:
            reason = f"it needs {need}, which is not there"
            return Refusal(reason, "Ask an operator to add that tool.", names=(need.name,), cure="Add that tool.")
        if not need.accepts(other.version):
            reason = f"it needs {need}, and {other.name} is of version {other.version}"
            step = f"Ask an operator for another version of {other.name}."
            return Refusal(reason, step, names=(other.name,), cure=f"Load another version of {other.name}.")
        if other.refusal is not None:
            told = (other.name, *other.refusal.names)
            why = other.refusal
            return Refusal(f"it needs {other.name}: {why.reason}", why.next_step, names=told, cure=why.cure)
    return None
