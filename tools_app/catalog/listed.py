"""Which tools stand in the list that an agent is sent, how they look there, and what that costs the agent.

What does not stand there is found with `search_tools`, and called with `call_tool` or by its name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

from tools_app.answers import with_outline
from tools_app.base import conf
from tools_app.catalog.entry import READER, Entry
from tools_app.catalog.snapshot import Snapshot, mode_of
from tools_app.sdk.reach import Mode
from tools_app.sdk.tool import Tool
from tools_app.text.budget import size_of, tokens_of

WireTool = dict[str, Any]

# Without these two, nobody could use what is not listed.
_NEEDED: Final = frozenset({"search_tools", "call_tool"})

_listed: WeakKeyDictionary[Snapshot, tuple[Entry, ...]] = WeakKeyDictionary()
_digests: WeakKeyDictionary[Snapshot, str] = WeakKeyDictionary()
_costs: WeakKeyDictionary[Snapshot, dict[str, int]] = WeakKeyDictionary()
# By all that is shown of a tool.
_cost_of: dict[tuple[object, ...], int] = {}
MOST_KNOWN: Final = 60_000


def as_listed(entry: Entry, tool: Tool) -> WireTool:
    """What stands in the list. The tool is the entry's own, which is there as long as it can be called."""
    wire: WireTool = {
        "name": entry.shown_name,
        "description": entry.description,
        "inputSchema": entry.input_schema,
        "annotations": tool.hints.as_dict(),
        "_meta": {
            "toolhub/version": entry.version,
            "toolhub/category": entry.category,
            "toolhub/tags": list(entry.tags),
        },
    }
    if tool.deprecated:
        wire["_meta"]["toolhub/deprecated"] = tool.deprecated
    if entry.title:
        wire["title"] = entry.title
    if tool.picture is not None:
        wire["icons"] = [tool.picture.as_dict()]
    if (output := listed_output(tool)) is not None:
        wire["outputSchema"] = with_outline(output)
    return wire


def listed_output(tool: Tool) -> dict[str, Any] | None:
    """The output schema that clients are shown. Those of the handshake era know only objects."""
    schema = tool.output_schema
    return schema if schema is not None and schema.get("type") == "object" else None


def cost(entry: Entry) -> int:
    """About how many tokens a tool takes in a list; none where this process has not loaded it."""
    return tokens_of(size_of(as_listed(entry, entry.tool))) if entry.tool is not None else 0


def costs(snapshot: Snapshot) -> dict[str, int]:
    """About how many tokens each tool takes in a list, by its name. What this process has not loaded takes none."""
    found = _costs.get(snapshot)
    if found is None:
        found = _costs[snapshot] = {entry.name: _known_cost(entry) for entry in snapshot.all if entry.tool is not None}
    return found


def _known_cost(entry: Entry) -> int:
    """A switch or a new key makes another snapshot, and few tools differ in it."""
    shown = entry.shown_name, entry.definition_hash, entry.title, entry.description, entry.category, entry.tags
    key = *shown, entry.version, entry.choices
    found = _cost_of.get(key)
    if found is None:
        if len(_cost_of) >= MOST_KNOWN:
            _cost_of.clear()
        found = _cost_of[key] = cost(entry)
    return found


def cost_of_list(seen: Snapshot) -> int:
    """About how many tokens the list takes that an agent is sent."""
    known = costs(seen)
    return sum(known[entry.name] for entry in listed(seen))


def listed(seen: Snapshot) -> tuple[Entry, ...]:
    """The tools that stand in the list of whoever sees these, by the names that they have there."""
    found = _listed.get(seen)
    if found is None:
        found = _listed[seen] = tuple(sorted(_chosen(seen), key=lambda entry: entry.shown_name))
    return found


def digest(seen: Snapshot) -> str:
    """Differs exactly when agents are listed something else."""
    found = _digests.get(seen)
    if found is None:
        digested = hashlib.sha256()
        for entry in listed(seen):
            shown = (entry.shown_name, entry.title, entry.tags, entry.definition_hash, *entry.choices)
            digested.update(f"{shown}{entry.description}\n".encode())
        found = _digests[seen] = digested.hexdigest()
    return found


def _chosen(seen: Snapshot) -> Sequence[Entry]:
    finders = [entry for entry in seen.callable if entry.is_finder]
    others = [entry for entry in seen.callable if not entry.is_finder]
    if not {entry.name for entry in finders} >= _NEEDED:
        return others
    shown, undecided = {READER}, set()
    for mode, part in _parts(seen, others):
        names = {entry.name for entry in part}
        if mode == Mode.DIRECT:
            shown |= names
        elif mode == Mode.AUTO:
            undecided |= names
    if undecided and _fits(seen, [entry for entry in others if entry.name in shown | undecided]):
        shown |= undecided
    kept = [entry for entry in others if entry.name in shown]
    return kept if len(kept) == len(others) else [*kept, *finders]


def _parts(seen: Snapshot, others: Sequence[Entry]) -> Iterator[tuple[Mode, Sequence[Entry]]]:
    """The tools of each toolset, with the mode in which they are shown; a tool may be in several."""
    reach = seen.reach
    if reach.toolsets is None:
        yield mode_of(None, reach), others
        return
    for name in reach.toolsets:
        if (choice := seen.toolsets.get(name)) is not None:
            yield mode_of(choice, reach), [entry for entry in others if choice.holds(entry)]


def _fits(seen: Snapshot, list_: Sequence[Entry]) -> bool:
    """Whether a list is short enough, all of it: an agent with ten short toolsets reads a long one."""
    known = costs(seen)
    return sum(known[entry.name] for entry in list_) <= int(conf.value("TOOLHUB_LIST_TOKENS"))
