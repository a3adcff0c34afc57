"""All tools at one moment, immutable; and of them what there is for a caller, under the names that it knows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from tools_app.base import conf
from tools_app.catalog import obstacles
from tools_app.catalog.entry import FINDERS, READER, Entry
from tools_app.catalog.obstacles import Stops
from tools_app.sdk import accounts
from tools_app.sdk.accounts import Account
from tools_app.sdk.context import Caller
from tools_app.sdk.dependencies import Dependency
from tools_app.sdk.errors import AuthorizationError
from tools_app.sdk.hub_errors import Refusal
from tools_app.sdk.names import folded
from tools_app.sdk.reach import EVERYWHERE, Choice, Mode, Reach

# Toolsets are few, and so are the ways in which keys combine them.
MOST_VIEWS: Final = 256
# What is the matter with tools that do not exist for a caller is not for it to know.
_DISCREET: Final = Refusal("it needs a tool that cannot be called", "Ask an operator of this hub what it needs.")


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
        needs = entry.needs
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


NOTHING: Final = Snapshot(revision=-1, generation=-1)
