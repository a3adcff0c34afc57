"""Which tools there are, and which may be called: what this process has loaded, met with what operators decided.

The answer is a snapshot, immutable and in memory. One number in the database says whether it is still true; it is
read before every use, so a tool that was switched off anywhere, in any way, is refused by the very next call.
"""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Final

from django.db import DatabaseError, InterfaceError, connection

from tools_app import accounts, conf, connections, database, sources
from tools_app.accounts import Account, ConnectionKind
from tools_app.connections import Accounts
from tools_app.errors import AuthorizationError, Refusal, StorageBusyError
from tools_app.models import ToolRecord, Toolset, ToolTag, revision
from tools_app.policies import Rate
from tools_app.reach import Choice, Reach
from tools_app.registry import Loaded, LoadProblem, Registry
from tools_app.schemas import Schema
from tools_app.tool import Caller, Hints, Pack, Tool, folded


@dataclass(frozen=True)
class Entry:
    """One tool, as it is right now."""

    name: str
    title: str
    description: str
    version: str
    category: str
    tags: tuple[str, ...]
    author: str
    source: str
    pack: str
    enabled: bool
    registered_at: datetime
    updated_at: datetime
    policy: Policy
    tool: Tool | None
    refusal: Refusal | None
    # The accounts at its upstream: all of them, or the caller's.
    accounts: tuple[Account, ...] = ()

    @property
    def folded_name(self) -> str:
        return folded(self.name)

    @property
    def callable(self) -> bool:
        return self.refusal is None

    @property
    def definition_hash(self) -> str:
        return self.tool.fingerprint if self.tool else ""

    @property
    def hints(self) -> Hints:
        return self.tool.hints if self.tool else Hints()

    @property
    def connection_kind(self) -> ConnectionKind | None:
        return self.tool.connection_kind if self.tool else None

    @property
    def input_schema(self) -> Schema:
        """What callers send. It is the tool's own, but where they have several accounts they say which to use."""
        if self.tool is None:
            return {}
        kind = self.tool.connection_kind
        if kind is None:
            return self.tool.input_schema
        return accounts.with_choice(self.tool.input_schema, kind, self.accounts, writes=self.tool.hints.writes)

    @property
    def choices(self) -> tuple[str, ...]:
        """The accounts that its schema offers; none where there is no choice."""
        if len(self.accounts) < 2:
            return ()
        writes = self.hints.writes
        return tuple(account.name for account in self.accounts if not account.obstacle(writes=writes))


@dataclass(frozen=True, slots=True)
class Policy:
    """How a tool is called, and who decided each part of it: operator, tool, pack or settings."""

    timeout_ms: int
    retries: int
    retry_delay_ms: int
    rate: Rate | None
    cache_seconds: int
    answer_tokens: int
    origins: Mapping[str, str]

    def as_dict(self) -> dict[str, Any]:
        rate = self.rate
        return {
            "timeoutMs": self.timeout_ms,
            "retries": self.retries,
            "retryDelayMs": self.retry_delay_ms,
            "rateLimit": {"max": rate.most, "timeWindow": round(rate.seconds * 1000)} if rate else None,
            "cacheSeconds": self.cache_seconds,
            "answerTokens": self.answer_tokens,
            "origins": {_POLICY_NAMES[part]: origin for part, origin in self.origins.items()},
        }


_POLICY_NAMES: Final = {
    "timeout_ms": "timeoutMs",
    "retries": "retries",
    "retry_delay_ms": "retryDelayMs",
    "rate": "rateLimit",
    "cache_seconds": "cacheSeconds",
    "answer_tokens": "answerTokens",
}


def effective_policy(record: ToolRecord, tool: Tool | None) -> Policy:
    """What an operator decided for the tool, else what its author, its pack or the settings say."""
    pack = tool.pack if tool else None
    chains: dict[str, tuple[Any, ...]] = {
        "timeout_ms": (record.timeout_ms, _ms(tool), _ms(pack), conf.value("TOOLHUB_TIMEOUT_MS")),
        "retries": (record.retries, tool and tool.retries, pack and pack.retries, conf.value("TOOLHUB_RETRIES")),
        "retry_delay_ms": (record.retry_delay_ms, None, None, conf.value("TOOLHUB_RETRY_DELAY_MS")),
        "rate": (_own_rate(record), tool and tool.rate, pack and pack.rate, _default_rate()),
        # What writes is never answered from memory, whoever decided so before it wrote.
        "cache_seconds": (
            (None, None, None, 0)
            if tool is None or tool.hints.writes
            else (record.cache_seconds, tool.cache_seconds, None, 0)
        ),
        "answer_tokens": _lowered(
            (record.answer_tokens, tool.answer_tokens if tool else None, None), conf.value("TOOLHUB_ANSWER_TOKENS")
        ),
    }
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for part, chain in chains.items():
        found = [(value, origin) for value, origin in zip(chain, ORIGINS, strict=True) if value is not None]
        values[part], origins[part] = found[0] if found else (None, ORIGINS[-1])
    return Policy(**values, origins=origins)


READER: Final = "read_result"
ORIGINS: Final = ("operator", "tool", "pack", "settings")


def _lowered(decided: tuple[int | None, ...], most: int) -> tuple[int | None, ...]:
    """As far as these stay below what the settings say: an agent's context does not grow with anybody's wishes."""
    return (*(value if value is not None and value < most else None for value in decided), most)


def _ms(what: Tool | Pack | None) -> int | None:
    return round(what.timeout * 1000) if what is not None and what.timeout is not None else None


def _own_rate(record: ToolRecord) -> Rate | None:
    if record.rate_calls is None or record.rate_seconds is None:
        return None
    return Rate(record.rate_calls, record.rate_seconds)


def _default_rate() -> Rate | None:
    calls = conf.value("TOOLHUB_RATE_CALLS")
    return Rate(calls, conf.value("TOOLHUB_RATE_SECONDS")) if calls else None


@dataclass(frozen=True, eq=False)
class Snapshot:
    """All tools at one moment, in the order of their names; or those of them that exist for a caller."""

    revision: int
    generation: int
    entries: Mapping[str, Entry] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    toolsets: Mapping[str, Choice] = field(default_factory=dict)
    _views: dict[Reach, Snapshot] = field(default_factory=dict)

    def seen_by(self, caller: Caller) -> Snapshot:
        """What there is for this caller. What it may see and not use says so; for whoever sees the same, the same."""
        reach = caller.reach
        if reach.everything and (reach.connections is None or not self.has_accounts):
            return self
        view = self._views.get(reach)
        if view is None:
            if len(self._views) >= MOST_VIEWS:
                self._views.clear()
            view = self._views[reach] = self._within(reach)
        return view

    def _within(self, reach: Reach) -> Snapshot:
        # A toolset that is gone holds nothing.
        choices = [self.toolsets[name] for name in reach.toolsets or () if name in self.toolsets]
        entries = {
            key: _limited(entry, reach)
            for key, entry in self.entries.items()
            if reach.toolsets is None or any(choice.holds(entry) for choice in choices)
        }
        if entries and (reader := self.entries.get(READER)) is not None and reader.pack == "builtin":
            # With any tool comes the one that reads what is too large of its answers.
            entries[READER] = _limited(reader, reach)
        names = {name: key for name, key in self.names.items() if key in entries}
        return Snapshot(self.revision, self.generation, entries, names, self.toolsets)

    def find(self, name: str) -> Entry | None:
        """By name or alias; `a-b` finds `a_b`."""
        own = self.names.get(folded(name))
        return self.entries.get(own) if own is not None else None

    def matching(self, query: str) -> list[Entry]:
        """Tools in which every word of the query occurs; those named so first."""
        words = query.casefold().split()
        found = []
        for entry in self.all:
            text = " ".join((entry.name, entry.title, entry.description, entry.category, *entry.tags)).casefold()
            if words and all(word in text for word in words):
                found.append(entry)
        return sorted(found, key=lambda entry: not all(word in entry.name for word in words))

    @cached_property
    def all(self) -> tuple[Entry, ...]:
        return tuple(sorted(self.entries.values(), key=lambda entry: entry.name))

    @cached_property
    def callable(self) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.all if entry.callable)

    def accounts_of(self, pack: str) -> tuple[Account, ...]:
        """The accounts at the upstream of a pack's tools."""
        return next((entry.accounts for entry in self.entries.values() if entry.pack == pack and entry.accounts), ())

    @cached_property
    def has_accounts(self) -> bool:
        """Whether it can make a difference which connections a caller may use."""
        return any(entry.accounts for entry in self.entries.values())

    @cached_property
    def digest(self) -> str:
        """Differs exactly when agents see something else."""
        seen = hashlib.sha256()
        for entry in self.callable:
            shown = (entry.name, entry.title, entry.tags, entry.definition_hash, *entry.choices)
            seen.update(f"{shown}\n".encode())
        return seen.hexdigest()


def _limited(entry: Entry, reach: Reach) -> Entry:
    if entry.accounts:
        entry = _through(entry, reach)
    kind = reach.lacks(entry.hints)
    if not kind:
        return entry
    error = AuthorizationError.beyond(entry.name, kind)
    return replace(entry, refusal=Refusal(error.message, error.next_step))


def _through(entry: Entry, reach: Reach) -> Entry:
    """With those accounts alone that the caller may use; without one, it may not be called."""
    mine = tuple(account for account in entry.accounts if reach.through(account.name))
    kind, writes = entry.connection_kind, entry.hints.writes
    if kind is None or len(mine) == len(entry.accounts):
        return entry
    refusal = entry.refusal
    if refusal is None or refusal == accounts.refusal(kind, entry.accounts, writes=writes):
        # What is wrong with the accounts of others is not for this caller to know.
        refusal = accounts.refusal(kind, mine, writes=writes)
    return replace(entry, accounts=mine, refusal=refusal)


# Toolsets are few, and so are the ways in which keys combine them.
MOST_VIEWS: Final = 256

# A server that neither answers nor refuses would be waited for to the end of the call.
PATIENCE_SECONDS: Final = 5.0

NOTHING: Final = Snapshot(revision=-1, generation=-1)

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
    if row is not None and _is_true(snapshot, row[0], sources.registry()):
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
    registry = sources.registry()
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
    generation = registry.generation
    tags: dict[int, list[str]] = {}
    for tool_id, name in ToolTag.objects.order_by("tag__name").values_list("tool_id", "tag__name"):
        tags.setdefault(tool_id, []).append(name)
    entries: dict[str, Entry] = {}
    names: dict[str, str] = {}
    unset: dict[str, list[str]] = {}
    known = Accounts()
    for record in ToolRecord.objects.present():
        loaded = registry.get(record.name)
        if loaded is not None and loaded.tool.folded_name != record.folded_name:
            loaded = None  # The name is an alias of another tool now.
        entry = _entry(record, loaded, registry, tuple(tags.get(record.pk, ())), unset)
        entries[record.folded_name] = _connected(entry, known)
        names[record.folded_name] = record.folded_name
    for key, entry in entries.items():
        for alias in entry.tool.aliases if entry.tool else ():
            names.setdefault(folded(alias), key)
    toolsets = {toolset.name: toolset.choice() for toolset in Toolset.objects.all()}
    return Snapshot(number, generation, entries, names, toolsets)


def _entry(
    record: ToolRecord, loaded: Loaded | None, registry: Registry, tags: tuple[str, ...], unset: dict[str, list[str]]
) -> Entry:
    tool = loaded.tool if loaded else None
    return Entry(
        name=record.name,
        title=tool.title if tool else record.title,
        description=tool.description if tool else record.description,
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
        refusal=_refusal(record, tool, registry, unset),
    )


def _connected(entry: Entry, known: Accounts) -> Entry:
    """With the accounts that there are, for tools that need one."""
    pack = entry.tool.pack if entry.tool else None
    if pack is None or pack.connection is None:
        return entry
    kind = pack.connection
    found, refusal = known.of(pack.name, kind), entry.refusal
    if refusal is None and not found:
        refusal = accounts.not_configured(kind, connections.missing(kind))
    elif refusal is None:
        refusal = accounts.refusal(kind, found, writes=entry.hints.writes)
    return replace(entry, accounts=found, refusal=refusal)


def _refusal(record: ToolRecord, tool: Tool | None, registry: Registry, unset: dict[str, list[str]]) -> Refusal | None:
    """Why the tool cannot be called now; None when it can."""
    if not record.enabled:
        waits = tool is not None and tool.starts_off
        reason = "switched off: it waits for an operator" if waits else "switched off by an operator"
        return Refusal(reason, "Ask an operator of this hub to switch it on.")
    if tool is None:
        return _not_loaded(record, registry.problems)
    if tool.pack is not None and tool.pack.requires:
        if tool.pack.name not in unset:
            unset[tool.pack.name] = conf.unset(tool.pack.requires)
        if missing := unset[tool.pack.name]:
            return Refusal(f"not configured: {', '.join(missing)}", f"Ask an operator to set {', '.join(missing)}.")
    return None


def _not_loaded(record: ToolRecord, problems: Iterable[LoadProblem]) -> Refusal:
    if any(problem.keeps_out(record.name, record.place) for problem in problems):
        return Refusal("it could not be loaded", "Ask an operator to run `toolhub doctor`, which says why.")
    return Refusal(
        "this process does not have it", "Ask an operator to restart the hub, or to run `toolhub synctools`."
    )
