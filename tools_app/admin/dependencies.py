"""Dependencies between tools: shown before a tool is switched off that others require."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.utils.translation import gettext as _

from tools_app.catalog.entry import Entry
from tools_app.catalog.snapshot import Snapshot
from tools_app.sdk.names import folded


def needed_by(entry: Entry, snapshot: Snapshot) -> list[Entry]:
    """The tools that need this one, whether or not they are on."""
    return [other for other in snapshot.all if entry in needs(other, snapshot)]


def needs(entry: Entry, snapshot: Snapshot) -> list[Entry]:
    """The tools that this one needs, as far as they are there."""
    named = entry.tool.needs if entry.tool is not None else ()
    found = (snapshot.find(need.name) for need in named)
    return [other for other in found if other is not None and other is not entry]


@dataclass(frozen=True, slots=True)
class Need:
    """One of the tools that a tool needs, as its author wrote it, and what is wrong with that."""

    words: str
    name: str
    optional: bool
    there: bool
    fault: str


def written(entry: Entry, snapshot: Snapshot) -> list[Need]:
    """All that this one needs, also what is not there."""
    found = []
    for need in entry.tool.needs if entry.tool is not None else ():
        other = snapshot.find(need.name)
        if other is None:
            fault = _("missing")
        elif not need.accepts(other.version):
            fault = _("version %(version)s is installed") % {"version": other.version}
        else:
            fault = other.refusal.reason if other.refusal is not None else ""
        name = other.name if other is not None else need.name
        found.append(Need(str(need), name, need.optional, other is not None, fault))
    return found


def left_without(names: Iterable[str], snapshot: Snapshot) -> list[tuple[Entry, list[str]]]:
    """Other tools that are on and need some of these, each with what it would be without."""
    going = {folded(name) for name in names}
    found = []
    for entry in snapshot.all:
        if entry.enabled and entry.folded_name not in going:
            lost = [other.name for other in needs(entry, snapshot) if other.folded_name in going]
            if lost:
                found.append((entry, lost))
    return found
