"""Dependencies between tools, shown before a tool is switched off that others require."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.utils.translation import gettext as _

from tools_app.catalog.entry import Entry
from tools_app.catalog.snapshot import Snapshot
from tools_app.sdk.names import folded


def needed_by(entry: Entry, snapshot: Snapshot) -> list[Entry]:
    """The tools that need this one, enabled or not."""
    return [other for other in snapshot.all if entry in needs(other, snapshot)]


def needs(entry: Entry, snapshot: Snapshot) -> list[Entry]:
    """The tools that this one needs and that exist."""
    entries = (snapshot.find(need.name) for need in entry.spec.needs)
    return [other for other in entries if other is not None and other is not entry]


@dataclass(frozen=True, slots=True)
class NeedRow:
    """A requirement as its author wrote it. `fault`: why it is not met."""

    words: str
    name: str
    optional: bool
    there: bool
    fault: str


def need_rows(entry: Entry, snapshot: Snapshot) -> list[NeedRow]:
    """All requirements of a tool, also unmet ones."""
    needs = []
    for need in entry.spec.needs:
        other = snapshot.find(need.name)
        if other is None:
            fault = _("missing")
        elif not need.accepts(other.version):
            fault = _("version %(version)s is installed") % {"version": other.version}
        else:
            fault = other.refusal.reason if other.refusal is not None else ""
        name = other.name if other is not None else need.name
        needs.append(NeedRow(str(need), name, need.optional, other is not None, fault))
    return needs


def left_without(names: Iterable[str], snapshot: Snapshot) -> list[tuple[Entry, list[str]]]:
    """Enabled tools that require some of these, each with the names that it would lack."""
    removed_names = {folded(name) for name in names}
    entries = []
    for entry in snapshot.all:
        if entry.enabled and entry.folded_name not in removed_names:
            missing_needs = [other.name for other in needs(entry, snapshot) if other.folded_name in removed_names]
            if missing_needs:
                entries.append((entry, missing_needs))
    return entries
