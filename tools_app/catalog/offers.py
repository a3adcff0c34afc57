"""The prompts and resources of a caller: those of its packs and toolsets, if it may use all tools that they need."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from weakref import WeakKeyDictionary

from tools_app.catalog.entry import Entry
from tools_app.catalog.snapshot import Snapshot
from tools_app.sdk.accounts import Account
from tools_app.sdk.offered import wire
from tools_app.sdk.spec import Kind
from tools_app.sdk.uris import UriTemplate


class Offers:
    """The prompts and resources of a caller, each kind in the order of its keys."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        by_kind: dict[Kind, dict[str, Entry]] = {Kind.PROMPT: {}, Kind.RESOURCE: {}, Kind.TEMPLATE: {}}
        for entry in sorted(entries, key=lambda entry: entry.spec.shown_key):
            by_kind[entry.spec.kind][entry.spec.shown_key] = entry
        self.prompts: Mapping[str, Entry] = by_kind[Kind.PROMPT]
        self.resources: Mapping[str, Entry] = by_kind[Kind.RESOURCE]
        self.templates: Mapping[str, Entry] = by_kind[Kind.TEMPLATE]

    def resource(self, uri: str) -> tuple[Entry, dict[str, str]] | None:
        """The resource at a URI, with the values of its placeholders. An exact match precedes templates."""
        if (fixed := self.resources.get(uri)) is not None:
            return fixed, {}
        for text, template in self._templates.items():
            if (values := template.values(uri)) is not None:
                return self.templates[text], values
        return None

    @cached_property
    def _templates(self) -> dict[str, UriTemplate]:
        return {text: UriTemplate(text) for text in self.templates}

    @cached_property
    def prompts_digest(self) -> str:
        """Changes exactly when the list of prompts changes."""
        return _digest(self.prompts.values())

    @cached_property
    def resources_digest(self) -> str:
        return _digest((*self.resources.values(), *self.templates.values()))


_cached_offers: WeakKeyDictionary[Snapshot, Offers] = WeakKeyDictionary()


def of(view: Snapshot) -> Offers:
    """The offers for this view of a snapshot; all callers with the same reach share one view."""
    offers = _cached_offers.get(view)
    if offers is None:
        offers = _cached_offers[view] = Offers(entry for entry in view.offers.values() if _is_available(entry, view))
    return offers


def runnable(entry: Entry, view: Snapshot) -> Entry:
    """An offer as a call takes it. It has no parameter for the account: it uses the caller's only one, or none."""
    if entry.origin is not None:
        return replace(entry, accounts=_of_source(entry, view))
    accounts = view.accounts_of(entry.pack)
    return replace(entry, accounts=accounts if len(accounts) == 1 else ())


def _of_source(entry: Entry, view: Snapshot) -> tuple[Account, ...]:
    """The caller's only account at a source outside, or that with which the source is described."""
    permitted = tuple(account for account in entry.accounts if view.reach.through(account.name))
    if len(permitted) <= 1 or entry.origin is None:
        return permitted
    return tuple(account for account in permitted if account.name == entry.origin.connection)


def find(view: Snapshot, kind: Kind, address: str) -> Entry | None:
    """A prompt, resource or completion by its address."""
    argument = ""
    if kind is Kind.COMPLETION:
        address, _, argument = address.rpartition(":")
    offers = of(view)
    for entry in (*offers.prompts.values(), *offers.resources.values(), *offers.templates.values()):
        if entry.spec.address == address and (kind is Kind.COMPLETION or entry.spec.kind is kind):
            return runnable(entry.completion(argument) if argument else entry, view)
    return None


def unmet(snapshot: Snapshot) -> list[str]:
    """Prompts and resources that no caller can get, since they need tools that do not exist."""
    problems = []
    for entry in snapshot.offers.values():
        if missing := [name for name in entry.spec.tools if snapshot.find(name) is None]:
            kind, names = entry.spec.kind.family, ", ".join(missing)
            problems.append(f"{entry.spec.place}: {kind} {entry.spec.key} needs tools that do not exist: {names}")
    return problems


def _is_available(entry: Entry, view: Snapshot) -> bool:
    if entry.refusal is not None:
        return False
    if entry.origin is not None:
        # Without any connection, a source outside is called without credentials.
        if entry.accounts and not _of_source(entry, view):
            return False
    elif entry.spec.connection is not None and not view.accounts_of(entry.pack):
        return False
    for name in entry.spec.tools:
        tool = view.find(name)
        if tool is None or not tool.callable:
            return False
    # A caller that may use all its tools may use it. Without tools, toolsets select it by its own labels.
    if entry.spec.tools:
        return True
    return view.reach.includes(entry, view.choices)


def _digest(entries: Iterable[Entry]) -> str:
    wires = [wire(entry.spec) for entry in entries]
    return hashlib.sha256(json.dumps(wires, sort_keys=True).encode(errors="replace")).hexdigest()
