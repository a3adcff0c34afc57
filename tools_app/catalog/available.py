"""The prompts and resources of a caller: those of its packs and toolsets, if it may use all tools that they need."""

from __future__ import annotations

from dataclasses import replace
from weakref import WeakKeyDictionary

from tools_app.catalog.entry import Entry
from tools_app.catalog.snapshot import Snapshot
from tools_app.sdk.accounts import Account
from tools_app.sdk.spec import Kind

_cached_offers: WeakKeyDictionary[Snapshot, tuple[Entry, ...]] = WeakKeyDictionary()


def offers(view: Snapshot) -> tuple[Entry, ...]:
    """All of this view of a snapshot; all callers with the same reach share one view."""
    available = _cached_offers.get(view)
    if available is None:
        available = tuple(entry for entry in view.offers.values() if _is_available(entry, view))
        _cached_offers[view] = available
    return available


def find(view: Snapshot, kind: Kind, address: str) -> Entry | None:
    """A prompt, resource or completion by its address."""
    argument = ""
    if kind is Kind.COMPLETION:
        address, _, argument = address.rpartition(":")
    for entry in offers(view):
        if entry.spec.address == address and (kind is Kind.COMPLETION or entry.spec.kind is kind):
            return _runnable(entry.completion(argument) if argument else entry, view)
    return None


def _runnable(entry: Entry, view: Snapshot) -> Entry:
    """An offer as a call takes it. It has no parameter for the account: it uses the caller's only one, or none."""
    if entry.origin is not None:
        return replace(entry, accounts=_of_source(entry, view))
    accounts = view.accounts_of(entry.pack)
    return replace(entry, accounts=accounts if len(accounts) == 1 else ())


def _of_source(entry: Entry, view: Snapshot) -> tuple[Account, ...]:
    """The caller's only account at a source outside, or that with which the source is described."""
    permitted = tuple(account for account in entry.accounts if view.reach.through(account))
    if len(permitted) <= 1 or entry.origin is None:
        return permitted
    return tuple(account for account in permitted if account.name == entry.origin.connection)


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
    if entry.spec.skill:
        # Instructions for a pack are of use to those who can use any of its tools.
        return any(tool.pack == entry.pack and tool.callable for tool in view.all)
    # A caller that may use all its tools may use it. Without tools, toolsets select it by its own labels.
    if entry.spec.tools:
        return True
    return view.reach.includes(entry, view.choices)
