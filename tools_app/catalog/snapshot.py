"""An immutable snapshot of all tools, and the views of it for callers, with the names that these use."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from tools_app.base import conf
from tools_app.catalog import obstacles
from tools_app.catalog.entry import FINDERS, READER, Entry
from tools_app.catalog.obstacles import Stops
from tools_app.sdk import accounts
from tools_app.sdk.accounts import Account, ConnectionKind
from tools_app.sdk.context import Caller
from tools_app.sdk.dependencies import Dependency
from tools_app.sdk.errors import AuthorizationError
from tools_app.sdk.hub_errors import Refusal
from tools_app.sdk.names import folded
from tools_app.sdk.reach import EVERYWHERE, Choice, Mode, Reach

# There are few toolsets, and few combinations of them in keys.
MOST_VIEWS: Final = 256
# Callers must not learn what is wrong with tools that do not exist for them.
_DISCREET: Final = Refusal("it needs a tool that cannot be called", "Ask an operator of this hub what it needs.")


@dataclass(frozen=True, eq=False)
class Snapshot:
    """All tools at one moment, ordered by name; or a view with those that exist for a caller."""

    entries: Mapping[str, Entry] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    toolsets: Mapping[str, Choice] = field(default_factory=dict)
    stops: Stops = field(default_factory=dict)
    # Prompts and resources, by kind and key. They are the same in all views: `offers` selects those of a caller.
    offers: Mapping[str, Entry] = field(default_factory=dict)
    # What sources outside say about all of their tools, by name: texts that operators have approved.
    instructions: Mapping[str, str] = field(default_factory=dict)
    # The same object for all views of one build.
    build: object = field(default_factory=object)
    # The reach of the view.
    reach: Reach = EVERYWHERE
    # Of the whole hub, for a view.
    _originals: Mapping[str, Sequence[str]] | None = None
    _views: dict[Reach, Snapshot] = field(default_factory=dict)

    def seen_by(self, caller: Caller) -> Snapshot:
        """The view for this caller. Tools that it may see but not use have a refusal. Equal reaches share one view."""
        return self._view(caller.reach)

    def within(self, toolset: str) -> Snapshot:
        """The view of a caller that has this toolset only."""
        return self._view(Reach(frozenset({toolset})))

    def _view(self, reach: Reach) -> Snapshot:
        has_all_tools = reach.everything and (reach.outside or not self.has_outside)
        if has_all_tools and not reach.mode and (reach.connections is None or not self.has_accounts):
            return self
        view = self._views.get(reach)
        if view is None:
            if len(self._views) >= MOST_VIEWS:
                self._views.clear()
            view = self._views[reach] = self._within(reach)
        return view

    def _within(self, reach: Reach) -> Snapshot:
        # A deleted toolset contains nothing.
        choices = [self.toolsets[name] for name in sorted(reach.toolsets or ()) if name in self.toolsets]
        entries = {key: _limit(entry, reach) for key, entry in self.entries.items() if reach.includes(entry, choices)}
        if entries and (reader := self.entries.get(READER)) is not None and reader.pack == "builtin":
            # The tool that reads large answers comes with any tool.
            entries[READER] = _limit(reader, reach)
        if entries and any(mode_of(choice, reach) != Mode.DIRECT for choice in choices):
            # The tools that search for unlisted tools come with any such toolset.
            writes = any(entry.hints.writes for entry in entries.values())
            finders = (self.entries[name] for name in FINDERS if name in self.entries)
            entries |= {
                entry.folded_name: _limit(entry, reach)
                for entry in finders
                if entry.is_finder and (writes or not entry.hints.writes)
            }
        names = {name: key for name, key in self.names.items() if key in entries}
        for key, entry in entries.items():
            if entry.refusal is not None and not all(folded(name) in names for name in entry.refusal.names):
                entries[key] = replace(entry, refusal=_DISCREET)
        _apply_details(entries, choices)
        _rename(entries, names, choices)
        return replace(self, entries=entries, names=names, reach=reach, _originals=self.originals, _views={})

    def needs(self, entry: Entry) -> tuple[Dependency, ...]:
        """The dependencies of a tool that this view may reveal."""
        needs = entry.spec.needs
        return needs if self.reach.toolsets is None else tuple(need for need in needs if self.find(need.name))

    def find(self, name: str) -> Entry | None:
        """By name or alias; `a-b` finds `a_b`. A tool outside is also found by the name that its source uses, if only
        one tool here has it: descriptions by that source name its other tools so."""
        key = self.names.get(folded(name))
        if key is None:
            keys = [key for key in self.originals.get(name, ()) if key in self.entries]
            key = keys[0] if len(keys) == 1 else None
        return self.entries.get(key) if key is not None else None

    @cached_property
    def originals(self) -> Mapping[str, Sequence[str]]:
        """The keys of tools outside by original name, except those that any tool of this hub has as its name: a source
        must not get calls that are meant for another tool, even if this caller cannot use that."""
        if self._originals is not None:
            return self._originals
        originals: dict[str, list[str]] = {}
        for key, entry in self.entries.items():
            if entry.spec.is_outside and folded(entry.spec.key) not in self.names:
                originals.setdefault(entry.spec.key, []).append(key)
        return originals

    def matching(self, query: str) -> list[Entry]:
        """Tools that contain every word of the query; matches in names come first."""
        words = query.casefold().split()
        entries = []
        for entry in self.all:
            texts = entry.alias, entry.name, entry.title, entry.description, entry.category, *entry.tags
            text = " ".join(texts).casefold()
            if words and all(word in text for word in words):
                entries.append(entry)
        return sorted(entries, key=lambda entry: not all(word in f"{entry.alias} {entry.name}" for word in words))

    @cached_property
    def all(self) -> tuple[Entry, ...]:
        return tuple(sorted(self.entries.values(), key=lambda entry: entry.name))

    @cached_property
    def callable(self) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.all if entry.callable)

    def stopped(self, pack: str) -> Refusal | None:
        """The refusal for all tools of a pack, if an operator has stopped it, or the hub."""
        return obstacles.refusal(self.stops, pack)

    def needing(self, names: Collection[str]) -> dict[str, list[str]]:
        """The tools that depend on these: for each of them, the names of its dependents."""
        keys = {self.names.get(folded(name), "") for name in names}
        dependents: dict[str, list[str]] = {}
        for entry in self.all:
            for name in entry.spec.required:
                if (key := self.names.get(name, "")) in keys and key in self.entries:
                    dependents.setdefault(self.entries[key].name, []).append(entry.name)
        return dependents

    @cached_property
    def connection_kinds(self) -> dict[str, ConnectionKind]:
        """The kinds of accounts that packs need, by pack."""
        entries = (*self.entries.values(), *self.offers.values())
        return {entry.pack: entry.spec.connection for entry in entries if entry.spec.connection is not None}

    @cached_property
    def required_variables(self) -> set[str]:
        """The environment variables that packs need."""
        return {name for entry in (*self.entries.values(), *self.offers.values()) for name in entry.spec.requires}

    def accounts_of(self, pack: str) -> tuple[Account, ...]:
        """The accounts at the upstream of a pack."""
        return next((entry.accounts for entry in self.entries.values() if entry.pack == pack and entry.accounts), ())

    @cached_property
    def has_accounts(self) -> bool:
        """True if callers' permitted connections can make a difference."""
        return any(entry.accounts for entry in (*self.entries.values(), *self.offers.values()))

    @cached_property
    def has_outside(self) -> bool:
        return any(entry.is_outside for entry in (*self.entries.values(), *self.offers.values()))

    @property
    def choices(self) -> list[Choice]:
        """Those of the toolsets of this view. A deleted toolset contains nothing."""
        return [self.toolsets[name] for name in sorted(self.reach.toolsets or ()) if name in self.toolsets]


def _limit(entry: Entry, reach: Reach) -> Entry:
    if entry.accounts:
        entry = _with_accounts(entry, reach)
    kind = entry.beyond(reach)
    if not kind:
        return entry
    error = AuthorizationError.beyond(entry.name, kind)
    return replace(entry, refusal=Refusal(error.message, error.next_step))


def _apply_details(entries: dict[str, Entry], choices: Iterable[Choice]) -> None:
    """How much of each tool is shown; of several toolsets, the first by name that says so decides."""
    for choice in choices:
        if choice.detail:
            for key, entry in entries.items():
                if not entry.own_detail and (choice.holds(entry) or entry.is_finder or entry.name == READER):
                    entries[key] = replace(entry, own_detail=choice.detail)


def _rename(entries: dict[str, Entry], names: dict[str, str], choices: Iterable[Choice]) -> None:
    """Apply the names and descriptions that toolsets override; of several toolsets, the first by name wins.

    An override never takes the name of another tool: tools may be added after an operator's decision.
    """
    for choice in choices:
        for key, override in choice.overrides.items():
            entry = entries.get(key)
            if entry is None or not choice.holds(entry):
                continue
            if override.description and not entry.own_words:
                entry = replace(entry, own_words=override.description)
            alias = folded(override.name)
            if alias and not entry.alias and names.get(alias, key) == key:
                entry = replace(entry, alias=override.name)
                names[alias] = key
            entries[key] = entry


def mode_of(choice: Choice | None, reach: Reach) -> Mode:
    """The list mode for the tools of a caller's toolset, or for all tools if it has none."""
    return Mode(reach.mode or (choice.mode if choice is not None else "") or conf.value("TOOLHUB_LIST_MODE"))


def _with_accounts(entry: Entry, reach: Reach) -> Entry:
    """The entry with the caller's accounts only; without any, the tool cannot be called."""
    permitted = tuple(account for account in entry.accounts if reach.through(account))
    kind, writes = entry.connection_kind, entry.hints.writes
    if kind is None or len(permitted) == len(entry.accounts):
        return entry
    refusal = entry.refusal
    if refusal is None or refusal == accounts.refusal(kind, entry.accounts, writes=writes):
        # The state of other callers' accounts must not be revealed.
        refusal = accounts.refusal(kind, permitted, writes=writes)
    return replace(entry, accounts=permitted, refusal=refusal)


NOTHING: Final = Snapshot()
