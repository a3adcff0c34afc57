"""Which tools there are, and which may be called: what this process has loaded, met with what operators decided.

The answer is a snapshot, immutable and in memory. One number in the database says whether it is still true; it is
read before every use, so a tool that was switched off anywhere, in any way, is refused by the very next call.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Final

from django.db import DatabaseError, InterfaceError, connection

from tools_app import accounts, conf, connections, database, dependencies, obstacles, sources
from tools_app.accounts import Account, ConnectionKind
from tools_app.connections import Accounts
from tools_app.context import Caller
from tools_app.dependencies import Dependency
from tools_app.errors import AuthorizationError, Refusal, StorageBusyError
from tools_app.models import Stop, ToolRecord, Toolset, ToolTag, revision
from tools_app.obstacles import Obstacles, Stops
from tools_app.pack import Pack
from tools_app.policies import Rate
from tools_app.reach import EVERYWHERE, Choice, Mode, Reach
from tools_app.registry import Loaded, Origin, Registry
from tools_app.schemas import Schema
from tools_app.tool import Hints, Tool, folded


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
    # Whether an operator has to approve every call.
    ask: bool = False
    # What the caller's toolset calls it, where that is something else.
    alias: str = ""

    @property
    def shown_name(self) -> str:
        """What the caller knows it by. It is called by this name and by its own, and journaled under its own."""
        return self.alias or self.name

    @property
    def folded_name(self) -> str:
        return folded(self.name)

    @property
    def callable(self) -> bool:
        return self.refusal is None

    @property
    def is_finder(self) -> bool:
        return self.name in FINDERS and self.pack == "finding"

    @property
    def forwards(self) -> bool:
        return self.tool is not None and self.tool.forwards

    def beyond(self, reach: Reach) -> str:
        """What a caller lacks to use it: `write`, `destroy` or nothing.

        One that calls others does as much as these do, and they are looked at when it is called.
        """
        lacks = reach.lacks(self.hints)
        return "" if lacks == "destroy" and self.forwards else lacks

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
# With these, agents find and call tools that their list does not show.
FINDERS: Final = frozenset({"search_tools", "describe_tool", "call_tool", "call_writing_tool"})
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
    stops: Stops = field(default_factory=dict)
    # Whose view it is.
    reach: Reach = EVERYWHERE
    _views: dict[Reach, Snapshot] = field(default_factory=dict)

    def seen_by(self, caller: Caller) -> Snapshot:
        """What there is for this caller. What it may see and not use says so; for whoever sees the same, the same."""
        return self._view(caller.reach)

    def within(self, toolset: str) -> Snapshot:
        """What there is for a caller who has this toolset and no other."""
        return self._view(Reach(frozenset({toolset})))

    def _view(self, reach: Reach) -> Snapshot:
        if reach.everything and not reach.mode and (reach.connections is None or not self.has_accounts):
            return self
        view = self._views.get(reach)
        if view is None:
            if len(self._views) >= MOST_VIEWS:
                self._views.clear()
            view = self._views[reach] = self._within(reach)
        return view

    def _within(self, reach: Reach) -> Snapshot:
        # A toolset that is gone holds nothing.
        choices = [self.toolsets[name] for name in sorted(reach.toolsets or ()) if name in self.toolsets]
        entries = {
            key: _limited(entry, reach)
            for key, entry in self.entries.items()
            if reach.toolsets is None or any(choice.holds(entry) for choice in choices)
        }
        if entries and (reader := self.entries.get(READER)) is not None and reader.pack == "builtin":
            # With any tool comes the one that reads what is too large of its answers.
            entries[READER] = _limited(reader, reach)
        if entries and any(mode_of(choice, reach) != Mode.DIRECT for choice in choices):
            # And those that find what is not listed.
            writes = any(entry.hints.writes for entry in entries.values())
            finders = (self.entries[name] for name in FINDERS if name in self.entries)
            entries |= {
                entry.folded_name: _limited(entry, reach)
                for entry in finders
                if entry.is_finder and (writes or not entry.hints.writes)
            }
        names = {name: key for name, key in self.names.items() if key in entries}
        for key, entry in entries.items():
            if entry.refusal is not None and not all(folded(name) in names for name in entry.refusal.names):
                entries[key] = replace(entry, refusal=_DISCREET)
        _rename(entries, names, choices)
        return Snapshot(self.revision, self.generation, entries, names, self.toolsets, self.stops, reach)

    def needs(self, entry: Entry) -> tuple[Dependency, ...]:
        """What a tool needs, as far as whoever sees this may know of it."""
        needs = entry.tool.needs if entry.tool is not None else ()
        return needs if self.reach.toolsets is None else tuple(need for need in needs if self.find(need.name))

    def find(self, name: str) -> Entry | None:
        """By name or alias; `a-b` finds `a_b`."""
        own = self.names.get(folded(name))
        return self.entries.get(own) if own is not None else None

    def matching(self, query: str) -> list[Entry]:
        """Tools in which every word of the query occurs; those named so first."""
        words = query.casefold().split()
        found = []
        for entry in self.all:
            said = entry.alias, entry.name, entry.title, entry.description, entry.category, *entry.tags
            text = " ".join(said).casefold()
            if words and all(word in text for word in words):
                found.append(entry)
        return sorted(found, key=lambda entry: not all(word in f"{entry.alias} {entry.name}" for word in words))

    @cached_property
    def all(self) -> tuple[Entry, ...]:
        return tuple(sorted(self.entries.values(), key=lambda entry: entry.name))

    @cached_property
    def callable(self) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.all if entry.callable)

    def stopped(self, pack: str) -> Refusal | None:
        """Why nothing of a pack may be called, where an operator has stopped it, or the hub."""
        return obstacles.refusal(self.stops, pack)

    def needing(self, names: Collection[str]) -> dict[str, list[str]]:
        """Which tools cannot be called without these: for each of them the names of those that need it."""
        wanted = {self.names.get(folded(name), "") for name in names}
        found: dict[str, list[str]] = {}
        for entry in self.all:
            for name in entry.tool.required if entry.tool else ():
                if (key := self.names.get(name, "")) in wanted and key in self.entries:
                    found.setdefault(self.entries[key].name, []).append(entry.name)
        return found

    def accounts_of(self, pack: str) -> tuple[Account, ...]:
        """The accounts at the upstream of a pack's tools."""
        return next((entry.accounts for entry in self.entries.values() if entry.pack == pack and entry.accounts), ())

    @cached_property
    def has_accounts(self) -> bool:
        """Whether it can make a difference which connections a caller may use."""
        return any(entry.accounts for entry in self.entries.values())


# What is the matter with tools that do not exist for a caller is not for it to know.
_DISCREET: Final = Refusal("it needs a tool that cannot be called", "Ask an operator of this hub what it needs.")


def _limited(entry: Entry, reach: Reach) -> Entry:
    if entry.accounts:
        entry = _through(entry, reach)
    kind = entry.beyond(reach)
    if not kind:
        return entry
    error = AuthorizationError.beyond(entry.name, kind)
    return replace(entry, refusal=Refusal(error.message, error.next_step))


def _rename(entries: dict[str, Entry], names: dict[str, str], choices: Iterable[Choice]) -> None:
    """Let tools be called as the toolsets say that hold them; of several, the first by name that says so.

    No tool takes the name of another: tools may come later than what an operator decided.
    """
    for choice in choices:
        for key, override in choice.overrides.items():
            entry = entries.get(key)
            if entry is None or not choice.holds(entry):
                continue
            if override.description and entry.description == _said_by(entry):
                entry = replace(entry, description=override.description)
            alias = folded(override.name)
            if alias and not entry.alias and names.get(alias, key) == key:
                entry = replace(entry, alias=override.name)
                names[alias] = key
            entries[key] = entry


def _said_by(entry: Entry) -> str:
    return entry.tool.description if entry.tool else entry.description


def mode_of(choice: Choice | None, reach: Reach) -> Mode:
    """How a caller is shown the tools of one of its toolsets; or all tools, where it has none."""
    return Mode(reach.mode or (choice.mode if choice is not None else "") or conf.value("TOOLHUB_LIST_MODE"))


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
    for record in ToolRecord.objects.present():
        loaded = registry.get(record.name)
        if loaded is not None and not _is_of(record, loaded):
            loaded = None
        entry = _entry(record, loaded, tuple(tags.get(record.pk, ())), hindered)
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


def _is_of(record: ToolRecord, loaded: Loaded) -> bool:
    """Whether this is the tool about which the record says what operators decided, and not merely one of its name."""
    if loaded.tool.folded_name != record.folded_name:
        return False  # The name is an alias of another tool now.
    # While a shipped pack rests, nothing else may stand in for its tools.
    return record.source != Origin.SHIPPED or loaded.origin is Origin.SHIPPED


def _entry(record: ToolRecord, loaded: Loaded | None, tags: tuple[str, ...], hindered: Obstacles) -> Entry:
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
        said, next_step = dependencies.circle(circle), "Ask an operator: one of these tools must need less."
        endless = Refusal(said, next_step, names=tuple(circle))
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
            return Refusal(reason, "Ask an operator to add that tool.", names=(need.name,))
        if not need.accepts(other.version):
            reason = f"it needs {need}, and {other.name} is of version {other.version}"
            return Refusal(reason, f"Ask an operator for another version of {other.name}.", names=(other.name,))
        if other.refusal is not None:
            told = (other.name, *other.refusal.names)
            return Refusal(f"it needs {other.name}: {other.refusal.reason}", other.refusal.next_step, names=told)
    return None
