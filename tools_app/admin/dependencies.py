"""Which tools need which: said where somebody switches one off that others cannot do without."""

from __future__ import annotations

from collections.abc import Iterable

from tools_app.catalog import Entry, Snapshot
from tools_app.tool import folded


def needed_by(entry: Entry, snapshot: Snapshot) -> list[Entry]:
    """The tools that need this one, whether or not they are on."""
    return [other for other in snapshot.all if entry in needs(other, snapshot)]


def needs(entry: Entry, snapshot: Snapshot) -> list[Entry]:
    """The tools that this one needs, as far as they are there."""
    named = entry.tool.needs if entry.tool is not None else ()
    found = (snapshot.find(need.name) for need in named)
    return [other for other in found if other is not None and other is not entry]


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
