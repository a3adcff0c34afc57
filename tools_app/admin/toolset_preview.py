"""The matching tools of a saved or unsaved toolset, and the tokens that an agent spends to list them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tools_app import governance
from tools_app.admin.toolset_form import choices
from tools_app.catalog import listed
from tools_app.catalog.entry import READER, Entry
from tools_app.catalog.snapshot import Snapshot
from tools_app.models import Toolset
from tools_app.sdk.names import folded
from tools_app.sdk.reach import Choice

MOST_SHOWN: Final = 100


@dataclass(frozen=True, slots=True)
class Held:
    name: str
    tokens: int
    obstacle: str


@dataclass(frozen=True, slots=True)
class Preview:
    tools: Sequence[Held]
    count: int
    tokens: int
    """Of those that can be called: others are not listed."""
    sent: int
    """What agents are sent instead, where they find these tools by searching; else the same."""
    idle: Sequence[str]
    reader: str
    """The tool that reads what is too large of the answers of others, where it comes without having been chosen."""

    @property
    def more(self) -> int:
        return self.count - len(self.tools)


def of(toolset: Toolset, snapshot: Snapshot) -> Preview:
    choice = toolset.choice()
    costs = listed.costs(snapshot)
    held = [entry for entry in snapshot.all if choice.holds(entry)]
    reader = snapshot.entries.get(READER)
    extra = [reader] if held and reader is not None and reader.pack == "builtin" and reader not in held else []
    listed_ones = (entry for entry in (*held, *extra) if entry.callable and not entry.is_finder)
    tokens = sum(costs.get(entry.name, 0) for entry in listed_ones)
    return Preview(
        tools=[_held(entry, costs.get(entry.name, 0)) for entry in held[:MOST_SHOWN]],
        count=len(held),
        tokens=tokens,
        sent=listed.cost_of_list(_seen(toolset.name, choice, snapshot)),
        idle=_idle(toolset, snapshot),
        reader=extra[0].name if extra else "",
    )


def _seen(name: str, choice: Choice, snapshot: Snapshot) -> Snapshot:
    """The tools of this toolset, saved or not, as a caller sees them."""
    if snapshot.toolsets.get(name) != choice:
        snapshot = replace(snapshot, toolsets={**snapshot.toolsets, name: choice}, _views={})
    return snapshot.within(name)


def _held(entry: Entry, tokens: int) -> Held:
    return Held(entry.name, tokens, entry.refusal.reason if entry.refusal is not None else "")


def _idle(toolset: Toolset, snapshot: Snapshot) -> list[str]:
    """What fits no tool now: not yet, not any more, or a slip of the pen."""
    found = []
    for part in governance.SELECTORS:
        there = {folded(name) if part == "names" else name for name, _ in choices(part, snapshot.all, ())}
        chosen = getattr(toolset, part)
        found += [name for name in chosen if (folded(name) if part == "names" else name) not in there]
    return found
