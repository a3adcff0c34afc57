"""The matching tools of a saved or unsaved toolset, and the tokens that an agent spends to list them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from django.utils.translation import ngettext

from tools_app import governance
from tools_app.admin import phrases
from tools_app.admin.toolset_form import choices
from tools_app.catalog import listed, projection
from tools_app.catalog.entry import READER, Entry
from tools_app.catalog.snapshot import Snapshot
from tools_app.models import Toolset
from tools_app.sdk.names import folded
from tools_app.sdk.reach import Choice

MOST_SHOWN: Final = 100


@dataclass(frozen=True, slots=True)
class PreviewTool:
    name: str
    tokens: int
    obstacle: str


@dataclass(frozen=True, slots=True)
class Preview:
    tools: Sequence[PreviewTool]
    count: int
    tokens: int
    """Of callable tools: others are not listed."""
    listed_tokens: int
    """Tokens of the list that agents receive: fewer than `tokens` in search mode."""
    by_detail: Sequence[tuple[str, int]]
    """Tokens of that list in each detail."""
    idle: Sequence[str]
    reader: str
    """The tool that reads large answers, if it is included automatically."""
    clients: Sequence[str]
    """Which clients do not accept the list, or tools in it."""

    @property
    def more(self) -> int:
        return self.count - len(self.tools)


def of(toolset: Toolset, snapshot: Snapshot) -> Preview:
    choice = toolset.choice()
    view = _toolset_view(toolset.name, choice, snapshot)
    costs = listed.costs(view)
    entries = [entry for entry in snapshot.all if choice.holds(entry)]
    reader = snapshot.entries.get(READER)
    extra = [reader] if entries and reader is not None and reader.pack == "builtin" and reader not in entries else []
    listed_ones = (entry for entry in (*entries, *extra) if entry.callable and not entry.is_finder)
    tokens = sum(costs.get(entry.name, 0) for entry in listed_ones)
    return Preview(
        tools=[_preview_tool(entry, costs.get(entry.name, 0)) for entry in entries[:MOST_SHOWN]],
        count=len(entries),
        tokens=tokens,
        listed_tokens=listed.cost_of_list(view),
        by_detail=[(detail.value, cost) for detail, cost in listed.costs_by_detail(view).items()],
        idle=_idle(toolset, snapshot),
        reader=extra[0].name if extra else "",
        clients=_client_findings(view),
    )


def _client_findings(view: Snapshot) -> list[str]:
    """As an agent with this toolset gets its list."""
    entries = listed.listed(view)
    found = [one for entry in entries for one in projection.findings(entry.shown_name, entry.input_schema)]
    counts = [
        ngettext("%(client)s: %(n)s tool is not accepted", "%(client)s: %(n)s tools are not accepted", number)
        % {"client": client, "n": f"{number:,}"}
        for client, number in projection.by_client(found).items()
    ]
    return [*phrases.all_spoken(map(str, projection.list_findings(len(entries)))), *counts]


def _toolset_view(name: str, choice: Choice, snapshot: Snapshot) -> Snapshot:
    """The tools of this toolset, saved or not, as a caller sees them."""
    if snapshot.toolsets.get(name) != choice:
        snapshot = replace(snapshot, toolsets={**snapshot.toolsets, name: choice}, _views={})
    return snapshot.within(name)


def _preview_tool(entry: Entry, tokens: int) -> PreviewTool:
    return PreviewTool(entry.name, tokens, entry.refusal.reason if entry.refusal is not None else "")


def _idle(toolset: Toolset, snapshot: Snapshot) -> list[str]:
    """Selected names that match no tool."""
    idle_names = []
    for part in governance.SELECTORS:
        there = {folded(name) if part == "names" else name for name, _ in choices(part, snapshot.all, ())}
        names = getattr(toolset, part)
        idle_names += [name for name in names if (folded(name) if part == "names" else name) not in there]
    return idle_names
