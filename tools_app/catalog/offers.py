"""What clients are told of the prompts and resources of a caller: lists, when these change, and what a URI means."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import cached_property
from weakref import WeakKeyDictionary

from tools_app.catalog import available
from tools_app.catalog.entry import Entry
from tools_app.catalog.snapshot import Snapshot
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
        offers = _cached_offers[view] = Offers(available.offers(view))
    return offers


def unmet(snapshot: Snapshot) -> list[str]:
    """Prompts and resources that no caller can get, since they need tools that do not exist."""
    problems = []
    for entry in snapshot.offers.values():
        if missing := [name for name in entry.spec.tools if snapshot.find(name) is None]:
            kind, names = entry.spec.kind.family, ", ".join(missing)
            problems.append(f"{entry.spec.place}: {kind} {entry.spec.key} needs tools that do not exist: {names}")
    return problems


def _digest(entries: Iterable[Entry]) -> str:
    wires = [wire(entry.spec) for entry in entries]
    return hashlib.sha256(json.dumps(wires, sort_keys=True).encode(errors="replace")).hexdigest()
